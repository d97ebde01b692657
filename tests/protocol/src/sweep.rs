//! The sweep of purged rows. Every interleaving of writes, landings by two workers, lost hashes and
//! the sweep, for one field of one owner.
//!
//! A state must not hold a wrong row: once the field has no mark, its row is its last write, and
//! a purged field may have no row. And no mark of a write that landed may count as lost.
//!
//! The rules: the sweep reads the partition's record first, and then looks for marks of the owner.
//! It deletes under the fence of that record, and only purged rows.

use crate::search::{Model, Step};

/// A rule of the sweep that is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The sweep deletes whatever record the partition has.
    Unfenced,
    /// The sweep looks for no marks.
    Unmarked,
    /// The sweep looks for marks before it reads the record.
    MarksFirst,
    /// The sweep deletes the row that it found, also if the row is live now.
    AnyRow,
}

/// The sweep within bounds.
#[derive(Debug, Clone, Copy)]
pub struct Sweep {
    /// How many writes are made.
    pub writes: u8,
    /// How many workers land the partition, because some lost the lock and do not know it.
    pub workers: usize,
    /// How often the hash may be lost although it is marked.
    pub losses: u8,
    /// The rule that is broken.
    pub broken: Option<Broken>,
}

/// A version of the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Cell {
    version: u8,
    is_purged: bool,
}

/// How far a worker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum At {
    Idle,
    /// The worker has read the field, and how far landings reach.
    Collected(Cell, u8),
    Committed(Cell),
}

/// How far the sweep is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Sweeping {
    Idle,
    /// It has found a purged row.
    Found,
    /// It has done the first of two looks. The record, if it is known.
    Half(Option<u8>),
    /// It has done both looks.
    Ready(u8),
}

/// A state of the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// The version of the last write.
    source: u8,
    hash: Option<Cell>,
    mark: Option<u8>,
    row: Option<Cell>,
    /// How far landings reach.
    record: u8,
    workers: Vec<At>,
    sweeping: Sweeping,
    losses: u8,
    /// The oracle: the last write.
    last: Option<Cell>,
    /// The oracle: the last version that was ever committed.
    committed: u8,
    /// The oracle: the last write was lost with its hash.
    is_lost: bool,
    /// The oracle: a mark of a write that had landed counted as lost.
    alarm: Option<u8>,
}

impl Sweep {
    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    fn work(world: &World, worker: usize, at: At) -> Option<(&'static str, World)> {
        let mut next = world.clone();
        let (what, at) = match at {
            At::Idle => {
                let mark = world.mark?;
                let Some(cell) = world.hash else {
                    if world.row.is_some_and(|row| row.version >= mark) {
                        next.mark = None;
                        return Some(("finds a row in place of the hash", next));
                    }
                    next.alarm = (mark <= world.committed).then_some(mark);
                    (next.mark, next.is_lost) = (None, true);
                    return Some(("finds neither hash nor row", next));
                };
                ("collects the field", At::Collected(cell, world.record))
            }
            At::Collected(cell, landed) if landed == world.record => {
                next.record = world.record.max(cell.version);
                let is_newer = world.row.is_none_or(|row| cell.version > row.version);
                if is_newer {
                    next.row = Some(cell);
                }
                next.committed = world.committed.max(cell.version);
                ("commits", At::Committed(cell))
            }
            At::Collected(..) => ("is fenced", At::Idle),
            At::Committed(cell) => {
                if world.mark.is_some_and(|mark| mark <= cell.version) {
                    next.mark = None;
                }
                ("settles", At::Idle)
            }
        };
        *next.workers.get_mut(worker)? = at;
        Some((what, next))
    }

    fn sweep(&self, world: &World) -> Option<(&'static str, World)> {
        let mut next = world.clone();
        let is_clean = world.mark.is_none() || self.is(Broken::Unmarked);
        let (what, sweeping) = match world.sweeping {
            Sweeping::Idle if world.row.is_some_and(|row| row.is_purged) => {
                ("finds a purged row", Sweeping::Found)
            }
            Sweeping::Idle => return None,
            Sweeping::Found if self.is(Broken::MarksFirst) && is_clean => {
                ("finds no mark", Sweeping::Half(None))
            }
            Sweeping::Found if self.is(Broken::MarksFirst) => ("finds a mark", Sweeping::Idle),
            Sweeping::Found => ("reads the record", Sweeping::Half(Some(world.record))),
            Sweeping::Half(None) => ("reads the record", Sweeping::Ready(world.record)),
            Sweeping::Half(Some(record)) if is_clean => ("finds no mark", Sweeping::Ready(record)),
            Sweeping::Half(Some(_)) => ("finds a mark", Sweeping::Idle),
            Sweeping::Ready(record) => {
                let is_fenced = record != world.record && !self.is(Broken::Unfenced);
                let may_go = |row: &Cell| row.is_purged || self.is(Broken::AnyRow);
                if !is_fenced && world.row.as_ref().is_some_and(may_go) {
                    next.row = None;
                }
                ("deletes", Sweeping::Idle)
            }
        };
        next.sweeping = sweeping;
        Some((what, next))
    }

    fn write(world: &World, is_purged: bool) -> World {
        let mut next = world.clone();
        let version = world.source.max(world.record) + 1;
        let cell = Cell { version, is_purged };
        next.source = version;
        next.hash = Some(cell);
        next.mark = Some(version);
        (next.last, next.is_lost) = (Some(cell), false);
        next
    }
}

impl Model for Sweep {
    type State = World;

    fn start(&self) -> World {
        World {
            source: 0,
            hash: None,
            mark: None,
            row: None,
            record: 0,
            workers: vec![At::Idle; self.workers],
            sweeping: Sweeping::Idle,
            losses: 0,
            last: None,
            committed: 0,
            is_lost: false,
            alarm: None,
        }
    }

    fn steps(&self, world: &World, take: &mut dyn FnMut(Step, Result<World, String>)) {
        let mut give = |who, number, found: Option<(&'static str, World)>| {
            if let Some((what, next)) = found {
                take(Step { who, number, what }, Ok(next));
            }
        };
        for (worker, at) in world.workers.iter().enumerate() {
            give("worker", worker, Self::work(world, worker, *at));
        }
        give("sweep", 0, self.sweep(world));
        if world.source < self.writes {
            give("game", 0, Some(("sets", Self::write(world, false))));
            give("game", 0, Some(("purges", Self::write(world, true))));
        }
        if world.losses < self.losses && world.hash.is_some() {
            let mut next = world.clone();
            next.hash = None;
            // A hash without a mark just expires.
            next.losses += u8::from(world.mark.is_some());
            give("hash", 0, Some(("is lost", next)));
        }
    }

    fn violation(&self, world: &World) -> Option<String> {
        if let Some(mark) = world.alarm {
            return Some(format!(
                "the write {mark} counts as lost, and it has landed"
            ));
        }
        if world.mark.is_some() || world.is_lost {
            return None;
        }
        let is_right = match world.last {
            Some(last) if last.is_purged => world.row.is_none_or(|row| row == last),
            last => world.row == last,
        };
        (!is_right).then(|| format!("the row is {:?}, not {:?}", world.row, world.last))
    }
}
