//! The storage SDK that a game server links.
//!
//! Reads and writes go to the hot tier and cost one round trip; what was written lands in the
//! database by itself, and what is cold is loaded from there. See [`Storage`] for where to begin.
//!
//! | module | concept |
//! | --- | --- |
//! | [`storage`] | [`Storage`]: open, stats, close |
//! | [`builder`] | [`StorageBuilder`]: putting a storage together |
//! | [`scope`] | [`World`]: the owners of one app and region |
//! | [`byte`] | [`ByteStorage`], [`ByteOwner`]: bytes per field |
//! | [`object`] | [`ObjStorage`]: serde objects |
//! | [`save_object`] | [`SaveObject`]: what a type says about where its objects are stored |
//! | [`codec`] | objects to bytes and back |
//! | [`write`](mod@write) | [`Write`]: condition, durability, deadline and id of a write |
//! | [`read`] | [`Record`]: what a read found |
//! | [`value`] | [`Value`]: what a field is set to |
//! | [`bulk`] | [`Bulk`]: many writes in one call |
//! | [`session`] | [`Session`], [`Entities`]: one server at a time writes an owner |
//! | [`owners`] | [`OwnerPages`]: listing |
//! | [`durability`] | [`Durability`], [`Safety`]: what a write waits for, and what was reached |
//! | [`ack`] | [`Ack`], [`Counters`]: what an acknowledged write says of itself |
//! | [`error`] | [`Error`], [`Kind`]: what a caller can do about a failure |

extern crate self as storage_sdk;

pub mod ack;
mod background;
mod brake;
pub mod builder;
pub mod bulk;
pub mod byte;
pub mod codec;
mod core;
pub mod durability;
pub mod error;
pub mod object;
pub mod owners;
pub mod read;
pub mod save_object;
pub mod scope;
pub mod session;
pub mod storage;
mod touch;
mod unheard;
pub mod value;
pub mod write;

pub use ack::{Ack, Counters};
pub use builder::StorageBuilder;
pub use bulk::Bulk;
pub use byte::{ByteOwner, ByteStorage};
pub use durability::Safety;
pub use error::{Error, Kind, Result};
pub use object::{ModifyError, ObjStorage, Save, Versioned};
pub use owners::OwnerPages;
pub use read::Record;
pub use save_object::{OwnerId, SaveObject};
pub use scope::World;
pub use session::{
    Autosave, ByteSession, Closed, Entities, EntityOptions, LossReason, ObjectRef, OnConflict,
    Otherwise, SaveSession, Session, SessionOptions, SessionState, Sessions,
};
pub use storage::{CloseReport, Stats, Storage};
pub use value::Value;
pub use write::Write;

pub use storage_config::{ColdUrl, ConfigError, HotUrl, Settings};
pub use storage_dirty::{Evicted, HotStore};
pub use storage_model::{
    Bytes, Clock, Durability, Field, Ids, ManualClock, OpId, Outcome, Owner, RandomIds, Retry,
    Scope, SeededIds, SystemClock, Timestamp, Version,
};
pub use storage_sdk_derive::SaveObject;
pub use storage_sql::ColdStore;
pub(crate) use storage_tiers::Home;
pub use storage_tiers::{Flushed, Tiers};

/// The examples of the README, compiled and run with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
