//! A model of the database, in place of the SQL engine. It has transactions with locks, the fence
//! and the versioned upsert, and the failures of a database.
//!
//! | module | concept |
//! | --- | --- |
//! | [`tables`] | the committed data |
//! | [`server`] | [`Database`]: one server, its locks, and its ailments |
//! | [`transaction`] | statements and transactions of one process, and their faults |
//! | [`store`] | [`ModelStore`]: the engine |
//! | `sinks` | the engine's positions of sinks |
//! | `claims` | the engine's shards and their claims |
//! | `shards` | [`Shards`](shards::Shards): the committed shards |

mod claims;
pub mod server;
pub mod shards;
mod sinks;
pub mod store;
pub mod tables;
pub mod transaction;

pub use server::{Commits, Database};
pub use store::ModelStore;
