//! Keeps the live state of players, guilds and rooms in Redis, and lands it in MySQL in batches.
//!
//! ```
//! # storage_doc::in_folder(async || {
//! use serde::{Deserialize, Serialize};
//! use storage_sdk::{SaveObject, Storage};
//!
//! #[derive(Serialize, Deserialize, SaveObject)]
//! #[save_object(logic_type = "hero")]
//! struct Hero { #[save_object(owner_id)] id: u64, gold: u32 }
//!
//! let storage = Storage::embedded("game.db").await?;
//! let heroes = storage.world("mygame", "eu-1")?.objects::<Hero>();
//! heroes.save(&Hero { id: 42, gold: 10 }).await?;
//! let gold = heroes.edit(42_u64, |hero| { hero.gold += 5; hero.gold }).await?;
//! assert_eq!(gold, Some(15));
//! storage.close(std::time::Duration::from_secs(10)).await;
//! # Ok(()) });
//! ```
//!
//! The example runs in embedded mode: the hot tier is the memory of the process, and the cold tier
//! is a SQLite file. With [`Storage::open`] the same calls go to Redis and MySQL.
//!
//! A read or write of a hot owner costs one round trip to the hot tier. Each write marks its
//! changes, and landing workers write the marked rows to the database. A read of a cold owner loads
//! it from the database. [`Storage`] is the entry point.
//!
//! In the examples `storage` is an open storage, `world` a world of it, and `bytes` the owners of that world. `ann` and `bo` are two
//! of these owners. `heroes` are objects of a type `Hero` with the fields `id` and `level`.
//!
//! The book has a guide with examples for each part, and the guarantees and limits. It is the folder `book`
//! of the repository, and `./scripts/book` builds it as HTML.
//!
//! | items | concept |
//! | --- | --- |
//! | [`Storage`], [`StorageBuilder`] | open, stats, close, and a storage with other parts |
//! | [`World`] | the owners of one app and region |
//! | [`ByteStorage`], [`ByteOwner`], [`Record`], [`Value`] | bytes per field |
//! | [`ObjStorage`], [`SaveObject`], [`codec`] | serde objects, their places and their bytes |
//! | [`Write`], [`Ack`], [`Counters`] | condition, durability, deadline and id of a write, and its acknowledgement |
//! | [`Transaction`], [`Part`], [`Receipt`] | several owners in one step, with bounds and conditions |
//! | [`Bulk`] | many writes in one call |
//! | [`Sessions`], [`Session`], [`Entities`] | one server at a time writes an owner |
//! | [`feed`] | changes in their order, landed or at once |
//! | [`layer`] | the door for layers above the storage |
//! | [`OwnerPages`] | the list of owners |
//! | [`Durability`], [`Safety`] | the safety that a write asks for, and the safety that it reached |
//! | [`Backup`] | a copy of an embedded database while the game runs |
//! | [`Error`], [`Kind`] | failures, and the reaction of a caller |

extern crate self as storage_sdk;

mod ack;
mod background;
mod backpressure;
mod backup;
#[cfg(doctest)]
mod book;
mod builder;
mod bulk;
mod byte;
pub mod codec;
mod core;
mod durability;
#[cfg(feature = "engines")]
pub mod engines;
mod error;
pub mod feed;
pub mod layer;
mod measure;
mod object;
mod owners;
mod read;
mod refresh;
mod save_object;
mod session;
mod storage;
mod transaction;
mod unheard;
mod value;
mod world;
mod write;

pub use ack::{Ack, Counters};
pub use backup::Backup;
pub use builder::StorageBuilder;
pub use bulk::Bulk;
pub use byte::{ByteOwner, ByteStorage};
pub use durability::Safety;
pub use error::{Error, Kind, Result};
pub use object::{ModifyError, ObjStorage, Save, Versioned};
pub use owners::OwnerPages;
pub use read::Record;
pub use save_object::{InGroup, OwnerId, SaveObject};
pub use session::{
    Autosave, ByteSession, Closed, Entities, EntityOptions, LossReason, ObjectRef, OnConflict,
    Otherwise, SaveSession, Session, SessionOptions, SessionState, Sessions,
};
pub use storage::{CloseReport, Stats, Storage};
pub use transaction::{Part, Receipt, Transaction};
pub use value::Value;
pub use world::World;
pub use write::Write;

/// The sections of [`Settings`], and the types of their values.
pub mod settings {
    pub use storage_config::{
        BackpressureSettings, DurabilitySettings, FeedSettings, HotSettings, LandingSettings,
        MysqlAddress, RedisSettings, Secret, SessionSettings, SinkSettings, SqlSettings, TlsMode,
        WebUrl,
    };
    pub use storage_model::parse_duration;
}

pub use storage_config::{ColdUrl, ConfigError, HotUrl, Settings};
pub use storage_model::{
    Bytes, Clock, Durability, Evicted, Field, Flushed, Ids, LimitError, Limits, ManualClock,
    NameError, OpId, Outcome, Owner, RandomIds, Retry, Scope, SeededIds, SystemClock, Timestamp,
    Version,
};
pub use storage_sdk_derive::SaveObject;
pub(crate) use storage_tiers::Home;
