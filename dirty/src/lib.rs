//! The hot tier: owner hashes, dirty maps, snapshots, locks and error maps, on Redis or in memory.
//!
//! | module | concept |
//! | --- | --- |
//! | [`store`] | [`HotStore`]: the contract of every engine |
//! | [`owner`] | [`Read`], [`Observed`], [`Load`], [`Mutated`]: one owner's data |
//! | [`landing`] | [`Snapshot`], [`Page`], [`Collected`], [`Settle`], [`Park`]: work on marks |
//! | [`probation`](mod@probation) | [`Probation`], [`Acquit`]: landed marks that stay for a while |
//! | [`session`] | [`SessionStore`], [`Session`]: the holder of an owner |
//! | [`partition`] | [`PartitionState`], [`Adopt`], [`PartitionPeek`]: record, lock and sizes |
//! | [`pairing`] | [`HotPairing`], [`HotPaired`]: the database that the hot tier belongs to |
//! | [`mark`] | [`Mark`]: the fields of an owner that must land |
//! | [`memory`] | [`MemoryStore`]: the engine in memory |
//! | [`memory_use`] | [`MemoryUse`]: how full the hot tier is |
//! | `conformance` | the suite that every engine passes (feature `conformance`) |
//! | [`redis`] | [`RedisStore`]: the engine on Redis and Valkey, one server or a cluster |
//! | [`open`](mod@open) | opens the engine that the settings name |
//! | [`error`] | [`HotError`]: how a caller can react to a failure |

#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod error;
#[cfg(test)]
mod fuzz;
mod key;
pub mod landing;
pub mod mark;
pub mod memory;
pub mod memory_use;
pub mod open;
pub mod owner;
pub mod pairing;
pub mod partition;
pub mod probation;
pub mod redis;
pub mod session;
pub mod store;

pub use error::{HotError, HotKind};
pub use landing::{
    Collected, Entry, ErrorEntry, Fault, Map, Page, Park, Parked, Settle, Settled, Snapshot,
    SnapshotId,
};
pub use mark::Mark;
pub use memory::MemoryStore;
pub use memory_use::MemoryUse;
pub use open::{open, open_for_reading};
pub use owner::{
    Evicted, Fields, Filled, Header, HotRead, Load, Marker, Mutated, Observed, Read, Refusal,
};
pub use pairing::{HotPaired, HotPairing};
pub use partition::{Adopt, Lock, PartitionPeek, PartitionRecord, PartitionState};
pub use probation::{Acquit, Probation, Window};
pub use redis::RedisStore;
pub use session::{
    Asked, Beats, ClaimSession, Claimed, OpenSession, Opened, Session, SessionStore,
};
pub use store::HotStore;
