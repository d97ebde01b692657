//! Servers that answer reads from shards: three searches.
//!
//! A server holds a range of keys, its shard, and answers reads of those keys. It reads rows of the
//! database, keeps them in a cache, and follows the feed, which tells of changed rows. Clients learn
//! from replies which server has which range. Servers only read. Two servers of one shard do no
//! harm, and a value that is older than its answer says does.
//!
//! | module | concept |
//! | --- | --- |
//! | [`claims`] | which server has which shard |
//! | [`freshness`] | how old an answer may be |
//! | [`map`] | which ranges a client knows |
//! | `decisions` | the decisions of all three, as pure functions |

pub mod claims;
mod decisions;
pub mod freshness;
pub mod map;

use crate::search::Step;

fn step(who: &'static str, number: usize, what: &'static str) -> Step {
    Step { who, number, what }
}
