//! A model of the database, in place of the SQL engine: transactions with locks, the fence and the
//! versioned upsert, and the ways in which a database fails.
//!
//! | module | concept |
//! | --- | --- |
//! | [`tables`] | what was committed |
//! | [`server`] | [`Database`]: one server, its locks, and what it is not well of |
//! | [`transaction`] | statements and transactions of one process, and their faults |
//! | [`store`] | [`ModelStore`]: the engine |

pub mod server;
pub mod store;
pub mod tables;
pub mod transaction;

pub use server::{Commits, Database};
pub use store::ModelStore;
