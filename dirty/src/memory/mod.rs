//! The hot tier in memory: the contract without a server, for embedded use and for tests.
//!
//! One *transition* of this engine does the work of one script in Redis. It is a function of one
//! partition's state and the present time, without input, output or clock. [`MemoryStore`] holds
//! one mutex per partition and calls transitions under it, so each is as atomic as a script. Tests
//! and models can call them directly on a [`PartState`], which can be cloned and compared.
//!
//! | module | concept |
//! | --- | --- |
//! | [`store`] | [`MemoryStore`]: the engine, its limit, access for tests |
//! | [`state`] | [`PartState`], [`Present`]: a partition's content, and a transition's inputs |
//! | `hash` | owner hashes: cells, size, time to live |
//! | `marker` | exist markers and negative answers |
//! | `maps`, `numbered` | dirty map, snapshot, error map and marks on probation |
//! | `ops` | the replies of recent operations |
//! | [`invariant`] | the invariants that must hold after every transition |
//! | `room` | eviction of landed data when memory is short |
//!
//! The other files have the names of their twins in `dirty/src/redis`, in `operations` and
//! `writes`. Each holds the transitions of its concern. The file of a trait also implements it.
//! Redis alone needs `forget`, since a call of memory is never lost.
//!
//! | module | concept |
//! | --- | --- |
//! | [`owner`] | [`Owners`](crate::Owners): evictions and times to live |
//! | [`read`], [`observe`], [`fill`] | reads of owners, and the proof and the merge of a load |
//! | [`writes`] | one mutation: its effect, computed first and then written |
//! | [`marks`] | [`Marks`](crate::Marks): snapshots, pages, collection, settling |
//! | [`reject`], [`probation`] | the error map, the probation of landed marks |
//! | [`partition`], [`lock`] | [`Partitions`](crate::Partitions): records, sizes and locks |
//! | [`feed`] | [`Feed`](crate::Feed): notes on their way to the database |
//! | `tier`, `pairing` | [`Tier`](crate::Tier): the process as a whole, and its database |
//! | [`session`], [`holder`] | [`Sessions`](crate::Sessions) and [`Holders`](crate::Holders) |

pub mod feed;
pub mod fill;
mod hash;
pub mod holder;
pub mod invariant;
pub mod lock;
mod maps;
mod marker;
pub mod marks;
mod numbered;
pub mod observe;
mod ops;
pub mod owner;
mod pairing;
pub mod partition;
pub mod probation;
pub mod read;
pub mod reject;
mod room;
pub mod session;
pub mod state;
pub mod store;
mod tier;
pub mod writes;

pub use pairing::ADDRESS;
pub use state::{PartState, Present};
pub use store::{MemoryState, MemoryStore};
