//! Servers of a sharded, replicated read service: claims of shards, limits, and an orderly end.
//!
//! A service implements [`Shard`]: it loads a range of keys, answers for keys of it, and unloads it. A
//! [`Server`] claims a range in the database, tells in each reply what it holds, and lets a service see only
//! calls that it can answer.
//!
//! | module | content |
//! | --- | --- |
//! | [`shard`] | [`Shard`]: what a service implements |
//! | [`moment`] | [`Moment`]: a clock that counts the time in which the machine sleeps |
//! | [`claims`] | [`Claims`]: which range a server gets |
//! | [`server`] | [`Server`], [`ServerBuilder`], [`ServerView`] |
//! | `keeper` | one claim after the other, from its load to its end |
//! | `tenure` | what a server holds now |
//! | `service` | one request |
//! | `transport` | gRPC |
//! | [`figures`] | [`ServerFigures`]: what a server has done |

#[cfg(doctest)]
mod book;
pub mod claims;
pub mod figures;
mod keeper;
pub mod moment;
pub mod owners;
pub mod server;
mod service;
pub mod shard;
mod tenure;
mod transport;

pub use claims::Claims;
pub use figures::ServerFigures;
pub use moment::Moment;
pub use owners::{OwnerShard, ReadAhead};
pub use server::{CloseReport, Ended, OnLost, Server, ServerBuilder, ServerError, ServerView};
pub use shard::{Call, KeyOutcome, LoadError, Shard, Unreachable};
