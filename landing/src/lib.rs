//! Landing: the worker that moves dirty data into the database.
//!
//! | module | concept |
//! | --- | --- |
//! | [`options`] | [`LandingOptions`]: how a worker works |
//! | [`run`] | [`LandingWorker`]: the loop of a worker |
//! | [`claim`] | even shares of partitions, under locks |
//! | `namesake` | another live worker of the same name |
//! | `pass` | one pass over a worker's partitions |
//! | `lane` | its lanes: reading, landing and settling beside each other |
//! | `probation` | landed marks that stay until the database has kept them for a while |
//! | [`pace`] | [`Pace`]: how much is asked of the database at once |
//! | `turn` | who may be at the database |
//! | `step` | one transaction: collect, land, settle, park |
//! | [`batch`] | from marks to rows and back, pure functions |
//! | [`drain`] | [`Backlog`]: what waits, and waiting until it has landed |
//! | [`pressure`] | [`Pressure`]: how near all that waits is to the watermarks |
//! | [`rescue`](mod@rescue) | landing from a hot tier that takes no writes |
//! | [`backoff`] | how long to wait after a failure |
//! | [`metrics`] | [`Counts`]: what a worker counted since it started |

pub mod backoff;
pub mod batch;
pub mod claim;
pub mod drain;
mod lane;
pub mod metrics;
mod namesake;
pub mod options;
pub mod pace;
mod pass;
pub mod pressure;
mod probation;
pub mod rescue;
pub mod run;
#[cfg(feature = "sabotage")]
mod sabotage;
mod step;
mod turn;

pub use drain::{Backlog, drained};
pub use metrics::Counts;
pub use options::LandingOptions;
pub use pace::Pace;
pub use pressure::Pressure;
pub use rescue::Rescued;
pub use run::LandingWorker;
