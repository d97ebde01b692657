//! Landing: the worker that moves dirty data into the database.
//!
//! | module | concept |
//! | --- | --- |
//! | [`options`] | [`LandingOptions`]: the settings of a worker |
//! | [`run`] | [`LandingWorker`]: the loop of a worker |
//! | [`claim`] | even shares of partitions, under locks |
//! | `namesake` | another live worker of the same name |
//! | `pass` | one pass over a worker's partitions |
//! | `lane` | the concurrent lanes of a pass: reading, landing and settling |
//! | `probation` | landed marks that stay until the database has kept them for a while |
//! | `limiter` | how much the worker asks of the database: transactions, and the size of batches |
//! | `step` | one transaction: collect, land, settle, reject |
//! | [`batch`] | from marks to rows and back, pure functions |
//! | [`drain`] | [`Backlog`]: the waiting marks, and waiting until they have landed |
//! | [`pressure`] | [`Pressure`]: how close the backlog is to the watermarks |
//! | [`rescue`](mod@rescue) | landing from a hot tier that takes no writes |
//! | [`backoff`] | how long to wait after a failure |
//! | [`metrics`] | [`Counts`]: the counters of a worker since its start |

pub mod backoff;
pub mod batch;
pub mod claim;
pub mod drain;
mod lane;
mod limiter;
mod measure;
pub mod metrics;
mod namesake;
pub mod options;
mod pass;
pub mod pressure;
mod probation;
pub mod rescue;
pub mod run;
mod step;

pub use drain::{Backlog, drained};
pub use metrics::Counts;
pub use options::LandingOptions;
pub use pressure::Pressure;
pub use rescue::Rescued;
pub use run::LandingWorker;
