//! The cold tier: versioned rows in MySQL, MariaDB or SQLite.
//!
//! | module | concept |
//! | --- | --- |
//! | [`store`] | [`Cold`]: the parts of a database, and the contract of each |
//! | [`batch`] | [`Batch`], [`Fence`], [`Loaded`], [`PartitionRecord`]: the data of calls |
//! | [`pairing`] | [`ColdPairing`], [`Pair`]: the hot tier that the database belongs to |
//! | [`error`] | [`ColdError`], [`LandError`]: errors, by the caller's possible reaction |
//! | [`open`](mod@open) | [`open()`], [`migrate()`]: from settings to a store |
//! | [`schema`] | [`SchemaState`]: whether the tables fit the program |
//! | `access` | what a store may do to its database |
//! | `engine` | the interface for modules with statements of their own |
//! | `statement`, `registry` | the statements of all modules, and their texts |
//! | `exec`, `pool`, `connections`, `session` | the way of a statement to the database |
//! | `database` | the check of the schema before any work |
//! | `cold`, `read`, `owners`, `partition` | the implementation that both engines share |
//! | `hot` | the hot tiers that land, and which of them has each partition |
//! | `feed` | events of the feed, and rows that are ahead of them |
//! | `sink` | how far sinks have got, and the events that they refused |
//! | `range` | rows of the owners between two ids |
//! | `sweep` | deletes rows of purged fields |
//! | `hooks` | rows that follow from landed rows, by definitions in the database |
//! | `land`, `fence`, `writer`, `upsert`, `canary`, `split` | the landing transaction |
//! | `fault`, `classify` | the meaning of the database's error numbers |
//! | [`claims`] | the plans of services that answer from shards, and who claims each shard |
//! | `mysql`, `sqlite` | the two engines: connections and drivers |
//! | `toy` (feature) | a small layer, which shows what a layer adds |
//! | `conformance` (feature) | the suite that every engine passes |

#![cfg_attr(
    not(all(feature = "mysql", feature = "sqlite")),
    allow(dead_code, reason = "one engine needs less of what both share")
)]
#[cfg(not(any(feature = "mysql", feature = "sqlite")))]
compile_error!("turn on an engine of the cold tier: the feature mysql or sqlite");

mod access;
pub mod batch;
pub mod claims;
pub mod error;
pub mod open;
pub mod schema;
pub mod store;

#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
#[cfg(feature = "conformance")]
pub mod conformance;

mod canary;
mod classify;
mod cold;
mod connections;
mod database;
mod engine;
mod exec;
mod fault;
mod feed;
mod fence;
mod hooks;
mod hot;
mod land;
#[cfg(feature = "mysql")]
mod mysql;
mod owners;
pub mod pairing;
mod partition;
mod pool;
mod range;
mod read;
mod registry;
#[cfg(any(test, feature = "sabotage"))]
mod sabotage;
mod session;
mod sink;
mod split;
#[cfg(feature = "sqlite")]
mod sqlite;
mod statement;
mod sweep;
#[cfg(feature = "toy")]
pub mod toy;
mod upsert;
mod writer;

pub use batch::{
    Batch, Events, FeedEnds, Fence, Hook, HotTier, Loaded, Parked, PartitionRecord, PurgedPage,
    Raise, Raised, RowKey,
};
pub use error::{ColdError, ColdKind, LandError, RowFault};
pub use open::{Alone, Opening, is_in_use, migrate, open, pending_sql, schema_state};
pub use pairing::{ColdPairing, Pair};
pub use range::{RangeStore, RowRange};
pub use registry::Layers;
pub use schema::SchemaState;
pub use store::{
    Cold, DatabaseStore, EventStore, HookStore, HotTierStore, LandStore, PartitionStore, RowStore,
    SinkStore, SweepStore,
};
