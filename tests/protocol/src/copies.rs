//! Two living copies of one hot tier: every interleaving of two hot tiers, each with a game server
//! and a worker, one database and one partition.
//!
//! A slot is a server process. `starts` gives a slot another process, and so another incarnation,
//! with its own data (a restart), with an older file (a rewind), with the data of the other slot (a
//! copy, a promotion), or blank. The other slot goes on. Every message may be overtaken by any other
//! step. A tick is an interval of comparisons: each game server compares then, and at any other
//! time, too.
//!
//! The decision is the shipped [`need`]. The model has its own database, hot tiers and order of
//! steps.

use std::cell::RefCell;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use storage_dirty::{PartitionRecord as Recorded, PartitionState};
use storage_model::sabotage::{broken, is_kept};
use storage_model::{DatabaseId, Epoch, HotId, Partition, Stamp, Version};
use storage_sql::{HotTier, PartitionRecord};
use storage_tiers::{Need, SILENCE, need};

use crate::search::{Model, Step};

/// A rule that is broken on purpose. Those of [`need`] have switches of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// Game servers compare the token alone.
    Untold,
    /// The fence compares neither epoch nor stamp.
    Unfenced,
    /// The raise names no hot tier, and the adoption does.
    Unnamed,
    /// A hot tier that is behind is refused for ever.
    Refused,
    /// Nobody tells the database that the hot tier is used.
    Untouched,
    /// Each game server tells it, whether its hot tier has the partition or not.
    BlindTouch,
    /// The adoption ignores that another process runs.
    BlindAdoption,
    /// Silence counts before a whole interval has passed.
    Hasty,
    /// The raise does not look again whether the other hot tier is silent.
    LateTouch,
    /// Silence counts while the database is away, too.
    Unwatched,
    /// The word of Sentinels does not count.
    Unheeded,
    /// A blank hot tier takes over from one that is used.
    Blank,
}

/// How often each fault may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Faults {
    /// Writes of game servers.
    pub writes: u8,
    /// New processes, from any data that is there.
    pub starts: u8,
    /// Processes that end for good.
    pub deaths: u8,
    /// Hot tiers that lose all data and go on.
    pub wipes: u8,
    /// Adoptions on purpose.
    pub adoptions: u8,
    /// Databases that come back older.
    pub restores: u8,
    /// Programs that die between two steps, and long delays.
    pub crashes: u8,
    /// Starts on the word of Sentinels.
    pub names: u8,
    /// Programs that can't reach the database for a while.
    pub cuts: u8,
    /// Databases that are away for a while.
    pub outages: u8,
    /// New processes without data.
    pub blanks: u8,
}

/// Two copies within bounds.
#[derive(Debug)]
pub struct Copies {
    /// How often each fault may happen.
    pub faults: Faults,
    /// The rule that is broken.
    pub broken: Option<Broken>,
    /// The hashes of states from which a hot tier is known to come into use, without their history.
    fine: RefCell<HashSet<u64>>,
}

impl Copies {
    /// The search within these bounds.
    #[must_use]
    pub fn new(faults: Faults, broken: Option<Broken>) -> Self {
        Self {
            faults,
            broken,
            fine: RefCell::default(),
        }
    }

    fn is_broken(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }
}

/// A server process. 0 is none.
type Process = u8;

/// How many ticks without a touch are a silence.
const SILENT: u8 = 2;

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Database {
    /// The process that the token names.
    token: Process,
    epoch: u8,
    hot: Process,
    stamp: u8,
    last: u8,
    /// The versions that have landed.
    rows: Vec<u8>,
}

/// The record of the partition: process, epoch and stamp.
type Record = (Process, u8, u8);

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Data {
    token: Process,
    record: Option<Record>,
    landed: u8,
    collected: u8,
    marks: Vec<u8>,
}

impl Data {
    fn reach(&self) -> u8 {
        self.landed.max(self.collected)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Hot {
    process: Process,
    data: Data,
}

/// What a program saw before it raises the epoch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Look {
    process: Process,
    record: Option<Record>,
    token: Process,
    db: (u8, u8, Process),
    reach: Option<u8>,
    if_silent: bool,
    is_named: bool,
    has: u8,
}

/// A raised epoch that is to be adopted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Adoption {
    process: Process,
    record: Option<Record>,
    token: Process,
    epoch: u8,
    stamp: u8,
    last: u8,
    leaps: bool,
    waited: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Preparer {
    Looked(Look),
    Adopts(Adoption),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Worker {
    Lands {
        process: Process,
        epoch: u8,
        stamp: u8,
        last: u8,
        marks: Vec<u8>,
    },
    Settles {
        process: Process,
        epoch: u8,
        marks: Vec<u8>,
    },
}

/// A state of the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    db: Database,
    older_db: Database,
    hot: [Option<Hot>; 2],
    file: Data,
    /// The slot that Sentinels name.
    named: Option<usize>,
    /// The process that each slot's game server may write to.
    servers: [Process; 2],
    preparers: [Option<Preparer>; 2],
    workers: [Option<Worker>; 2],
    /// For how many comparisons each slot's process has been replaced.
    ages: [u8; 2],
    /// Ticks since the last touch.
    quiet: u8,
    /// The slot whose programs can't reach the database.
    off: Option<usize>,
    /// Whether the database is away.
    is_away: bool,
    /// For how many ticks it has answered.
    watched: u8,
    processes: u8,
    stamps: u8,
    clock: u8,
    left: Faults,
    // For the conditions alone.
    adopted: Vec<Process>,
    replaced: Vec<Process>,
    acked: Vec<(Process, u8)>,
    leaps: u8,
    allowed: u8,
    forgiven: bool,
}

/// The word on a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Holds,
    Raise { reach: bool, if_silent: bool },
    Waits,
    Replaced,
}

/// The steps without and with faults.
type Take<'a> = &'a mut dyn FnMut(Step, Result<World, String>);

fn other(slot: usize) -> usize {
    1 - slot
}

fn add(list: &mut Vec<Process>, process: Process) {
    if !list.contains(&process) {
        list.push(process);
        list.sort_unstable();
    }
}

impl World {
    fn at(&self, slot: usize) -> Option<&Hot> {
        self.hot.get(slot)?.as_ref()
    }

    fn is_off(&self, slot: usize) -> bool {
        self.is_away || self.off == Some(slot)
    }

    /// Whether the database counts its hot tier as silent, by the shipped rule.
    fn is_silent(&self, broken: Option<Broken>) -> bool {
        let ticks = if broken == Some(Broken::Hasty) {
            self.quiet + 1
        } else {
            self.quiet
        };
        let tier = HotTier {
            id: HotId(1),
            address: String::new(),
            known_for: Duration::ZERO,
            seen_ago: SILENCE * u32::from(ticks) / u32::from(SILENT),
            partitions: 1,
        };
        !tier.is_heard(SILENCE)
    }

    fn judge(&self, model: &Copies, slot: usize, hot: &Hot) -> Verdict {
        let (data, process) = (&hot.data, hot.process);
        let is_named = self.named == Some(slot) && !model.is_broken(Broken::Unheeded);
        if data.token == 0 {
            let if_silent = self.db.hot != process && !is_named && !model.is_broken(Broken::Blank);
            return self.unless_heard(model, false, if_silent);
        }
        if data.token != self.db.token {
            return Verdict::Replaced;
        }
        match need(&state_of(hot), record_of(&self.db), false, is_named) {
            Need::Nothing | Need::Landed => Verdict::Holds,
            Need::Replaced => Verdict::Replaced,
            Need::Raise(raise) => {
                self.unless_heard(model, raise.reach.is_some(), raise.if_silent.is_some())
            }
        }
    }

    fn unless_heard(&self, model: &Copies, reach: bool, if_silent: bool) -> Verdict {
        // The shipped rule counts the time of one program. None has looked for longer than this.
        let is_watched = self.watched == SILENT || model.is_broken(Broken::Unwatched);
        let is_silent = self.is_silent(model.broken) && is_watched;
        let waits = !is_silent || model.is_broken(Broken::Refused);
        if if_silent && waits {
            Verdict::Waits
        } else {
            Verdict::Raise { reach, if_silent }
        }
    }

    /// Whether a slot has the partition, and its game server knows that and is heard.
    fn is_in_use(&self, slot: usize) -> bool {
        let Some(hot) = self.at(slot) else {
            return false;
        };
        let has = hot.data.record == Some((hot.process, self.db.epoch, self.db.stamp));
        let knows = self.servers.get(slot) == Some(&hot.process);
        !self.is_off(slot) && knows && self.db.hot == hot.process && has
    }

    /// A game server looks at both tiers. It writes while its hot tier has the partition, and then
    /// tells the database so.
    fn compared(&self, model: &Copies, slot: usize) -> Self {
        let mut next = self.clone();
        let Some(hot) = self.at(slot) else {
            return next;
        };
        let verdict = self.judge(model, slot, hot);
        let ignores = model.is_broken(Broken::Untold)
            && verdict == Verdict::Replaced
            && hot.data.token == self.db.token;
        let writes = verdict == Verdict::Holds || ignores;
        if let Some(server) = next.servers.get_mut(slot) {
            *server = if writes { hot.process } else { 0 };
        }
        let touches = verdict == Verdict::Holds && !model.is_broken(Broken::Untouched);
        if touches || model.is_broken(Broken::BlindTouch) {
            next.quiet = 0;
        }
        next
    }

    /// The state without all that only faults and conditions look at. Many states differ in nothing
    /// else.
    fn without_history(&self) -> Self {
        let mut plain = Self {
            older_db: Database::default(),
            file: Data::default(),
            ages: [0, 0],
            processes: 0,
            clock: 0,
            left: Faults::default(),
            adopted: Vec::new(),
            replaced: Vec::new(),
            acked: Vec::new(),
            leaps: 0,
            allowed: u8::MAX,
            forgiven: true,
            ..self.clone()
        };
        plain.db.rows.clear();
        plain
    }

    fn put(&mut self, slot: usize, hot: Option<Hot>) {
        if let Some(at) = self.hot.get_mut(slot) {
            *at = hot;
        }
    }

    fn set(&mut self, slot: usize, data: Data) {
        if let Some(Some(hot)) = self.hot.get_mut(slot) {
            hot.data = data;
        }
    }

    fn prepares(&mut self, slot: usize, preparer: Option<Preparer>) {
        if let Some(at) = self.preparers.get_mut(slot) {
            *at = preparer;
        }
    }

    fn works(&mut self, slot: usize, worker: Option<Worker>) {
        if let Some(at) = self.workers.get_mut(slot) {
            *at = worker;
        }
    }

    fn aged(&mut self, slot: usize, age: u8) {
        if let Some(at) = self.ages.get_mut(slot) {
            *at = age;
        }
    }

    /// What a process forgets when it ends is no fault of the rule.
    fn forget(&mut self, process: Process) {
        self.acked.retain(|(by, _)| *by != process);
    }

    /// The raise of a slot's program.
    fn raised(&self, model: &Copies, slot: usize, look: &Look) -> Result<(bool, Self), String> {
        let mut next = self.clone();
        let same = (self.db.epoch, self.db.stamp, self.db.token) == look.db
            && look.reach.is_none_or(|reach| reach == self.db.last)
            && (!look.if_silent
                || self.is_silent(model.broken)
                || model.is_broken(Broken::LateTouch));
        if !same && !broken("R14-raised-blindly") {
            next.prepares(slot, None);
            return Ok((false, next));
        }
        if !self.forgiven && look.token != 0 && self.replaced.contains(&look.process) {
            return Err("a replaced hot tier came back".to_owned());
        }
        let recorded = look.record.map(|(_, epoch, _)| epoch).unwrap_or_default();
        let current = look
            .record
            .is_some_and(|(_, epoch, stamp)| (epoch, stamp) == (self.db.epoch, self.db.stamp));
        let lacks = !(current && look.has >= self.db.last);
        let takes = look
            .record
            .is_none_or(|(process, epoch, _)| process != look.process && epoch <= self.db.epoch)
            && self.db.hot != look.process;
        if lacks && takes && !look.is_named && self.is_in_use(other(slot)) {
            return Err("a hot tier that is behind took the place of one that is used".to_owned());
        }
        let before = self.db.hot;
        next.db.epoch = look.db.0.max(self.db.epoch).max(recorded) + 1;
        next.db.stamp = self.stamps;
        next.stamps += 1;
        if !model.is_broken(Broken::Unnamed) {
            next.db.hot = look.process;
            next.takes_from(before, look.process);
        }
        if look.token == 0 {
            next.db.token = look.process;
            next.replaced.retain(|process| *process != look.process);
        }
        next.quiet = 0;
        next.prepares(
            slot,
            Some(Preparer::Adopts(Adoption {
                process: look.process,
                record: look.record,
                token: look.token,
                epoch: next.db.epoch,
                stamp: next.db.stamp,
                last: next.db.last,
                leaps: lacks,
                waited: 0,
            })),
        );
        Ok((true, next))
    }

    /// Notes for the conditions that a process lost the place to another one.
    fn takes_from(&mut self, before: Process, by: Process) {
        if before == by {
            return;
        }
        if self.adopted.contains(&before) {
            add(&mut self.replaced, before);
        }
        for slot in 0..2 {
            if self.at(slot).is_some_and(|hot| hot.process == before) {
                self.aged(slot, 0);
            }
        }
    }

    fn adopts(&self, model: &Copies, slot: usize, adoption: &Adoption) -> Result<Self, String> {
        let mut next = self.clone();
        next.prepares(slot, None);
        let in_time = adoption.waited < SILENT || broken("R14-adopted-after");
        let Some(hot) = self.at(slot).filter(|hot| {
            (hot.data.record, hot.data.token) == (adoption.record, adoption.token)
                && (hot.process == adoption.process || model.is_broken(Broken::BlindAdoption))
        }) else {
            return Ok(next);
        };
        if !in_time {
            return Ok(next);
        }
        let process = hot.process;
        let token = if adoption.token == 0 {
            adoption.process
        } else {
            adoption.token
        };
        next.set(
            slot,
            Data {
                token,
                record: Some((process, adoption.epoch, adoption.stamp)),
                landed: adoption.last,
                ..hot.data.clone()
            },
        );
        next.leaps += u8::from(adoption.leaps);
        if next.leaps > self.allowed {
            return Err("versions leap once more".to_owned());
        }
        add(&mut next.adopted, process);
        if model.is_broken(Broken::Unnamed) {
            if (self.db.epoch, self.db.stamp) == (adoption.epoch, adoption.stamp) {
                let before = self.db.hot;
                next.db.hot = process;
                next.takes_from(before, process);
            }
        } else if self.db.hot != process && !self.forgiven {
            add(&mut next.replaced, process);
        }
        Ok(next)
    }

    fn worked(&self, model: &Copies, slot: usize, worker: &Worker) -> Result<Self, String> {
        let mut next = self.clone();
        next.works(slot, None);
        match worker {
            Worker::Lands {
                process,
                epoch,
                stamp,
                last,
                marks,
            } => {
                let same =
                    self.db.epoch == *epoch && (self.db.stamp == *stamp || broken("R14-stamp"));
                if self.db.last != *last || !(same || model.is_broken(Broken::Unfenced)) {
                    return Ok(next);
                }
                if self.db.hot != *process {
                    return Err("a replaced hot tier landed".to_owned());
                }
                next.db.last = marks.iter().copied().fold(*last, u8::max);
                next.db.rows.extend(marks);
                next.db.rows.sort_unstable();
                next.db.rows.dedup();
                next.works(
                    slot,
                    Some(Worker::Settles {
                        process: *process,
                        epoch: *epoch,
                        marks: marks.clone(),
                    }),
                );
            }
            Worker::Settles {
                process,
                epoch,
                marks,
            } => {
                let is_same = |hot: &&Hot| {
                    hot.process == *process
                        && hot.data.record.is_some_and(|record| record.1 == *epoch)
                };
                if let Some(hot) = self.at(slot).filter(is_same) {
                    let mut data = hot.data.clone();
                    data.landed = marks.iter().copied().fold(data.landed, u8::max);
                    data.marks.retain(|mark| !marks.contains(mark));
                    next.set(slot, data);
                }
            }
        }
        Ok(next)
    }
}

/// The shipped form of a hot tier's record.
fn state_of(hot: &Hot) -> PartitionState {
    let version = |number: u8| Version::new(u64::from(number)).unwrap_or_default();
    let record = hot.data.record.map(|(process, epoch, stamp)| Recorded {
        incarnation: process.to_string(),
        epoch: Epoch(u64::from(epoch)),
        stamp: Stamp(u64::from(stamp)),
        generation: Epoch(0),
        source: version(hot.data.reach()),
        landed: version(hot.data.landed),
        collected: version(hot.data.collected),
        database: None,
    });
    PartitionState {
        incarnation: hot.process.to_string(),
        record,
    }
}

/// The shipped form of the database's record.
fn record_of(db: &Database) -> PartitionRecord {
    PartitionRecord {
        partition: Partition(0),
        epoch: Epoch(u64::from(db.epoch)),
        last_version: Version::new(u64::from(db.last)).unwrap_or_default(),
        landed_epoch: Epoch(0),
        stamp: Stamp(u64::from(db.stamp)),
        hot: HotId::of(&db.hot.to_string()),
        database: DatabaseId(0),
    }
}

impl Copies {
    fn work(&self, world: &World, has_faults: bool, take: Take<'_>) {
        for slot in 0..2 {
            self.serve(world, slot, has_faults, take);
        }
        for slot in (0..2).filter(|slot| !world.is_off(*slot)) {
            let (preparer, worker) = (world.preparers.get(slot), world.workers.get(slot));
            match preparer.and_then(Option::as_ref) {
                Some(Preparer::Looked(look)) => match world.raised(self, slot, look) {
                    Ok((true, next)) => take(step("program", slot, "raises the epoch"), Ok(next)),
                    Ok((false, next)) => {
                        take(step("program", slot, "finds another record"), Ok(next))
                    }
                    Err(wrong) => take(step("program", slot, "raises the epoch"), Err(wrong)),
                },
                Some(Preparer::Adopts(adoption)) => take(
                    step("program", slot, "adopts"),
                    world.adopts(self, slot, adoption),
                ),
                None => {}
            }
            if let Some(worker) = worker.and_then(Option::as_ref) {
                let what = match worker {
                    Worker::Lands { .. } => "lands",
                    Worker::Settles { .. } => "settles",
                };
                take(step("worker", slot, what), world.worked(self, slot, worker));
            }
            let is_busy = world.preparers.get(slot).is_some_and(Option::is_some)
                || world.workers.get(slot).is_some_and(Option::is_some);
            if has_faults && world.left.crashes > 0 && is_busy {
                let mut next = world.clone();
                next.prepares(slot, None);
                next.works(slot, None);
                next.left.crashes -= 1;
                take(step("program", slot, "dies"), Ok(next));
            }
        }
        self.tick(world, has_faults, take);
    }

    /// The steps of a slot's game server, and the beginnings of its programs' work.
    fn serve(&self, world: &World, slot: usize, has_faults: bool, take: Take<'_>) {
        let Some(hot) = world.at(slot) else {
            return;
        };
        let (process, data) = (hot.process, &hot.data);
        let record = data.record.filter(|record| record.0 == process);
        if has_faults
            && world.left.writes > 0
            && world.servers.get(slot) == Some(&process)
            && record.is_some()
        {
            let said = if world.ages.get(slot) >= Some(&1) && world.replaced.contains(&process) {
                Err("a game server writes after it could know of the replacement".to_owned())
            } else {
                let mut next = world.clone();
                let mut data = data.clone();
                data.marks.push(world.clock);
                next.set(slot, data);
                next.acked.push((process, world.clock));
                next.clock += 1;
                next.left.writes -= 1;
                Ok(next)
            };
            take(step("game server", slot, "writes"), said);
        }
        if world.is_off(slot) {
            return;
        }
        let next = world.compared(self, slot);
        if next.servers != world.servers {
            take(step("game server", slot, "compares"), Ok(next));
        }
        let verdict = world.judge(self, slot, hot);
        if let Verdict::Raise { reach, if_silent } = verdict
            && world.preparers.get(slot) == Some(&None)
        {
            let mut next = world.clone();
            next.prepares(
                slot,
                Some(Preparer::Looked(Look {
                    process,
                    record: data.record,
                    token: data.token,
                    db: (world.db.epoch, world.db.stamp, world.db.token),
                    reach: reach.then_some(world.db.last),
                    if_silent,
                    is_named: world.named == Some(slot),
                    has: data.reach(),
                })),
            );
            take(step("program", slot, "looks at both tiers"), Ok(next));
        }
        let Some((_, epoch, stamp)) = record.filter(|_| verdict == Verdict::Holds) else {
            return;
        };
        if world.workers.get(slot) != Some(&None) {
            return;
        }
        if let Some(newest) = data.marks.last() {
            let mut next = world.clone();
            let mut data = data.clone();
            data.collected = data.collected.max(*newest);
            next.works(
                slot,
                Some(Worker::Lands {
                    process,
                    epoch,
                    stamp,
                    last: world.db.last,
                    marks: data.marks.clone(),
                }),
            );
            next.set(slot, data);
            take(step("worker", slot, "collects"), Ok(next));
        }
        if data.landed < world.db.last {
            let mut next = world.clone();
            let landed = world.db.last;
            next.set(
                slot,
                Data {
                    landed,
                    ..data.clone()
                },
            );
            take(step("worker", slot, "raises landed"), Ok(next));
        }
    }

    /// All game servers that reach the database compare, and an interval ends.
    fn tick(&self, world: &World, has_faults: bool, take: Take<'_>) {
        let mut next = world.clone();
        for slot in (0..2).filter(|slot| !world.is_off(*slot)) {
            next = next.compared(self, slot);
        }
        let mut late = 0;
        for slot in 0..2 {
            let is_replaced = world
                .at(slot)
                .is_some_and(|hot| world.replaced.contains(&hot.process));
            let age = world.ages.get(slot).copied().unwrap_or_default() + 1;
            let counts = is_replaced && !world.is_off(slot);
            next.aged(slot, if counts { age.min(2) } else { 0 });
            if let Some(Some(Preparer::Adopts(adoption))) = next.preparers.get_mut(slot) {
                late += u8::from(adoption.waited == SILENT - 1);
                adoption.waited = SILENT.min(adoption.waited + 1);
            }
        }
        next.quiet = SILENT.min(next.quiet + 1);
        next.watched = match world.is_away {
            true => 0,
            false => SILENT.min(next.watched + 1),
        };
        // So long a delay is a fault.
        let may_be_late = late == 0 || (has_faults && world.left.crashes >= late);
        if may_be_late && next != *world {
            next.left.crashes -= late;
            take(step("time", 0, "passes"), Ok(next));
        }
        self.outage(world, has_faults, take);
        match world.off {
            Some(slot) => {
                let mut next = world.clone();
                next.off = None;
                let next = next.compared(self, slot);
                take(
                    step("program", slot, "reaches the database again"),
                    Ok(next),
                );
            }
            None if has_faults && world.left.cuts > 0 => {
                for slot in (0..2).filter(|slot| world.at(*slot).is_some()) {
                    let mut next = world.clone();
                    next.off = Some(slot);
                    next.left.cuts -= 1;
                    take(step("program", slot, "is cut off the database"), Ok(next));
                }
            }
            None => {}
        }
    }

    /// The database goes away, or is back. No program compares at that moment.
    fn outage(&self, world: &World, has_faults: bool, take: Take<'_>) {
        let mut next = world.clone();
        next.is_away = !world.is_away;
        if world.is_away {
            take(step("database", 0, "is back"), Ok(next));
        } else if has_faults && world.left.outages > 0 {
            next.left.outages -= 1;
            // Calls under way fail.
            for preparer in &mut next.preparers {
                preparer.take_if(|preparer| matches!(preparer, Preparer::Looked(_)));
            }
            take(step("database", 0, "goes away"), Ok(next));
        }
    }

    /// The faults of servers and of the database.
    fn fail(&self, world: &World, take: Take<'_>) {
        if let Some(hot) = world.at(0)
            && world.file != hot.data
            && world.left.starts > 0
            && self.faults.restores == 0
        {
            let mut next = world.clone();
            next.file = hot.data.clone();
            take(step("hot tier", 0, "is saved"), Ok(next));
        }
        for slot in 0..2 {
            self.start(world, slot, take);
            self.end(world, slot, take);
        }
        if world.left.restores > 0 && world.older_db != world.db {
            let mut next = world.clone();
            next.db = world.older_db.clone();
            next.left.restores -= 1;
            next.forgiven = true;
            next.replaced.clear();
            next.acked.clear();
            next.allowed += 2;
            take(step("database", 0, "comes back older"), Ok(next));
        }
    }

    fn start(&self, world: &World, slot: usize, take: Take<'_>) {
        let begin = |data: Data, is_named: bool| {
            let mut next = world.clone();
            if let Some(before) = world.at(slot) {
                next.forget(before.process);
            }
            next.put(
                slot,
                Some(Hot {
                    process: world.processes,
                    data,
                }),
            );
            next.processes += 1;
            next.aged(slot, 0);
            next.allowed += 1;
            if is_named {
                next.named = Some(slot);
                next.left.names -= 1;
            }
            next
        };
        if world.left.starts > 0 {
            let mut sources = vec![("starts from a file", world.file.clone())];
            let here = world.at(slot).map(|hot| ("restarts", hot.data.clone()));
            let there = world
                .at(other(slot))
                .map(|hot| ("starts as a copy", hot.data.clone()));
            let may_be_named = world.left.names > 0 && there.is_some();
            sources.extend(here.into_iter().chain(there));
            for (what, data) in sources {
                let mut next = begin(data.clone(), false);
                next.left.starts -= 1;
                take(step("hot tier", slot, what), Ok(next));
                if may_be_named && what != "restarts" {
                    let mut next = begin(data, true);
                    next.left.starts -= 1;
                    take(step("hot tier", slot, "is promoted by Sentinels"), Ok(next));
                }
            }
        }
        if world.left.blanks > 0 {
            let mut next = begin(Data::default(), false);
            next.left.blanks -= 1;
            take(step("hot tier", slot, "starts blank"), Ok(next));
        }
    }

    fn end(&self, world: &World, slot: usize, take: Take<'_>) {
        let Some(hot) = world.at(slot) else {
            return;
        };
        let process = hot.process;
        if world.left.deaths > 0 {
            let mut next = world.clone();
            next.put(slot, None);
            next.left.deaths -= 1;
            next.forget(process);
            take(step("hot tier", slot, "dies"), Ok(next));
        }
        if world.left.wipes > 0 {
            let mut next = world.clone();
            next.set(slot, Data::default());
            next.left.wipes -= 1;
            next.forget(process);
            next.allowed += 1;
            next.replaced.retain(|replaced| *replaced != process);
            take(step("hot tier", slot, "is wiped"), Ok(next));
        }
        if world.left.adoptions > 0 && world.preparers.get(slot) == Some(&None) {
            let mut next = world.clone();
            let recorded = hot.data.record.map(|(_, epoch, _)| epoch);
            next.db.token = process;
            next.db.epoch = world.db.epoch.max(recorded.unwrap_or_default()) + 1;
            next.db.hot = process;
            next.db.stamp = world.stamps;
            next.stamps += 1;
            next.set(
                slot,
                Data {
                    token: process,
                    record: Some((process, next.db.epoch, next.db.stamp)),
                    landed: world.db.last,
                    ..hot.data.clone()
                },
            );
            next.aged(slot, 0);
            next.takes_from(world.db.hot, process);
            next.replaced.retain(|replaced| *replaced != process);
            add(&mut next.adopted, process);
            next.quiet = 0;
            next.allowed += 1;
            next.leaps += 1;
            next.left.adoptions -= 1;
            take(step("operator", slot, "adopts on purpose"), Ok(next));
        }
    }

    /// Whether a hot tier comes into use from here without faults, if one could.
    fn comes_back(&self, world: &World) -> bool {
        // A database that forgot a take-over needs a person. So does one that gave the place to a copy
        // that has died since: to the others, that copy has replaced them.
        let faults = self.faults;
        let may_need_a_person = faults.wipes > 0 || faults.blanks > 0 || faults.deaths > 0;
        if world.forgiven && may_need_a_person {
            return true;
        }
        // A blank hot tier whose program takes over for it has ended meanwhile, and others came back
        // with the data from before. That needs a person, too.
        let is_blank_gone = (0..2).any(|slot| {
            let (token, process) = match world.preparers.get(slot) {
                Some(Some(Preparer::Looked(look))) => (look.token, look.process),
                Some(Some(Preparer::Adopts(adoption))) => (adoption.token, adoption.process),
                _ => return false,
            };
            token == 0 && world.at(slot).is_none_or(|hot| hot.process != process)
        });
        if is_blank_gone {
            return true;
        }
        let could = (0..2).any(|slot| {
            world.at(slot).is_some_and(|hot| {
                let fits = hot.data.token == 0 || hot.data.token == world.db.token;
                let overtaken = is_kept("R14-adopted-after")
                    && matches!(world.preparers.get(slot), Some(Some(Preparer::Adopts(adoption)))
                        if adoption.process == hot.process && adoption.stamp != world.db.stamp);
                fits && !overtaken && !world.replaced.contains(&hot.process)
            })
        });
        if !could {
            return true;
        }
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let start = world.without_history();
        let mut from: HashMap<u64, Option<u64>> = HashMap::from([(hasher.hash_one(&start), None)]);
        let mut stack = vec![(hasher.hash_one(&start), start)];
        while let Some((hash, at)) = stack.pop() {
            let is_used = |slot: usize| {
                at.at(slot).is_some_and(|hot| {
                    at.servers.get(slot) == Some(&hot.process)
                        && at.judge(self, slot, hot) == Verdict::Holds
                })
            };
            if self.fine.borrow().contains(&hash) || is_used(0) || is_used(1) {
                let mut fine = Some(hash);
                while let Some(hash) = fine {
                    self.fine.borrow_mut().insert(hash);
                    fine = from.get(&hash).copied().flatten();
                }
                return true;
            }
            self.work(&at, false, &mut |_, next| {
                let Ok(next) = next else {
                    return;
                };
                let next = next.without_history();
                if let Entry::Vacant(new) = from.entry(hasher.hash_one(&next)) {
                    let reached = *new.key();
                    new.insert(Some(hash));
                    stack.push((reached, next));
                }
            });
        }
        false
    }
}

fn step(who: &'static str, number: usize, what: &'static str) -> Step {
    Step { who, number, what }
}

impl Model for Copies {
    type State = World;

    fn start(&self) -> World {
        let data = Data {
            token: 1,
            record: Some((1, 1, 1)),
            ..Data::default()
        };
        let db = Database {
            token: 1,
            epoch: 1,
            hot: 1,
            stamp: 1,
            last: 0,
            rows: Vec::new(),
        };
        World {
            older_db: db.clone(),
            db,
            hot: [
                Some(Hot {
                    process: 1,
                    data: data.clone(),
                }),
                None,
            ],
            file: data,
            named: None,
            servers: [1, 0],
            preparers: [None, None],
            workers: [None, None],
            ages: [0, 0],
            quiet: 0,
            off: None,
            is_away: false,
            watched: SILENT,
            processes: 2,
            stamps: 2,
            clock: 1,
            left: self.faults,
            adopted: vec![1],
            replaced: Vec::new(),
            acked: Vec::new(),
            leaps: 0,
            allowed: 0,
            forgiven: false,
        }
    }

    fn steps(&self, world: &World, take: Take<'_>) {
        self.work(world, true, take);
        self.fail(world, take);
    }

    fn violation(&self, world: &World) -> Option<String> {
        for slot in 0..2 {
            let Some(hot) = world.at(slot) else {
                continue;
            };
            let is_kept = |(by, version): &(Process, u8)| {
                *by != hot.process
                    || hot.data.marks.contains(version)
                    || world.db.rows.contains(version)
            };
            if !world.acked.iter().all(is_kept) {
                return Some("an acknowledged write is neither landed nor marked".to_owned());
            }
            let verdict = world.judge(self, slot, hot);
            if verdict == Verdict::Waits && world.db.hot == hot.process {
                return Some("a hot tier waits for itself".to_owned());
            }
            let is_theirs = hot.data.token == world.db.token || hot.data.token == 0;
            if world.named == Some(slot) && verdict == Verdict::Waits && is_theirs {
                return Some("Sentinels name a hot tier that waits".to_owned());
            }
        }
        (!self.comes_back(world)).then(|| "no hot tier comes into use".to_owned())
    }
}
