//! The hot tier: owner hashes, dirty maps, snapshots, locks and error maps, on Redis or in memory.
//!
//! | module | concept |
//! | --- | --- |
//! | [`store`] | [`Hot`]: the contract of every engine, the sum of eight traits |
//! | [`owner`] | [`Owners`], [`Read`], [`Observed`], [`Load`], [`Mutated`]: one owner's data |
//! | [`marks`] | [`Marks`], [`Snapshot`], [`Page`], [`Collected`], [`Settle`], [`Reject`]: work on marks |
//! | [`probation`](mod@probation) | [`Probations`], [`Probation`], [`Expire`]: landed marks that stay for a while |
//! | [`partition`] | [`Partitions`], [`PartitionState`], [`Adopt`], [`PartitionPeek`]: record, lock and sizes |
//! | [`feed`] | [`Feed`], [`Notes`]: notes on their way to the database |
//! | [`tier`] | [`Tier`]: time, pairing, memory and workers of the whole |
//! | [`pairing`] | [`HotPairing`], [`HotPaired`]: the database that the hot tier belongs to |
//! | [`session`] | [`Sessions`], [`Session`]: the sessions of owners |
//! | [`holder`] | [`Holders`], [`Beats`]: the processes that hold sessions |
//! | [`mark`] | [`Mark`]: the fields of an owner that must land |
//! | [`memory`] | [`MemoryStore`]: the engine in memory |
//! | [`memory_use`] | [`MemoryUse`], [`Evictions`]: how full the hot tier is |
//! | `conformance` | the suite that every engine passes (feature `conformance`) |
//! | [`redis`] | [`RedisStore`]: the engine on Redis and Valkey, one server or a cluster |
//! | [`event_stream`] | [`EventStream`]: streams with the events of the feed, on a Redis that is not the hot tier |
//! | [`open`](mod@open) | opens the engine that the settings name |
//! | [`error`] | [`HotError`]: how a caller can react to a failure |

#![cfg_attr(
    not(feature = "redis"),
    allow(
        dead_code,
        reason = "the engine on Redis needs more of what both engines share"
    )
)]

#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod error;
#[cfg(feature = "redis")]
pub mod event_stream;
pub mod feed;
#[cfg(test)]
mod fuzz;
pub mod holder;
mod key;
pub mod mark;
pub mod marks;
pub mod memory;
pub mod memory_use;
pub mod open;
pub mod owner;
pub mod pairing;
pub mod partition;
pub mod probation;
#[cfg(feature = "redis")]
pub mod redis;
pub mod session;
pub mod store;
pub mod tier;

pub use error::{HotError, HotKind};
#[cfg(feature = "redis")]
pub use event_stream::EventStream;
pub use feed::{Feed, Notes};
pub use holder::{Adoption, Asked, Beats, Holders};
pub use mark::Mark;
pub use marks::{
    Bound, Collected, Entry, ErrorEntry, Fault, LandedRow, Linked, Links, Map, Marked, Marks,
    Member, Page, Reject, Rejected, Settle, Settled, Snapshot, SnapshotId,
};
pub use memory::MemoryStore;
pub use memory_use::{Evictions, MemoryUse};
pub use open::{open, open_for_reading};
pub use owner::{
    Fields, Filled, Header, HotRead, Load, Marker, Mutated, Observed, Owners, Read, Refusal,
};
pub use pairing::{HotPaired, HotPairing};
pub use partition::{Adopt, Lock, PartitionPeek, PartitionRecord, PartitionState, Partitions};
pub use probation::{Expire, Probation, Probations, Window};
#[cfg(feature = "redis")]
pub use redis::RedisStore;
pub use session::{ClaimSession, Claimed, OpenSession, Opened, Session, Sessions};
pub use store::Hot;
pub use tier::Tier;
