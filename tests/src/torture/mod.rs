//! Faults on purpose, and an oracle.
//!
//! | module | concept |
//! | --- | --- |
//! | [`args`] | the arguments of a run |
//! | [`run`](mod@run) | one run, from the start of the servers to the verdict |
//! | [`arena`] | the place of a run: servers, links, processes |
//! | [`children`], [`crew`] | processes; game servers and workers, which are killed and started again |
//! | [`play`] | a game server's process |
//! | [`history`] | the operations of game servers, line by line |
//! | [`nemesis`], [`faults`] | the order of faults; each of them |
//! | [`embedded`] | a run of the embedded mode |
//! | [`balance`] | a reader by SQL beside the play |
//! | [`finals`] | the stored data after a run |
//! | [`oracle`] | the conditions on a history and on the stored data after it |
//! | [`report`], [`total`] | the result of a run; the result of many together |
//! | [`value`], [`moment`] | values that name their writer; time that processes share |

pub mod arena;
pub mod args;
pub mod balance;
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
