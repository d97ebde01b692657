//! Hooks of landing: rows that follow from landed rows, by definitions that can change. Every
//! interleaving of landings, a change of the definitions, and the builder that comes after it.
//!
//! A state must not lack a row: once the builder has ended, each landed row has the row that
//! follows from it by the latest definitions.
//!
//! The rules: a landing commits only under the number of definitions that its worker knows. A
//! change of the definitions moves how far the landings of every partition reach, and so locks
//! their records first. It creates missing records. A worker reads the number before the
//! definitions. The builder begins after the change is committed.

use crate::search::{Model, Step};

/// A rule of hooks that is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// A landing does not compare the number of definitions.
    Uncompared,
    /// A change of the definitions leaves how far landings reach.
    Unmoved,
    /// A change of the definitions creates no missing record.
    Uncreated,
    /// A worker reads the definitions before their number.
    NumberLast,
    /// The builder begins before the change is committed.
    BuiltEarly,
    /// The builder replaces rows of later landings.
    BuiltUnguarded,
}

/// Hooks within bounds. There is one partition with one owner.
#[derive(Debug, Clone, Copy)]
pub struct Hooks {
    /// How many writes are made.
    pub writes: u8,
    /// How many workers land the partition, because some lost the lock and do not know it.
    pub workers: usize,
    /// The rule that is broken.
    pub broken: Option<Broken>,
}

/// The definitions that a worker has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Known {
    number: u8,
    /// Whether the definitions have the new index.
    indexes: bool,
}

/// How far a worker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum At {
    /// The worker has read one of the number and the definitions.
    Half(Known),
    Idle(Option<Known>),
    Collected(Known, Read),
    /// The fence's statement has begun, and has read the number of definitions.
    Asked(Known, Read),
    /// The fence matched. The record is locked until the commit.
    Fenced(Known, Read),
}

/// A row as the worker read it, and how far landings reached then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Read {
    version: u8,
    landed: u8,
}

/// How far the change of the definitions is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Change {
    Due,
    /// The records are locked.
    Locked,
    Committed,
}

/// How far the builder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Build {
    Due,
    /// The builder has read the row at this version.
    Read(u8),
    Done,
}

/// A state of the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// The version of the owner in the hot tier.
    version: u8,
    /// How far landings reach, as the hot tier knows it.
    landed: u8,
    /// The committed row of the owner.
    row: u8,
    /// The version of the row in the new index.
    entry: u8,
    /// The committed record: how far landings reach.
    record: Option<u8>,
    workers: Vec<At>,
    change: Change,
    build: Build,
}

impl World {
    fn definitions(&self) -> Known {
        let indexes = self.change == Change::Committed;
        let number = u8::from(indexes);
        Known { number, indexes }
    }

    /// Whether a transaction holds the record's lock.
    fn is_locked(&self) -> bool {
        let by_worker = |at: &At| matches!(at, At::Fenced(..));
        self.change == Change::Locked || self.workers.iter().any(by_worker)
    }

    fn put(&mut self, worker: usize, at: At) {
        if let Some(slot) = self.workers.get_mut(worker) {
            *slot = at;
        }
    }
}

impl Hooks {
    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    /// The next steps of a worker, by how far it is.
    fn work(&self, world: &World, worker: usize, at: At) -> Option<(&'static str, World)> {
        let mut next = world.clone();
        let (what, at) = match at {
            At::Idle(None) => (
                "reads the first of number and definitions",
                At::Half(world.definitions()),
            ),
            At::Half(first) => {
                let second = world.definitions();
                let (number, indexes) = if self.is(Broken::NumberLast) {
                    (second.number, first.indexes)
                } else {
                    (first.number, second.indexes)
                };
                let known = Known { number, indexes };
                ("reads the other one", At::Idle(Some(known)))
            }
            At::Idle(Some(known)) if world.version > world.row => {
                let (version, landed) = (world.version, world.landed);
                let read = Read { version, landed };
                ("collects the row", At::Collected(known, read))
            }
            At::Idle(Some(_)) => return None,
            At::Collected(known, read) => {
                let matches = known.number == world.definitions().number;
                if matches || self.is(Broken::Uncompared) {
                    ("begins the fence's statement", At::Asked(known, read))
                } else {
                    ("knows other definitions", At::Idle(None))
                }
            }
            At::Asked(known, read) => {
                if world.is_locked() {
                    return None;
                }
                if world.record == Some(read.landed) {
                    ("holds the fence", At::Fenced(known, read))
                } else {
                    // The worker prepares the partition and learns how far landings reach.
                    next.record = Some(world.record.unwrap_or_default());
                    next.landed = next.record.unwrap_or_default();
                    ("finds another record", At::Idle(None))
                }
            }
            At::Fenced(known, read) => {
                next.row = next.row.max(read.version);
                if known.indexes {
                    next.entry = next.entry.max(read.version);
                }
                next.landed = read.landed + 1;
                next.record = Some(next.landed);
                ("commits", At::Idle(Some(known)))
            }
        };
        next.put(worker, at);
        Some((what, next))
    }

    /// The next step of whoever changes the definitions.
    fn change(&self, world: &World) -> Option<(&'static str, World)> {
        let mut next = world.clone();
        match world.change {
            // No lock is there to wait for as long as there is no record.
            Change::Due if world.is_locked() => None,
            Change::Due if world.record.is_none() && self.is(Broken::Uncreated) => {
                next.change = Change::Committed;
                Some(("changes the definitions", next))
            }
            Change::Due => {
                next.record = Some(world.record.unwrap_or_default());
                next.change = Change::Locked;
                Some(("locks the record", next))
            }
            Change::Locked => {
                let moves = u8::from(!self.is(Broken::Unmoved));
                next.record = world.record.map(|reach| reach + moves);
                next.change = Change::Committed;
                Some(("commits the new definitions", next))
            }
            Change::Committed => None,
        }
    }

    fn build(&self, world: &World) -> Option<(&'static str, World)> {
        let mut next = world.clone();
        let may_begin = world.change == Change::Committed || self.is(Broken::BuiltEarly);
        match world.build {
            Build::Due if may_begin => {
                next.build = Build::Read(world.row);
                Some(("reads the row", next))
            }
            Build::Read(version) => {
                if version > world.entry || self.is(Broken::BuiltUnguarded) {
                    next.entry = version;
                }
                next.build = Build::Done;
                Some(("writes the entry", next))
            }
            _ => None,
        }
    }
}

impl Model for Hooks {
    type State = World;

    fn start(&self) -> World {
        World {
            version: 0,
            landed: 0,
            row: 0,
            entry: 0,
            record: None,
            workers: vec![At::Idle(None); self.workers],
            change: Change::Due,
            build: Build::Due,
        }
    }

    fn steps(&self, world: &World, take: &mut dyn FnMut(Step, Result<World, String>)) {
        let mut give = |who, number, found: Option<(&'static str, World)>| {
            if let Some((what, next)) = found {
                take(Step { who, number, what }, Ok(next));
            }
        };
        for (worker, at) in world.workers.iter().enumerate() {
            give("worker", worker, self.work(world, worker, *at));
        }
        give("operator", 0, self.change(world));
        give("builder", 0, self.build(world));
        if world.version < self.writes {
            let mut next = world.clone();
            next.version += 1;
            give("game", 0, Some(("writes", next)));
        }
    }

    fn violation(&self, world: &World) -> Option<String> {
        let is_built = world.change == Change::Committed && world.build == Build::Done;
        (is_built && world.entry != world.row).then(|| {
            format!(
                "the row has version {}, and its entry {}",
                world.row, world.entry
            )
        })
    }
}
