//! Sessions (S1, S2, S5 to S8): every interleaving of sessions that open, steal, save, lapse and close, of plain writes, of landings, and of a
//! hot tier that comes back older or empty.
//!
//! The hot tier's steps are the transitions of the memory engine. The model's own are the database, which has one row, the order of steps,
//! and what a session does with the answers, which the SDK does in the same way. Time is not in it: a holder may be called gone at any
//! moment, which is more than a lease allows; but a grace ends only when all sessions have claimed that are awake.

use std::sync::Arc;

use storage_dirty::memory::{PartState, Present, fill, landing, lock, mutate, read, record, session};
use storage_dirty::{
    Adopt, ClaimSession, Claimed, Entry, Fields, HotRead, Load, Lock, Map, Mutated, Observed, OpenSession, Opened, Refusal,
    Settle,
};
use storage_model::{Attempt, Bytes, Cell, Change, Condition, Epoch, Fence, Field, Mutation, OpId, Timestamp, Version};

use crate::names::{LATER, PARTITION, PRESENT, fields, owner};
use crate::search::{Model, Step};

/// The sessions within bounds.
#[derive(Debug, Clone, Copy)]
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
    /// Whether what has landed may be evicted.
    pub evicts: bool,
    /// Whether the database has a row from before.
    pub stored: bool,
}

/// A session, as its server knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Known {
    fence: Fence,
    /// The epoch in which it was opened or last confirmed.
    epoch: Epoch,
    /// The greatest version that it was told of.
    acked: Version,
    value: u8,
    claims: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum At {
    Idle,
    Open(Known),
    /// Somebody else has the owner, says the hot tier.
    Lost,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Server {
    at: At,
    /// The session that it saw last, when it wanted the owner.
    seen: Option<Fence>,
    paused: bool,
    /// Whether it was paused when a grace ended.
    missed: bool,
    /// The epoch that it sends in.
    epoch: Epoch,
}

/// What must come true of this history of the hot tier.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Truth {
    /// The fence of the session that was opened last.
    last: Option<Fence>,
    /// The value that was written last.
    value: u8,
}

/// The hot tier, and what must come true of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Hot {
    part: Arc<PartState>,
    truth: Truth,
}

/// The whole.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    hot: Hot,
    copy: Option<Hot>,
    row: Option<(Version, u8)>,
    last_version: Version,
    epoch: Epoch,
    servers: Vec<Server>,
    next_value: u8,
    next_token: u8,
    replaced: u8,
    adopted: bool,
    opens: u8,
    writes: u8,
    failovers: u8,
    wipes: u8,
    pauses: u8,
    lapses: u8,
}

const DEADLINE: Timestamp = Timestamp(1_000_000);

fn field() -> Field {
    fields(1).remove(0)
}

fn change(value: u8) -> Vec<(Field, Change)> {
    vec![(field(), Change::Set(Bytes::from(value.to_string())))]
}

fn holder(server: usize) -> OpId {
    OpId::new([u8::try_from(server).unwrap_or(u8::MAX); 16])
}

fn number_of(cell: &Cell) -> Option<u8> {
    std::str::from_utf8(cell.live()?).ok()?.parse().ok()
}

impl World {
    fn part(&mut self) -> &mut PartState {
        Arc::make_mut(&mut self.hot.part)
    }

    fn present(&self) -> Present {
        Present { now: Timestamp(100 * u64::from(self.replaced)), ..PRESENT }
    }

    /// What a load brings: the owner's row, with a proof.
    fn load(&self) -> Option<Load> {
        let observed: Observed = read::observe(&self.hot.part, PARTITION, &owner()).ok()?;
        let rows = self.row.iter().map(|(version, value)| (field(), Cell::Live(Bytes::from(value.to_string())), *version));
        Some(Load { owner: owner(), observed, rows: rows.collect(), complete: true })
    }

    /// The owner as the hot tier has it, or the row where that is newer or it has nothing.
    fn stored(&self) -> (Version, Option<u8>) {
        let mut part = PartState::clone(&self.hot.part);
        let read: HotRead = match self.load().map(|load| fill::fill(&mut part, &self.present(), PARTITION, &load)) {
            Some(Ok(storage_dirty::Filled::Accepted(read))) => read,
            _ => read::read(&self.hot.part, &owner(), &Fields::All),
        };
        let version = read.header.map(|header| header.version).unwrap_or_default();
        (version, read.cells.iter().find_map(|(_, cell)| number_of(cell)))
    }

    fn is_ready(&self) -> bool {
        self.adopted && read::observe(&self.hot.part, PARTITION, &owner()).is_ok()
    }

    fn mutate(&mut self, mutation: &Mutation) -> Option<Mutated> {
        let present = self.present();
        let answer = mutate::mutate(self.part(), &present, PARTITION, mutation, None).ok()?;
        match answer {
            Mutated::Load(_) => {
                let load = self.load()?;
                mutate::mutate(self.part(), &present, PARTITION, mutation, Some(&load)).ok()
            }
            other => Some(other),
        }
    }

    fn mutation(&self, value: u8, epoch: Epoch) -> Mutation {
        let mutation = Mutation::new(owner(), change(value), OpId::new([value; 16]), DEADLINE);
        mutation.as_attempt(Attempt::First).sent_in(epoch)
    }

    /// The epoch of the hot tier's record.
    fn hot_epoch(&self) -> Epoch {
        record::partition_state(&self.hot.part).record.map(|record| record.epoch).unwrap_or_default()
    }
}

fn step(who: &'static str, number: usize, what: &'static str) -> Step {
    Step { who, number, what }
}

type Take<'a> = &'a mut dyn FnMut(Step, Result<World, String>);

impl Sessions {
    /// An idle server opens a session, or takes the place of another.
    fn open(&self, world: &World, at: usize, take: Take<'_>) {
        if world.opens == 0 {
            return;
        }
        let seen = world.servers.get(at).and_then(|server| server.seen);
        let held = session::session_of(&world.hot.part, &owner());
        if let Some(held) = held.as_ref().filter(|held| Some(held.fence) != seen) {
            let mut next = world.clone();
            if let Some(server) = next.servers.get_mut(at) {
                server.seen = Some(held.fence);
            }
            take(step("server", at, "sees who holds the owner"), Ok(next));
        }
        for (takes, what) in [(None, "opens a session"), (seen, "steals the owner")] {
            if what != "opens a session" && takes.is_none() {
                continue;
            }
            let mut next = world.clone();
            next.opens -= 1;
            next.next_token += 1;
            let open = |load| OpenSession {
                owner: owner(),
                token: OpId::new([100 + next.next_token; 16]),
                holder: holder(at),
                name: String::new(),
                takes,
                deadline: DEADLINE,
                load,
            };
            let (first, present) = (open(None), next.present());
            let second = open(next.load());
            let mut answer = session::open(next.part(), &present, PARTITION, &first);
            if matches!(answer, Ok(Opened::Load(_))) {
                answer = session::open(next.part(), &present, PARTITION, &second);
            }
            let Ok(Opened::Open { fence, epoch, read }) = answer else { continue };
            if held.as_ref().is_some_and(|held| !held.is_lapsed() && Some(held.fence) != takes) {
                take(step("server", at, what), Err("it takes the place of a session that it never saw".to_owned()));
                continue;
            }
            let value = read.cells.iter().find_map(|(_, cell)| number_of(cell)).unwrap_or_default();
            let version = read.header.map(|header| header.version).unwrap_or_default();
            if value != next.hot.truth.value {
                let truth = next.hot.truth.value;
                take(step("server", at, what), Err(format!("it opens with {value}, and {truth} was written last")));
                continue;
            }
            next.hot.truth.last = Some(fence);
            let known = Known { fence, epoch, acked: version, value, claims: false };
            if let Some(server) = next.servers.get_mut(at) {
                server.at = At::Open(known);
                server.epoch = epoch;
                server.seen = None;
            }
            take(step("server", at, what), Ok(next));
        }
    }

    /// A session saves an edit, or ends with one.
    fn save(&self, world: &World, at: usize, known: &Known, take: Take<'_>) {
        if known.claims || world.next_value >= self.edits {
            return;
        }
        for (closes, what) in [(false, "saves an edit"), (true, "saves its last edit and ends")] {
            let mut next = world.clone();
            next.next_value += 1;
            let value = next.next_value;
            let epoch = world.servers.get(at).map(|server| server.epoch).unwrap_or_default();
            let mut save = next.mutation(value, epoch).by(known.fence);
            save.closes = closes;
            let Some(answer) = next.mutate(&save) else { continue };
            if matches!(answer, Mutated::Applied(_)) && world.stored().0 > known.acked {
                take(step("server", at, what), Err("it goes over a write that its session never saw".to_owned()));
                continue;
            }
            take(step("server", at, what), next.heard(at, known, value, closes, &answer).map(|()| next));
        }
    }

    /// A session of an epoch that has passed claims its owner again.
    fn claim(&self, world: &World, at: usize, known: &Known, take: Take<'_>) {
        if !known.claims {
            return;
        }
        let mut next = world.clone();
        let claim =
            ClaimSession { owner: owner(), fence: known.fence, holder: holder(at), name: String::new(), epoch: known.epoch };
        let Ok(answer) = session::claim(next.part(), PARTITION, &claim) else { return };
        match answer {
            Claimed::No(other) => {
                let lost = next.lose(at, known, other.map(|session| session.fence));
                take(step("server", at, "claims its owner and has lost it"), lost.map(|()| next));
            }
            Claimed::Yes { epoch, graced } if graced => self.resume(next, at, known, epoch, take),
            Claimed::Yes { .. } if next.hot == world.hot => {}
            Claimed::Yes { .. } => take(step("server", at, "claims its owner"), Ok(next)),
        }
    }

    /// The grace has ended: the session goes on if nothing stored is newer than what it knows.
    fn resume(&self, mut next: World, at: usize, known: &Known, epoch: Epoch, take: Take<'_>) {
        let (stored, _) = next.stored();
        if stored > known.acked {
            let lost = next.lose(at, known, None);
            return take(step("server", at, "finds a newer state than its own"), lost.map(|()| next));
        }
        let save = next.mutation(known.value, epoch).by(known.fence).when(Condition::Version(stored));
        let save = Mutation { id: OpId::new([200 + known.value; 16]), ..save };
        let Some(answer) = next.mutate(&save) else { return };
        let known = Known { claims: false, epoch, ..known.clone() };
        if let Some(server) = next.servers.get_mut(at) {
            server.epoch = epoch;
        }
        let heard = next.heard(at, &known, known.value, false, &answer);
        take(step("server", at, "saves its state and goes on"), heard.map(|()| next));
    }
}

impl World {
    /// What a session does with the answer to its save.
    fn heard(&mut self, at: usize, known: &Known, value: u8, closes: bool, answer: &Mutated) -> Result<(), String> {
        match answer {
            Mutated::Applied(applied) => {
                // S1: no write of a former holder.
                if self.hot.truth.last.is_some_and(|last| last > known.fence) {
                    return Err(format!("a former holder's write of {value} is applied"));
                }
                self.hot.truth.last = Some(known.fence);
                self.hot.truth.value = value;
                let known = Known { acked: applied.version, value, ..known.clone() };
                self.set(at, if closes { At::Idle } else { At::Open(known) });
            }
            Mutated::Refused(Refusal::Fenced(other)) => {
                // The hot tier may have forgotten it.
                if self.hot_epoch() == known.epoch {
                    return self.lose(at, known, other.as_ref().map(|session| session.fence));
                }
                self.set(at, At::Open(Known { claims: true, ..known.clone() }));
            }
            Mutated::Refused(Refusal::Moved { .. } | Refusal::Grace(_) | Refusal::Unconfirmed(_)) => {
                self.set(at, At::Open(Known { claims: true, ..known.clone() }));
            }
            // Somebody wrote between its look and its save.
            Mutated::Refused(Refusal::Version(_)) => return self.lose(at, known, None),
            other => return Err(format!("a save is answered {other:?}")),
        }
        Ok(())
    }

    fn set(&mut self, at: usize, to: At) {
        if let Some(server) = self.servers.get_mut(at) {
            server.at = to;
        }
    }

    /// A session is lost. It must have been taken by a later one, or changed by somebody else.
    fn lose(&mut self, at: usize, known: &Known, to: Option<Fence>) -> Result<(), String> {
        let newer = self.stored().0 > known.acked;
        let missed = self.servers.get(at).is_some_and(|server| server.missed);
        if to.is_some_and(|to| to < known.fence) && !missed {
            return Err("a live session is lost to an earlier one".to_owned());
        }
        if to.is_none_or(|to| to < known.fence) && !newer && self.hot.truth.last.is_none_or(|last| last <= known.fence) {
            return Err(format!("a session is lost to {to:?}, which is no later one"));
        }
        self.set(at, At::Lost);
        Ok(())
    }

    /// What has been marked lands, all at once.
    fn land(&mut self) -> Option<()> {
        let present = self.present();
        let held = Lock { holder: "w".into(), token: "w".into() };
        lock::lock(self.part(), &present, &held, std::time::Duration::from_secs(1));
        let number = match landing::snapshot(self.part(), &present, PARTITION, &held).ok()? {
            storage_dirty::Snapshot::Empty => return None,
            storage_dirty::Snapshot::Taken(number) | storage_dirty::Snapshot::Leftover(number) => number,
        };
        let marks: Vec<Entry> = landing::scan(&self.hot.part, Map::Snapshot, 0, 10).entries;
        let collected = landing::collect(&self.hot.part, PARTITION, &[(owner(), vec![field()])]).ok()?;
        record::collects(self.part());
        let read = collected.reads.first()?;
        if let Some(header) = read.header {
            let value = read.cells.iter().find_map(|(_, cell)| number_of(cell))?;
            if self.row.is_none_or(|(version, _)| version < header.version) {
                self.row = Some((header.version, value));
            }
            self.last_version = self.last_version.max(collected.reaches);
        }
        let settle = Settle {
            partition: PARTITION,
            lock: Some(held.clone()),
            epoch: collected.epoch,
            snapshot: number,
            landed: self.last_version,
            marks,
            rows: Vec::new(),
            probation: false,
        };
        landing::settle(self.part(), &present, &settle).ok()?;
        lock::unlock(self.part(), &present, &held);
        Some(())
    }

    fn adopt(&mut self) {
        self.epoch = Epoch(self.epoch.0 + 1);
        let seen = record::partition_state(&self.hot.part);
        let adopt = Adopt {
            partition: PARTITION,
            seen,
            epoch: self.epoch,
            last_version: self.last_version,
            landed_here: true,
            compare_all: false,
            database: None,
        };
        let present = self.present();
        self.adopted = record::adopt(self.part(), &present, &adopt);
    }
}

impl Sessions {
    fn faults(&self, world: &World, take: Take<'_>) {
        if world.failovers > 0 && world.copy.is_none() && world.adopted {
            let mut next = world.clone();
            next.copy = Some(world.hot.clone());
            take(step("replica", 0, "has a copy"), Ok(next));
        }
        let back = |hot: Hot, replaced: u8| {
            let mut hot = hot;
            Arc::make_mut(&mut hot.part).move_to(replaced.to_string().into());
            hot
        };
        if let Some(copy) = &world.copy {
            let mut next = world.clone();
            next.failovers -= 1;
            next.replaced += 1;
            next.copy = None;
            next.adopted = false;
            next.hot = back(copy.clone(), next.replaced);
            // Rows are newer than what it has, if they are.
            if let Some((version, value)) = next.row.filter(|(version, _)| *version > next.stored_hot()) {
                let _ = version;
                next.hot.truth.value = value;
            }
            take(step("hot tier", 0, "comes back older"), Ok(next));
        }
        if world.wipes > 0 && world.adopted {
            let mut next = world.clone();
            next.wipes -= 1;
            next.replaced += 1;
            next.copy = None;
            next.adopted = false;
            let truth = Truth { last: None, value: next.row.map(|(_, value)| value).unwrap_or_default() };
            next.hot = Hot { part: Arc::new(PartState::new(next.replaced.to_string().into())), truth };
            take(step("hot tier", 0, "comes back empty"), Ok(next));
        }
        if !world.adopted {
            let mut next = world.clone();
            next.adopt();
            take(step("worker", 0, "adopts the partition"), Ok(next));
        }
    }

    fn others(&self, world: &World, take: Take<'_>) {
        if !world.is_ready() {
            return;
        }
        let mut next = world.clone();
        if next.land().is_some() {
            take(step("worker", 0, "lands"), Ok(next));
        }
        if self.evicts {
            let mut next = world.clone();
            let later = Timestamp(LATER.0);
            next.part().sweep(later);
            if next.hot != world.hot {
                take(step("time", 0, "ends what may expire"), Ok(next));
            }
        }
        if world.writes > 0 && world.next_value < self.edits {
            let mut next = world.clone();
            next.writes -= 1;
            next.next_value += 1;
            let write = next.mutation(next.next_value, next.hot_epoch());
            match next.mutate(&write) {
                Some(Mutated::Applied(_))
                    if session::session_of(&world.hot.part, &owner()).is_some_and(|held| !held.is_lapsed()) =>
                {
                    take(
                        step("client", 0, "writes"),
                        Err("a plain write of an owner that a session holds is applied".to_owned()),
                    );
                }
                Some(Mutated::Applied(_)) => {
                    next.hot.truth.value = next.next_value;
                    take(step("client", 0, "writes"), Ok(next));
                }
                Some(Mutated::Refused(Refusal::Held(_))) => {}
                other => take(step("client", 0, "writes"), Err(format!("a plain write is answered {other:?}"))),
            }
        }
        for at in 0..world.servers.len() {
            if world.lapses == 0 {
                break;
            }
            let mut next = world.clone();
            next.lapses -= 1;
            let present = next.present();
            if session::lapse(next.part(), &present, PARTITION, holder(at), None).is_ok_and(|lapsed| lapsed > 0) {
                take(step("worker", at, "says that the holder is gone"), Ok(next));
            }
        }
        // Every session that is awake has claimed by then, or learned that it lost.
        let claims = |server: &Server| match &server.at {
            At::Open(known) if !server.paused => {
                let mut part = PartState::clone(&world.hot.part);
                let claim = ClaimSession {
                    owner: owner(),
                    fence: known.fence,
                    holder: OpId::new([0; 16]),
                    name: String::new(),
                    epoch: known.epoch,
                };
                known.epoch == world.hot_epoch()
                    || known.claims
                        && matches!(session::claim(&mut part, PARTITION, &claim), Ok(Claimed::Yes { .. }))
                        && part == *world.hot.part
            }
            _ => true,
        };
        if world.servers.iter().all(claims) {
            let mut next = world.clone();
            let epoch = world.hot_epoch();
            next.servers.iter_mut().for_each(|server| server.missed |= server.paused);
            if session::end_grace(next.part(), PARTITION, epoch) == Ok(true) && next.hot != world.hot {
                take(step("worker", 0, "ends the grace"), Ok(next));
            }
        }
    }
}

impl World {
    /// The version that the hot tier has by itself.
    fn stored_hot(&self) -> Version {
        read::read(&self.hot.part, &owner(), &Fields::All).header.map(|header| header.version).unwrap_or_default()
    }
}

impl Model for Sessions {
    type State = World;

    fn start(&self) -> World {
        let server = Server { at: At::Idle, seen: None, paused: false, missed: false, epoch: Epoch(0) };
        let row = self.stored.then(|| (Version::new(50).unwrap_or_default(), 50));
        let mut world = World {
            hot: Hot {
                part: Arc::new(PartState::new("0".into())),
                truth: Truth { last: None, value: row.map(|(_, value)| value).unwrap_or_default() },
            },
            copy: None,
            row,
            last_version: row.map(|(version, _)| version).unwrap_or_default(),
            epoch: Epoch(0),
            servers: vec![server; usize::from(self.servers)],
            next_value: 0,
            next_token: 0,
            replaced: 0,
            adopted: false,
            opens: self.opens,
            writes: self.writes,
            failovers: self.failovers,
            wipes: self.wipes,
            pauses: self.pauses,
            lapses: self.lapses,
        };
        world.adopt();
        world
    }

    fn steps(&self, world: &World, take: Take<'_>) {
        for (at, server) in world.servers.iter().enumerate() {
            if server.paused {
                let mut next = world.clone();
                if let Some(server) = next.servers.get_mut(at) {
                    server.paused = false;
                }
                take(step("server", at, "is woken"), Ok(next));
                continue;
            }
            if world.pauses > 0 && matches!(server.at, At::Open(_)) {
                let mut next = world.clone();
                next.pauses -= 1;
                if let Some(server) = next.servers.get_mut(at) {
                    server.paused = true;
                }
                take(step("server", at, "is paused"), Ok(next));
            }
            if !world.is_ready() {
                continue;
            }
            match &server.at {
                At::Idle | At::Lost => self.open(world, at, take),
                At::Open(known) => {
                    self.save(world, at, known, take);
                    self.claim(world, at, known, take);
                }
            }
        }
        self.others(world, take);
        self.faults(world, take);
    }

    fn violation(&self, world: &World) -> Option<String> {
        if let Some(wrong) = storage_dirty::memory::invariant::violation(&world.hot.part) {
            return Some(wrong);
        }
        let (_, value) = world.stored();
        let held = value.unwrap_or_default();
        let truth = world.hot.truth.value;
        (world.is_ready() && held != truth).then(|| format!("the owner holds {held}, and {truth} was written last"))
    }
}
