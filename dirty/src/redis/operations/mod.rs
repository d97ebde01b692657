//! The operations of the contract, by concern. Each builds its commands and reads their answers.
//!
//! | module | concept |
//! | --- | --- |
//! | `owner` | [`Owners`](crate::Owners): leases, evictions, times to live |
//! | `read`, `observe`, `fill`, `fill_parts` | reads of owners, and the proof and the fill of a load |
//! | `marks`, `linked` | [`Marks`](crate::Marks): snapshots, pages, collection, settling |
//! | `reject`, `probation` | the error map, the probation of landed marks |
//! | `partition` | [`Partitions`](crate::Partitions): records, locks and sizes |
//! | `forget` | numbered calls of stores that are gone |
//! | `feed` | [`Feed`](crate::Feed): notes on their way to the database |
//! | `tier`, `pairing` | [`Tier`](crate::Tier): the servers as a whole, and the pairing of both tiers |
//! | `session`, `holder` | [`Sessions`](crate::Sessions) and [`Holders`](crate::Holders) |

pub(in crate::redis) mod feed;
pub(in crate::redis) mod fill;
pub(in crate::redis) mod fill_parts;
pub(in crate::redis) mod forget;
mod holder;
mod linked;
pub(in crate::redis) mod marks;
pub(in crate::redis) mod observe;
mod owner;
mod pairing;
pub(in crate::redis) mod partition;
mod probation;
pub(in crate::redis) mod read;
pub(in crate::redis) mod reject;
pub(in crate::redis) mod session;
mod tier;
