//! Every path beside its limit or its alternative, in one run.
//!
//! | module | concept |
//! | --- | --- |
//! | [`args`], [`scale`] | what a run is asked for; how large everything is |
//! | [`case`] | what a case is: two sides of one comparison, and the goal |
//! | [`cases`] | each of them |
//! | [`run`](mod@run) | one run |
//! | [`runner`] | the two sides of a case in turn |
//! | [`measured`], [`stats`] | what repetitions come to; medians, ranges, percentiles |
//! | [`cpu`], [`machine`] | CPU time of processes; what a run ran on |
//! | [`place`] | servers, and a fresh place on them for each case |
//! | [`load`], [`fill`] | many tasks that do the same for some time; many owners |
//! | [`plain`], [`straight`] | the plain Redis client; plain SQL |
//! | [`lander`], [`reader`] | a landing worker and a game server as processes |
//! | [`report`] | the table |
//! | [`sweep`], [`chart`], [`docs`] | a figure over another, as a chart, in docs/benchmarks.md |

pub mod args;
pub mod case;
pub mod cases;
pub mod chart;
pub mod cpu;
pub mod docs;
pub mod fill;
pub mod lander;
pub mod load;
pub mod machine;
pub mod measured;
pub mod place;
pub mod plain;
pub mod reader;
pub mod report;
pub mod run;
pub mod runner;
pub mod scale;
pub mod stats;
pub mod straight;
pub mod sweep;

pub use args::Args;
pub use run::{run, smoke};
