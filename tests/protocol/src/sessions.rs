//! Sessions (S1, S2, S5 to S8): every interleaving of sessions that open, steal, save, lapse and
//! close, of plain writes, and of landings. The hot tier can come back older or empty. Openings,
//! claims and ends can be carried out late or twice.
//!
//! The hot tier's steps are the transitions of the memory engine. The model has its own database
//! with one row, its own order of steps, and its own reaction of a session to the answers. The SDK
//! reacts in the same way.
//!
//! The model has no time. A holder may be called gone at any moment, which is more than a lease
//! allows. A copy of a call may come after any deadline. But a grace ends only when all sessions
//! that are awake have claimed, and no opening is under way for that long.
//!
//! | module | concept |
//! | --- | --- |
//! | `world` | the state |
//! | `server` | the steps of a server with its session |
//! | `network` | openings, and calls that come late or twice |
//! | `sweep` | sessions that no server knows, and how they end |
//! | `tier` | landings, plain writes, faults |

use crate::search::{Model, Step};

mod network;
mod server;
mod sweep;
mod tier;
mod world;

pub use world::World;
use world::{At, Server};

/// The sessions that a server ends when it finds them under its name in the hot tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sweeps {
    /// None.
    Never,
    /// Sessions whose token the server does not know. The hot tier ends none before the grace of
    /// the epoch has ended. A server knows a token from before the opening is sent until the
    /// session's end is confirmed or given up.
    Known,
    /// The same, but a server knows a token only after it has learned that the session is open.
    Unregistered,
}

/// The sessions within bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sessions {
    /// The number of servers that open sessions.
    pub servers: u8,
    /// The number of edits of all servers together.
    pub edits: u8,
    /// How often a session may be opened.
    pub opens: u8,
    /// The number of plain writes that are tried.
    pub writes: u8,
    /// How often the hot tier may come back as an earlier copy.
    pub failovers: u8,
    /// How often it may come back empty.
    pub wipes: u8,
    /// How often a server may be paused. It takes no step until it is woken.
    pub pauses: u8,
    /// How often a holder may be called gone.
    pub lapses: u8,
    /// The number of calls of which the network keeps a copy. It may deliver the copy later. With
    /// none, an opening is one step.
    pub late: u8,
    /// The sessions that a server ends when it finds them under its name in the hot tier.
    pub sweeps: Sweeps,
    /// Whether landed data may be evicted.
    pub evicts: bool,
    /// Whether the database has a row from before.
    pub stored: bool,
    /// Whether the clock of a new hot tier is behind the clock of the one before.
    pub sets_back: bool,
}

fn step(who: &'static str, number: usize, what: &'static str) -> Step {
    Step { who, number, what }
}

type Take<'a> = &'a mut dyn FnMut(Step, Result<World, String>);

impl Sessions {
    /// The steps of a server that is awake.
    fn acts(&self, world: &World, at: usize, server: &Server, take: Take<'_>) {
        self.opening(world, at, take);
        if !world.is_ready() {
            return;
        }
        match &server.at {
            At::Idle | At::Lost => self.wants(world, at, take),
            At::Opening { .. } => {}
            At::Open(known) => {
                self.save(world, at, known, take);
                self.claim(world, at, known, take);
                self.end(world, at, known, take);
            }
        }
        self.sweep(world, at, take);
    }
}

impl Model for Sessions {
    type State = World;

    fn start(&self) -> World {
        World::new(self)
    }

    fn steps(&self, world: &World, take: Take<'_>) {
        for (at, server) in world.servers.iter().enumerate() {
            let pause = |paused| {
                let mut next = world.clone();
                next.left.pauses -= u8::from(paused);
                if let Some(server) = next.servers.get_mut(at) {
                    server.paused = paused;
                }
                next
            };
            if server.paused {
                take(step("server", at, "is woken"), Ok(pause(false)));
                continue;
            }
            if world.left.pauses > 0 && matches!(server.at, At::Open(_) | At::Opening { .. }) {
                take(step("server", at, "is paused"), Ok(pause(true)));
            }
            self.acts(world, at, server, take);
        }
        self.copies(world, take);
        self.others(world, take);
        self.faults(world, take);
    }

    fn violation(&self, world: &World) -> Option<String> {
        if let Some(wrong) = storage_dirty::memory::invariant::violation(&world.hot.part) {
            return Some(wrong);
        }
        let held = world.stored().1.unwrap_or_default();
        let truth = world.hot.truth.value;
        let differs = world.is_ready() && held != truth;
        differs
            .then(|| format!("the owner holds {held}, and {truth} was written last"))
            .or_else(|| self.stuck(world))
    }
}
