//! The protocol as a model: every interleaving of what game servers, workers, both tiers and faults
//! do to one owner, up to a bound.
//!
//! What the hot tier does are the transitions of the memory engine, and what is decided are the
//! pure functions of landing, so it is the shipped code that is checked. The model's own are the
//! database, the order of steps, and the oracle.
//!
//! | module | concept |
//! | --- | --- |
//! | [`search`](mod@search) | the search for the shortest way to what must not be |
//! | [`bounds`] | [`Bounds`]: how much may happen |
//! | [`cases`] | the searches |
//! | [`calls`] | the numbered calls of stores: a search of its own |
//! | [`groups`] | transactions over several owners that land together: a search of its own |
//! | [`pairing`] | which hot tier and which database belong together: a search of its own |
//! | [`sessions`] | who holds an owner: a search of its own |
//! | `world` | the state |
//! | `client`, `load` | reads, writes and hot-loads |
//! | `worker`, `settle`, `probation` | landing workers |
//! | `flush` | landing one owner at once |
//! | `land` | what both have in common |
//! | `prepare` | failovers, and how a partition gets over them |
//! | `cold`, `truth` | the database, and the oracle |
//! | `check` | what must hold in every state |

pub mod bounds;
pub mod calls;
pub mod cases;
mod check;
mod client;
mod cold;
mod flush;
mod land;
mod load;
mod names;
pub mod groups;
pub mod pairing;
mod prepare;
mod probation;
pub mod search;
pub mod sessions;
mod settle;
mod truth;
mod worker;
mod world;

pub use bounds::{Bounds, Kind};
pub use search::{Counterexample, Searched, Step, search};
pub use world::World;

use search::Model;

/// The protocol within bounds.
#[derive(Debug, Clone, Copy)]
pub struct Protocol {
    /// How much may happen.
    pub bounds: Bounds,
}

/// Takes a step and what it led to.
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
        let mut later = world.clone();
        later.hot().sweep(names::LATER);
        if later.hot != world.hot {
            take(step("time", 0, "ends what may expire"), Ok(later));
        }
    }

    fn violation(&self, world: &World) -> Option<String> {
        check::violation(world)
    }
}
