//! All cases, in the order of the table that they make.

mod backlog;
mod bulk;
mod cold;
mod condition;
mod durable;
mod hot_keys;
mod hot_load;
mod lag;
mod landing;
mod landing_cpu;
mod memory;
mod misses;
mod note;
mod object;
mod once;
mod ours;
mod pair;
mod read;
mod recovery;
mod scale;
mod servers;
mod session;
mod transaction;
mod update;
mod world;

pub use landing::Landing;
pub(super) use ours::{Call, Ours};
pub use servers::Servers;
pub use update::Update;

use super::case::{Case, Goal, Judged};

/// Every case.
#[must_use]
pub fn all() -> Vec<Box<dyn Case>> {
    let writes = [
        update::cases(),
        bulk::cases(),
        condition::cases(),
        session::cases(),
        transaction::cases(),
        note::cases(),
        once::cases(),
    ];
    let reads = [read::cases(), object::cases()];
    let landing = [
        durable::cases(),
        landing::cases(),
        landing_cpu::cases(),
        hot_keys::cases(),
        lag::cases(),
    ];
    let recovery = [recovery::cases()];
    let cold = [hot_load::cases(), misses::cases()];
    let worlds = world::Shared::default();
    // The backlog comes from the writes that make the large world, so this case comes first.
    let sizes = [
        memory::cases(),
        backlog::cases(&worlds),
        scale::cases(&worlds),
    ];
    writes
        .into_iter()
        .chain(reads)
        .chain(landing)
        .chain(recovery)
        .chain(cold)
        .chain(sizes)
        .flatten()
        .collect()
}

const fn at_least(must: f64, aim: f64) -> Goal {
    Goal {
        judged: Judged::RatioAtLeast,
        must,
        aim,
    }
}

const fn at_most(must: f64, aim: f64) -> Goal {
    Goal {
        judged: Judged::RatioAtMost,
        must,
        aim,
    }
}
