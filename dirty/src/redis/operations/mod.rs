//! The operations of the contract, by concern. Each builds its commands and reads their answers.
//!
//! | module | concept |
//! | --- | --- |
//! | `read`, `observe`, `fill` | reads of owners, and the proof and the fill of a load |
//! | `landing`, `probation` | marks: snapshots, pages, settling, the error map, the probation |
//! | `partition`, `pairing` | the records of partitions, locks, workers, and the pairing of both tiers |
//! | `session` | sessions |
//! | `forget` | numbered calls of stores that are gone |

pub(in crate::redis) mod fill;
pub(in crate::redis) mod forget;
pub(in crate::redis) mod landing;
pub(in crate::redis) mod observe;
pub(in crate::redis) mod pairing;
pub(in crate::redis) mod partition;
pub(in crate::redis) mod probation;
pub(in crate::redis) mod read;
pub(in crate::redis) mod session;
