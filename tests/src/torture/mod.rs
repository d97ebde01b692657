//! Faults on purpose, and an oracle.
//!
//! | module | concept |
//! | --- | --- |
//! | [`args`] | what a run is asked for |
//! | [`run`](mod@run) | one run, from the start of the servers to the verdict |
//! | [`arena`] | what a run plays in: servers, links, processes |
//! | [`children`], [`crew`] | processes; game servers and workers, which are killed and started again |
//! | [`play`] | a game server's process |
//! | [`history`] | what game servers did, line by line |
//! | [`nemesis`], [`faults`] | which faults happen when; each of them |
//! | [`embedded`] | a run of the embedded mode |
//! | [`finals`] | what is stored after a run |
//! | [`oracle`] | what must be true of a history and of what is stored after it |
//! | [`report`], [`total`] | what a run found; what many found together |
//! | [`value`], [`moment`] | values that say who wrote them; time that processes share |

pub mod arena;
pub mod args;
pub mod children;
pub mod crew;
pub mod embedded;
pub mod faults;
pub mod finals;
pub mod history;
pub mod moment;
pub mod nemesis;
pub mod oracle;
pub mod play;
pub mod report;
pub mod run;
pub mod total;
pub mod value;

pub use run::run;
