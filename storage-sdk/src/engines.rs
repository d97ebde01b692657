//! The engines below the SDK: both tiers as they are, and engines in place of those of the settings.
//!
//! Unstable: it may change in any version, and needs the feature `engines`. It is for the programs and the
//! tests of the storage itself. A game needs nothing of it, and a layer has [`layer`](crate::layer).

pub use storage_dirty::Hot;
pub use storage_sql::Cold;
pub use storage_tiers::Tiers;
