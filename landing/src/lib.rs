//! Landing: what needs both tiers, and the worker that moves dirty data into the database.
//!
//! | module | concept |
//! | --- | --- |
//! | [`tiers`] | [`Tiers`]: prepare partitions, load cold owners, flush one owner. The SDK uses it too |
//! | [`degrade`] | a refused batch is halved until only the culprits are left |

pub mod degrade;
pub mod tiers;

pub use tiers::{Flushed, FullLoad, LoadCounts, TierError, Tiers};
