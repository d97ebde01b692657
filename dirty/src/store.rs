//! The contract of the hot tier.

use std::fmt;

use crate::{Feed, Holders, Marks, Owners, Partitions, Probations, Sessions, Tier};

/// The whole contract of an engine: the sum of one trait for each concern.
///
/// Two engines implement it: Redis (one server, Sentinels or a cluster) and memory. One conformance
/// suite runs over both. A caller of one concern takes the trait of that concern. So a fake of that
/// trait is enough for its tests.
///
/// Calls take batches. The results come in the order of the items, one for each item. Items do not
/// depend on each other, so an engine can apply them in any order and concurrently. Every item is
/// atomic, except an observation: no client ever observes a part of it.
///
/// # Cancel safety
/// A dropped call may or may not have been applied, like a call with an unknown outcome. No call
/// leaves anything half done.
pub trait HotStore:
    Owners + Marks + Probations + Partitions + Tier + Sessions + Holders + Feed + fmt::Debug
{
}

impl<T> HotStore for T where
    T: Owners + Marks + Probations + Partitions + Tier + Sessions + Holders + Feed + fmt::Debug
{
}
