//! Which server has which shard: every interleaving of the steps of three servers over a table with
//! a row for each of two shards. The database goes away, servers are paused and go on, a server
//! dies, and the answer to a claim is lost.
//!
//! A row has the token of a claim, or none, and a beat. The holder raises the beat once in each
//! period, which is to *renew*. A server without a claim reads all rows once in each period, and
//! claims a row that it may take. No clock decides anything.
//!
//! The rules:
//! - V2: a claim ends only by a row that says so. A server that can't reach the database keeps its
//!   shard.
//! - V3: a row may be taken if it is free, or the server's own by name, or if its token and its beat
//!   were equal in three reads in a row, at least a period apart. A server without an answer in a
//!   period begins to count anew. Periods that a paused server missed are not made up for. The
//!   statement of a claim compares token and beat with those that were read. The statement of a
//!   renewal compares the token.
//!
//! So nobody takes the claim of a server that runs and renews whenever it can. A renewal succeeds for
//! the holder alone. From every state, each shard has a server again once the faults end, if enough
//! servers are alive.
//!
//! A tick is a period. Each running server has its step in each tick, in any order. A server that
//! finds a row goes on to its claim in the same tick. The model keeps no beats: each write of a row
//! tells all observers that the row has changed since their last read. No server gives its claim
//! back, so rows are free at the start alone.

#![expect(
    clippy::indexing_slicing,
    reason = "all servers and shards are numbered below the arrays' lengths"
)]

use super::step;
use crate::search::{Model, Step};

mod server;

use server::{Mode, Server};

const SERVERS: usize = 3;
const SHARDS: usize = 2;
/// How many reads in a row must be equal.
const READS: u8 = 3;
/// How many periods lie between them.
const PERIODS: u8 = READS - 1;
/// More ticks than all shards need to have a server after the last fault.
const SETTLING: usize = 8;

/// A rule of claims that is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// A claim is taken although the row has changed since it was read.
    Compare,
    /// A renewal does not compare the token.
    Token,
    /// Two equal reads are enough.
    Hasty,
    /// A paused server makes up for a missed read, within one period.
    Burst,
    /// A server without an answer goes on to count.
    Blind,
    /// A server gives up its shard as soon as it can't reach the database.
    Unknown,
    /// A server gives up its shard if it can't reach the database for a while.
    Fence,
    /// No server takes a row that another one has.
    Never,
    /// No server takes a row that is its own by name.
    Foreign,
}

/// Claims within bounds.
#[derive(Debug, Clone, Copy)]
pub struct Claims {
    /// How often a server is paused.
    pub pauses: u8,
    /// How many servers die.
    pub deaths: u8,
    /// In how many periods the database is away.
    pub outages: u8,
    /// How many answers to claims are lost.
    pub losses: u8,
    /// The rule that is broken.
    pub broken: Option<Broken>,
}

/// A token of a claim. A server has two of them, and takes the one that the row does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Token {
    server: usize,
    is_second: bool,
}

/// The faults that are left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Faults {
    pauses: u8,
    deaths: u8,
    outages: u8,
    losses: u8,
}

/// A state of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct World {
    /// The token of each row, if it is not free.
    rows: [Option<Token>; SHARDS],
    servers: [Server; SERVERS],
    /// Whether the database is there in this tick.
    is_up: bool,
    /// The servers that have had their step in this tick.
    acted: [bool; SERVERS],
    /// The oracle: how many ticks with a database have ended since the last write of each row. More
    /// than [`PERIODS`] are not counted.
    missed: [u8; SHARDS],
    faults: Faults,
}

type Take<'a> = &'a mut dyn FnMut(Step, Result<World, String>);

impl World {
    /// The first server that has not had its step in this tick.
    fn due(&self) -> Option<usize> {
        (0..SERVERS).find(|at| self.is_due(*at))
    }

    fn is_due(&self, at: usize) -> bool {
        self.servers[at].mode == Mode::Runs && !self.acted[at]
    }

    /// The next tick. The database is there again.
    fn tick(&mut self) {
        if self.is_up {
            for (missed, row) in self.missed.iter_mut().zip(self.rows) {
                *missed = row.map_or(0, |_| (*missed + 1).min(PERIODS));
            }
        }
        self.is_up = true;
        self.acted = [false; SERVERS];
    }

    /// The next tick after all faults: each server that is alive runs.
    fn healed(mut self) -> Self {
        for server in &mut self.servers {
            if server.mode == Mode::Paused {
                server.mode = Mode::Runs;
            }
        }
        self.tick();
        self
    }

    fn running(&self) -> usize {
        let servers = self.servers.iter();
        servers.filter(|server| server.mode == Mode::Runs).count()
    }

    /// Ends the tick without faults.
    fn finish(mut self, claims: &Claims) -> Result<Self, String> {
        while let Some(at) = self.due() {
            self = server::act(claims, &self, at, false)?;
        }
        self.tick();
        Ok(self)
    }

    /// A shard without a server, although all faults have ended.
    fn unserved(&self) -> Option<String> {
        (0..SHARDS)
            .find(|shard| {
                let holder = self.rows[*shard].map(|token| (token, self.servers[token.server]));
                holder.is_none_or(|(token, server)| !server.serves(*shard, token))
            })
            .map(|shard| format!("shard {shard} has no server although no faults are left"))
    }
}

impl Claims {
    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    fn faults(&self, world: &World, take: Take<'_>) {
        let faults = world.faults;
        for at in 0..SERVERS {
            let mode = world.servers[at].mode;
            let mut next = *world;
            if mode == Mode::Runs && faults.pauses > 0 {
                next.faults.pauses -= 1;
                next.servers[at].mode = Mode::Paused;
                take(step("server", at, "is paused"), Ok(next));
            }
            let mut next = *world;
            if mode == Mode::Paused {
                next.servers[at].mode = Mode::Runs;
                next.acted[at] &= !self.is(Broken::Burst);
                take(step("server", at, "goes on"), Ok(next));
            }
            let mut next = *world;
            if mode != Mode::Dead && faults.deaths > 0 {
                next.faults.deaths -= 1;
                next.servers[at] = Server::new(Mode::Dead);
                take(step("server", at, "dies"), Ok(next));
            }
        }
        if world.is_up && faults.outages > 0 && world.acted == [false; SERVERS] {
            let mut next = *world;
            next.faults.outages -= 1;
            next.is_up = false;
            take(step("database", 0, "is away in this tick"), Ok(next));
        }
    }

    fn servers(&self, world: &World, take: Take<'_>) {
        for at in (0..SERVERS).filter(|at| world.is_due(*at)) {
            let what = world.servers[at].next_step();
            take(
                step("server", at, what),
                server::act(self, world, at, false),
            );
            if world.is_up && world.faults.losses > 0 && world.servers[at].has_picked() {
                let mut before = *world;
                before.faults.losses -= 1;
                let result = server::act(self, &before, at, true);
                if result.as_ref().is_ok_and(|next| next.rows != world.rows) {
                    take(step("server", at, "claims, without an answer"), result);
                }
            }
        }
    }

    /// Ends all faults, and lets the servers work on for a while. Finds a shard that still has no
    /// server then.
    fn unsettled(&self, world: &World) -> Option<String> {
        let mut settled = world.healed();
        if settled.running() < SHARDS {
            return None;
        }
        for _ in 0..SETTLING {
            settled = match settled.finish(self) {
                Ok(settled) => settled,
                Err(violation) => return Some(violation),
            };
        }
        settled.unserved()
    }
}

impl Model for Claims {
    type State = World;

    /// The first servers have the shards, and the last one has none.
    fn start(&self) -> World {
        let world = World {
            rows: [None; SHARDS],
            servers: [Server::new(Mode::Runs); SERVERS],
            is_up: true,
            acted: [false; SERVERS],
            missed: [0; SHARDS],
            faults: Faults {
                pauses: self.pauses,
                deaths: self.deaths,
                outages: self.outages,
                losses: self.losses,
            },
        };
        world.finish(self).unwrap_or(world)
    }

    fn steps(&self, world: &World, take: Take<'_>) {
        self.faults(world, take);
        self.servers(world, take);
        if world.due().is_none() {
            let mut next = *world;
            next.tick();
            take(step("time", 0, "ends the tick"), Ok(next));
        }
    }

    fn violation(&self, world: &World) -> Option<String> {
        if world.due().is_some() {
            return None;
        }
        self.unsettled(world)
    }
}
