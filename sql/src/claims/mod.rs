//! Who loads which shard: plans of services that answer from shards, and claims of their servers.
//!
//! A *plan* divides all sharding keys of a service in one data centre into ranges. Each range is a
//! *shard* there. A *claim* says which server loads a shard. It is no lock, because two servers of
//! one shard do no harm: such a service only reads.
//!
//! A claim has a *beat*, which its holder raises. Another server takes the shard if the beat stood
//! still for some reads (V3). The clock of the database decides nothing.
//!
//! | module | concept |
//! | --- | --- |
//! | `names` | [`ServiceName`], [`DataCentre`], [`Holder`]: checked names |
//! | `token` | [`ClaimToken`]: what tells two claims apart |
//! | `ranges` | [`Ranges`]: how a plan divides all sharding keys |
//! | `plan` | how a plan is added |
//! | `shard` | [`ShardKey`], [`ShardRow`]: a shard and its claim |
//! | `store` | [`ClaimStore`]: the calls |

mod names;
mod plan;
mod ranges;
mod shard;
mod store;
mod token;

pub use names::{DataCentre, HOLDER_BYTES_MAX, Holder, NAME_BYTES_MAX, ServiceName};
pub use ranges::{RANGES_MAX, Ranges, RangesError};
pub use shard::{ShardKey, ShardRow};
pub use store::ClaimStore;
pub(crate) use store::STATEMENTS;
pub use token::ClaimToken;
