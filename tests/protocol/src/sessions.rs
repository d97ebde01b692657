//! Sessions (S1, S2, S5 to S8): every interleaving of sessions that open, steal, save, lapse and
//! close, of plain writes, of landings, and of a hot tier that comes back older or empty; with
//! openings, claims and ends that are carried out late or twice.
//!
//! The hot tier's steps are the transitions of the memory engine. The model's own are the database,
//! which has one row, the order of steps, and what a session does with the answers, which the SDK
//! does in the same way. Time is not in it: a holder may be called gone at any moment, which is
//! more than a lease allows; a copy of a call may come after any deadline; but a grace ends only
//! when all sessions have claimed that are awake, and no opening is under way for as long as that.
//!
//! | module | concept |
//! | --- | --- |
//! | `world` | the state |
//! | `server` | what a server does with its session |
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

/// Which of its sessions a server ends that it finds in the hot tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sweeps {
    /// None.
    Never,
    /// Those whose token it does not know. The hot tier ends none before the grace of the epoch has
    /// ended. A server knows a token from before the opening is sent until the session's end is
    /// confirmed or given up.
    Known,
    /// The same, but it knows a token only once it has heard that the session is open.
    Unregistered,
}

/// The sessions within bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sessions {
    /// How many servers open sessions.
    pub servers: u8,
    /// How many edits they make together.
    pub edits: u8,
    /// How often a session may be opened.
    pub opens: u8,
    /// How many plain writes are tried.
    pub writes: u8,
    /// How often the hot tier may come back as an earlier copy.
    pub failovers: u8,
    /// How often it may come back empty.
    pub wipes: u8,
    /// How often a server may be paused: it takes no step until it is woken.
    pub pauses: u8,
    /// How often a holder may be called gone.
    pub lapses: u8,
    /// Of how many calls the network keeps a copy, which it may bring later. With none, an opening
    /// is one step.
    pub late: u8,
    /// Which of its sessions a server ends that it finds in the hot tier.
    pub sweeps: Sweeps,
    /// Whether what has landed may be evicted.
    pub evicts: bool,
    /// Whether the database has a row from before.
    pub stored: bool,
    /// Whether the clock of a hot tier that takes the place of another is behind that one's.
    pub sets_back: bool,
}

fn step(who: &'static str, number: usize, what: &'static str) -> Step {
    Step { who, number, what }
}

type Take<'a> = &'a mut dyn FnMut(Step, Result<World, String>);

impl Sessions {
    /// What a server does that is awake.
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
