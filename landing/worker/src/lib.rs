//! The `landing-worker` program: a subcommand a file.
//!
//! | module | subcommand |
//! | --- | --- |
//! | [`run`] | `run`: land until told to stop |
//! | [`drain`] | `drain`: land everything marked so far, then exit |
//! | [`status`] | `status`: what waits, and who lands it |
//! | [`verify`] | `verify`: whether both tiers say the same of what has landed |
//! | [`errors`] | `errors`: list what the database refused, and try it again |
//! | [`migrate`] | `migrate`: create or upgrade the schema |
//! | [`import`], [`export`] | owners from and to JSON lines ([`entity`], and [`decoded`] for what objects hold) |
//! | [`adopt`] | `adopt`: pair two tiers on purpose |
//! | [`grants`] | `grants`: the rights that users of both tiers need, as statements to paste |
//! | [`cli`], [`open`], [`progress`], [`signal`] | what the subcommands share |
//! | [`exit`], [`limit`] | how a command ends, and when at the latest |

pub mod adopt;
pub mod cli;
pub mod decoded;
pub mod drain;
pub mod entity;
pub mod errors;
pub mod exit;
pub mod export;
pub mod grants;
pub mod import;
pub mod limit;
pub mod migrate;
pub mod open;
pub mod progress;
pub mod run;
pub mod signal;
pub mod status;
pub mod verify;

pub use cli::{Cli, main, program};
