//! The protocol as a model: every interleaving of the steps of game servers, workers, both tiers
//! and faults with one owner, up to a bound.
//!
//! The hot tier's steps are the transitions of the memory engine, and the decisions are the pure
//! functions of landing. So the search checks the shipped code. The model has its own database,
//! order of steps, and oracle.
//!
//! | module | concept |
//! | --- | --- |
//! | [`search`](mod@search) | the search for the shortest way to a violation |
//! | [`bounds`] | [`Bounds`]: the limits of a search |
//! | [`cases`] | the searches |
//! | [`calls`] | the numbered calls of stores: a search of its own |
//! | [`copies`] | two living copies of one hot tier: a search of its own |
//! | [`feed`] | the feed of noted writes: a search of its own |
//! | [`groups`] | transactions over several owners that land together: a search of its own |
//! | [`lapse`] | the end of the sessions of a holder that is gone: a search of its own |
//! | [`lists`] | lists of a collection, and the counts of its head: a search of its own |
//! | [`pairing`] | the pairing of a hot tier and a database: a search of its own |
//! | [`sessions`] | the holder of an owner: a search of its own |
//! | [`shards`] | servers that answer reads from shards: three searches of their own |
//! | `world` | the state |
//! | `client`, `load` | reads, writes and hot-loads |
//! | `worker`, `settle`, `probation` | landing workers |
//! | `flush` | landing one owner at once |
//! | `land` | the common part of both |
//! | `prepare` | failovers, and how a partition recovers from them |
//! | `cold`, `truth` | the database, and the oracle |
//! | `check` | the conditions that hold in every state |

pub mod bounds;
pub mod calls;
pub mod cases;
mod check;
mod client;
mod cold;
pub mod copies;
pub mod feed;
mod flush;
pub mod groups;
pub mod hooks;
mod land;
pub mod lapse;
pub mod lists;
mod load;
mod names;
pub mod pairing;
mod prepare;
mod probation;
pub mod search;
pub mod sessions;
mod settle;
pub mod shards;
pub mod sweep;
mod truth;
mod worker;
mod world;

pub use bounds::{Bounds, Kind};
pub use search::{Counterexample, Searched, Step, search};
pub use world::World;

use mimalloc::MiMalloc;
use search::Model;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The protocol within bounds.
#[derive(Debug, Clone, Copy)]
pub struct Protocol {
    /// The bounds of the search.
    pub bounds: Bounds,
}

/// Takes a step and its result.
type Take<'a> = &'a mut dyn FnMut(Step, Result<World, String>);

fn step(who: &'static str, number: usize, what: &'static str) -> Step {
    Step { who, number, what }
}

impl Model for Protocol {
    type State = World;

    fn start(&self) -> World {
        World::new(&self.bounds)
    }

    fn steps(&self, world: &World, take: Take<'_>) {
        let Self { bounds } = self;
        client::steps(bounds, world, take);
        worker::steps(bounds, world, take);
        flush::steps(bounds, world, take);
        prepare::steps(bounds, world, take);
        prepare::faults(bounds, world, take);
        cold::faults(bounds, world, take);
        let later = world.swept();
        if later.hot != world.hot {
            take(step("time", 0, "ends what may expire"), Ok(later));
        }
    }

    fn violation(&self, world: &World) -> Option<String> {
        check::violation(world)
    }
}
