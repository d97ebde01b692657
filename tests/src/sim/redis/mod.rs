//! A model of one redis-server, below the real engine. It speaks RESP and runs the real Lua
//! scripts.
//!
//! | module | concept |
//! | --- | --- |
//! | [`reply`] | requests and answers on the wire |
//! | [`keyspace`] | keys, their values, and their ends |
//! | [`data`] | all data of a server, and its description of itself |
//! | [`command`] | the commands that the engine and its scripts use |
//! | [`script`] | the scripts: `redis.call` and the conversions between Lua and RESP |
//! | [`server`] | [`Server`]: one process, with its connections; it can be stopped, rewound and wiped |

pub mod command;
pub mod data;
pub mod keyspace;
pub mod reply;
pub mod script;
pub mod server;

pub use server::{Executed, Server, Watch};
