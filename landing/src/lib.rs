//! Landing: the worker that moves dirty data into the database.
//!
//! | module | concept |
//! | --- | --- |
//! | [`run`] | [`LandingWorker`]: the loop of a worker |
//! | [`claim`] | even shares of partitions, under locks |
//! | `namesake` | another live worker of the same name |
//! | `pass` | one pass over a worker's partitions |
//! | `lane` | the concurrent lanes of a pass: reading, landing and settling |
//! | `probation` | landed marks that stay until the database has kept them for a while |
//! | [`pace`] | [`Pace`]: how much load the worker puts on the database |
//! | `turn` | the limit of concurrent transactions |
//! | `step` | one transaction: collect, land, settle, reject |
//! | [`batch`] | from marks to rows and back, pure functions |
//! | [`drain`] | [`Backlog`]: the waiting marks, and waiting until they have landed |
//! | [`backpressure`] | [`BackpressureLevel`]: how close the backlog is to the watermarks |
//! | [`rescue`](mod@rescue) | landing from a hot tier that takes no writes |
//! | [`backoff`] | how long to wait after a failure |
//! | [`metrics`] | [`Counts`]: the counters of a worker since its start |

pub mod backoff;
pub mod backpressure;
pub mod batch;
pub mod claim;
pub mod drain;
mod lane;
mod measure;
pub mod metrics;
mod namesake;
pub mod pace;
mod pass;
mod probation;
pub mod rescue;
pub mod run;
#[cfg(feature = "sabotage")]
mod sabotage;
mod step;
mod turn;

pub use backpressure::BackpressureLevel;
pub use drain::{Backlog, drained};
pub use metrics::Counts;
pub use pace::Pace;
pub use rescue::Rescued;
pub use run::LandingWorker;
