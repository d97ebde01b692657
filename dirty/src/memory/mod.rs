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
//! | `engine` | the contract, call by call |
//! | [`state`] | [`PartState`], [`Present`]: a partition's content, and a transition's inputs |
//! | `hash` | owner hashes: cells, size, time to live |
//! | `marker` | exist markers and negative answers |
//! | `marks`, `numbered` | dirty map, snapshot, error map and marks on probation |
//! | `ops` | the replies of recent operations |
//! | [`read`] | reading, observing, evicting and touching owners |
//! | [`mutate`], `plan` | one mutation: its effect, computed first and then written |
//! | [`fill`] | the proof and the merge of rows |
//! | [`landing`], [`park`] | a worker's calls about marks |
//! | [`probation`] | landed marks that stay for a while |
//! | [`record`], [`lock`] | the partition's record and lock |
//! | [`session`] | the holder of an owner |
//! | [`invariant`] | the invariants that must hold after every transition |
//! | `room` | eviction of landed data when memory is short |

mod engine;
pub mod fill;
mod hash;
pub mod invariant;
pub mod landing;
pub mod lock;
mod marker;
mod marks;
pub mod mutate;
mod numbered;
mod ops;
pub mod park;
mod plan;
pub mod probation;
pub mod read;
pub mod record;
mod room;
pub mod session;
pub mod state;
pub mod store;

pub use state::{PartState, Present};
pub use store::{MemoryState, MemoryStore};
