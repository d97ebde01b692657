//! Both tiers together: the operations that the SDK and the landing worker share.
//!
//! | module | concept |
//! | --- | --- |
//! | [`tiers`] | [`Tiers`]: the hot and the cold tier, and the last known epoch of each partition |
//! | [`epoch`], [`pairing`] | preparing partitions: pairing tiers, raising and adopting epochs |
//! | [`verdict`], [`place`] | which step a partition needs; the hot tier that has the partitions, while it is used |
//! | [`load`] | hot-loads: an owner's rows into the hot tier, once for all callers |
//! | [`suspect`] | owners from before a rewind are compared with their rows |
//! | [`glance`], `whole` | reads that write to neither tier; a hash that is larger than a reply may be |
//! | [`together`] | owners that must land together, since one transaction wrote them |
//! | [`flush`], [`bisect`] | landing one owner at once; halving a batch that the database rejects |
//! | `prepare_together` | partitions that are prepared together, for all calls that wait for them |
//! | `flush_together` | flushes of one partition, shared by all writes that wait for the database |
//! | [`verify`] | comparing both tiers |
//! | [`leases`] | [`Leases`]: which sessions lapse, and when a grace ends |
//! | [`refusal`](Tiers::refusal) | why writes fail at present |
//! | [`error`], [`mismatch`] | [`TierError`]; [`Mismatch`]: tiers that do not belong together |
//! | [`home`], [`caught`] | [`Home`]: the runtime of background work; panics as failures |

pub mod bisect;
pub mod caught;
pub mod epoch;
pub mod error;
pub mod flush;
mod flush_together;
pub mod glance;
pub mod home;
pub mod leases;
pub mod load;
pub mod mismatch;
pub mod pairing;
pub mod place;
mod prepare_together;
mod refusal;
pub mod suspect;
mod take;
pub mod tiers;
pub mod together;
pub mod verdict;
pub mod verify;
mod watch;
mod whole;

pub use epoch::landed_here;
pub use error::TierError;
pub use home::Home;
pub use leases::Leases;
pub use load::{FullLoad, LoadCounts};
pub use mismatch::{Mismatch, Place};
pub use pairing::{PairingStep, judge, taking_over};
pub use place::Behind;
pub use storage_model::times::SILENCE;
pub use suspect::is_suspect;
pub use tiers::{Noted, Tiers};
pub use together::{Together, Units};
pub use verdict::{Need, need};
pub use verify::{Compared, Conflict, Difference};
pub use whole::BREAKS;
