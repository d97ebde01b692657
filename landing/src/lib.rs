//! Landing: the worker that moves dirty data into the database.
//!
//! | module | concept |
//! | --- | --- |
//! | [`run`] | [`LandingWorker`]: the loop of a worker |
//! | [`claim`] | even shares of partitions, under locks |
//! | `keeper` | renews announcement, share and locks |
//! | `namesake` | another live worker of the same name |
//! | `worker` | the state of a worker |
//! | `pass` | one pass over a worker's partitions |
//! | `round` | the partitions that wait in a pass |
//! | `task` | the concurrent tasks of a pass: reading marks, and landing them in batches |
//! | `transaction` | one transaction: collect, commit, settle, reject |
//! | [`marks`] | from marks to rows and back, pure functions |
//! | [`notes`] | notes on their way to the feed |
//! | `probation`, `expiring` | landed marks that stay until the database has kept them for a while |
//! | `pulse` | whether the loop moves |
//! | `limiter` | how much the worker asks of the database: transactions, and the size of batches |
//! | `sweep` | deletes rows of fields that were purged long ago |
//! | `holders` | session holders that fall silent |
//! | `compare` | the comparison of the tiers, all the time |
//! | `hooks` | whether the worker has all hooks that the database needs |
//! | `failure` | how much of the work a failure concerns |
//! | `unreadable` | owners that the hot tier can't hand over |
//! | [`drain`] | [`Backlog`]: the waiting marks, and waiting until they have landed |
//! | [`backpressure`] | [`BackpressureLevel`]: how close the backlog is to the watermarks |
//! | [`rescue`](mod@rescue) | landing from a hot tier that takes no writes |
//! | [`sink`] | [`Sink`], [`SinkError`]: a receiver of the feed's landed events |
//! | `relay` | one task for each sink: reading events, sending them, and storing how far the sink has got |
//! | [`backoff`] | how long to wait after a failure |
//! | [`metrics`] | [`Counts`]: the counters of a worker since its start |

pub mod backoff;
pub mod backpressure;
pub mod claim;
mod compare;
pub mod drain;
mod expiring;
mod failure;
mod holders;
mod hooks;
mod keeper;
mod limiter;
pub mod marks;
mod measure;
pub mod metrics;
mod namesake;
pub mod notes;
mod pass;
mod probation;
mod pulse;
mod relay;
pub mod rescue;
mod round;
pub mod run;
pub mod sink;
mod sweep;
mod task;
mod transaction;
mod unreadable;
mod worker;

pub use backpressure::BackpressureLevel;
pub use drain::{Backlog, drained};
pub use metrics::Counts;
pub use rescue::Rescued;
pub use run::LandingWorker;
pub use sink::{Sink, SinkError};
