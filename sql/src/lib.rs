//! The cold tier: versioned rows in MySQL, MariaDB or SQLite.
//!
//! | module | concept |
//! | --- | --- |
//! | [`store`] | [`ColdStore`]: what every engine promises |
//! | [`batch`] | [`Batch`], [`Fence`], [`Loaded`], [`PartitionRecord`]: what goes in and comes out |
//! | [`error`] | [`ColdError`], [`LandError`]: what a caller can do about a failure |

pub mod batch;
pub mod error;
pub mod store;

pub use batch::{Batch, Fence, Loaded, PartitionRecord};
pub use error::{ColdError, ColdKind, LandError, RowFault};
pub use store::ColdStore;
