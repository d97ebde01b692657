//! Every path beside its limit or its alternative, in one run.
//!
//! | module | concept |
//! | --- | --- |
//! | [`args`], [`scale`] | the arguments of a run, and its scale |
//! | [`case`] | a case: two sides of one comparison, and the goal |
//! | [`cases`] | each of them |
//! | [`run`](mod@run), [`program`] | one run, and the program around it |
//! | [`runner`] | the two sides of a case in turn |
//! | [`measured`], [`stats`] | the results of repetitions: medians, ranges, percentiles |
//! | [`cpu`], [`machine`] | CPU time of processes, and the machine of a run |
//! | [`place`] | servers, and a fresh place on them for each case |
//! | [`load`], [`fill`] | many tasks that repeat an operation for some time, and many owners |
//! | [`plain`], [`plain_script`], [`straight`] | the plain Redis client, a script by hand, and plain SQL |
//! | [`lander`], [`reader`], [`server`], [`talk`] | landing workers and game servers as processes |
//! | [`suite`] | a set of cases, and the page of their results |
//! | [`report`] | the table |
//! | [`sweep`], [`chart`], [`axis`] | a figure over another, as a chart |
//! | [`scaling`] | the gain from more processes, and the limit |
//! | [`commands`] | the cost of single commands for Redis |
//! | [`docs`] | the page |

pub mod args;
pub mod axis;
pub mod case;
pub mod cases;
pub mod chart;
pub mod commands;
pub mod cpu;
pub mod docs;
pub mod fill;
pub mod lander;
pub mod load;
pub mod machine;
pub mod measured;
pub mod place;
pub mod plain;
pub mod plain_script;
pub mod program;
pub mod reader;
pub mod report;
pub mod run;
pub mod runner;
pub mod scale;
pub mod scaling;
pub mod server;
pub mod stats;
pub mod straight;
pub mod suite;
pub mod sweep;
pub mod talk;

pub use args::Args;
pub use run::{run, smoke, smoke_docs};
pub use suite::{STORAGE, Suite};
