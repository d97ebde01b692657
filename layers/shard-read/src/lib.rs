//! The client of a sharded, replicated read service: many keys, one call, the first answer wins.
//!
//! A service divides all keys into ranges. Each data centre has a server for each range. A client asks for
//! the values of keys, whichever servers hold them, and learns from every reply which server holds what.
//!
//! | module | content |
//! | --- | --- |
//! | [`schema`] | [`Schema`]: keys and values of a service, and the function that shards keys |
//! | [`wire`] | [`Wire`]: the messages as bytes |
//! | [`range`](mod@range) | [`ShardRange`]: an interval of sharding keys |
//! | [`shard`] | [`ShardInfo`]: what a server holds |
//! | [`client`] | [`Client`], [`Get`]: calls |
//! | [`net`] | connections that are not those of the machine |
//! | [`error`] | [`Error`], [`Kind`] |
//! | `owners` | the schema of the ready-made service of owners, behind the feature `owners` |

pub mod client;
pub mod error;
pub mod net;
#[cfg(feature = "owners")]
pub mod owners;
mod proto;
pub mod range;
pub mod schema;
pub mod shard;
pub mod wire;

pub use client::{
    Client, ClientBuilder, ClientFigures, Found, Get, HostInfo, HostSource, Hosts, Mode,
};
pub use error::{Error, Kind, Result};
pub use range::ShardRange;
pub use schema::{Malformed, Schema};
pub use shard::{ShardInfo, State};
pub use wire::{
    FailureKind, GetReply, GetRequest, KeyAnswer, KeyFailure, Place, StandardWire, Wire,
};
