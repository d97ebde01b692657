//! The `landing-worker` program. Each subcommand has its own file.
//!
//! | module | subcommand |
//! | --- | --- |
//! | [`run`] | `run`: land until a signal |
//! | [`drain`] | `drain`: land everything marked so far, then exit |
//! | [`status`] | `status`: the waiting marks, and the workers that land them |
//! | [`verify`] | `verify`: whether both tiers agree on landed data |
//! | [`errors`] | `errors`: list the rejected rows, and try them again |
//! | [`parked`] | `parked`: list the events that sinks refused, and send them again |
//! | [`migrate`] | `migrate`: create or upgrade the schema |
//! | [`import`], [`export`] | owners from and to JSON lines ([`entity`], [`decoded`]) |
//! | [`backup`] | `backup`: copy the file of an embedded game |
//! | [`adopt`] | `adopt`: pair two tiers on purpose |
//! | [`grants`] | `grants`: the rights that users of both tiers need, as statements to paste |
//! | [`sinks`] | the sinks of the settings |
//! | [`http`] | `run --http`: metrics and health |
//! | [`cli`], [`config_args`], [`open`], [`progress`], [`signal`] | shared by the subcommands |
//! | [`exit`], [`limit`] | exit codes and deadlines of commands |

pub mod adopt;
pub mod backup;
pub mod cli;
pub mod config_args;
pub mod decoded;
pub mod drain;
pub mod entity;
pub mod errors;
pub mod exit;
pub mod export;
pub mod grants;
pub mod hooks;
pub mod http;
pub mod import;
pub mod limit;
pub mod migrate;
pub mod open;
pub mod parked;
pub mod progress;
pub mod run;
pub mod signal;
pub mod sinks;
pub mod status;
pub mod verify;

pub use cli::{Cli, main, program};
