//! Landing: what needs both tiers, and the worker that moves dirty data into the database.
//!
//! | module | concept |
//! | --- | --- |
//! | [`options`] | [`LandingOptions`]: how a worker works |
//! | [`tiers`] | [`Tiers`]: prepare partitions, load cold owners, flush one owner. The SDK uses it too |
//! | [`run`] | [`LandingWorker`]: the loop of a worker |
//! | [`claim`] | even shares of partitions, under locks |
//! | `namesake` | another live worker of the same name |
//! | `pass` | one pass over a worker's partitions |
//! | `lane` | its lanes: reading, landing and settling beside each other |
//! | [`leases`] | [`Leases`]: whose sessions lapse, and when a grace ends |
//! | `probation` | landed marks that stay until the database has kept them for a while |
//! | [`pace`] | [`Pace`]: how much is asked of the database at once |
//! | `turn` | who may be at the database |
//! | `step` | one transaction: collect, land, settle, park |
//! | [`batch`] | from marks to rows and back, pure functions |
//! | [`drain`] | [`Backlog`]: what waits, and waiting until it has landed |
//! | [`pressure`] | [`Pressure`]: how near all that waits is to the watermarks |
//! | [`rescue`](mod@rescue) | landing from a hot tier that takes no writes |
//! | [`degrade`] | a refused batch is halved until only the culprits are left |
//! | [`backoff`] | how long to wait after a failure |
//! | `caught` | a panic is a failure like any other |
//! | [`home`] | [`Home`]: the runtime on which all of that runs |
//! | [`metrics`] | [`Counts`]: what a worker counted since it started |

pub mod backoff;
pub mod batch;
mod caught;
pub mod claim;
pub mod degrade;
pub mod drain;
pub mod home;
mod lane;
pub mod leases;
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
pub mod tiers;
mod turn;

pub use drain::{Backlog, drained};
pub use home::Home;
pub use leases::Leases;
pub use metrics::Counts;
pub use options::LandingOptions;
pub use pace::Pace;
pub use pressure::Pressure;
pub use rescue::Rescued;
pub use run::LandingWorker;
pub use tiers::{
    Compared, Conflict, Difference, Flushed, FullLoad, LoadCounts, Mismatch, TierError, Tiers,
    is_suspect,
};
