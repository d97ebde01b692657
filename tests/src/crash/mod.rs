//! A process dies at every request it sends, one run each, and another process comes after it.
//!
//! | module | concept |
//! | --- | --- |
//! | [`scenarios`], [`sessions`] | the actions of processes |
//! | [`points`] | the numbered requests, and the fault at one of them |
//! | [`run`] | the loop over all points |
//! | [`play`] | one process: a game server's calls and a worker's landing |
//! | [`held`] | the sessions of a process |
//! | [`history`] | the answers to its clients, and so the data that must be stored |
//! | [`look`] | Redis at one moment, and the conditions of every moment |
//! | [`site`] | servers, and a fresh place on them for each run |
//! | `repeat` | a database whose calls may be carried out twice |

pub mod held;
pub mod history;
pub mod look;
pub mod play;
pub mod points;
mod repeat;
pub mod run;
pub mod scenarios;
pub mod sessions;
pub mod site;

pub use points::Kind;
pub use run::{Density, Tried, try_all, try_one, try_pairs};
pub use scenarios::{CHOSEN, SCENARIOS, Scenario};
pub use site::Database;
