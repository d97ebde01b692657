//! The feed of one partition: noted writes become events of the database, in the order of the
//! writes. Every interleaving of writes, workers, a flush, a reader, lost streams and faults of both
//! tiers.
//!
//! Redis can die in every state, and then the database is all that is left. So a row may be ahead
//! of the owner's events only if a lead line says so. If all that began has landed, each note has
//! been told: by its own event, or by an event that makes readers look at the rows again.
//!
//! A position is an epoch and a number. The numbers go on over epochs, so that a gap shows as a
//! number that lacks. A gap is told after the rows of the marks that were set before it.

#![expect(
    clippy::indexing_slicing,
    reason = "all owners and workers are numbered below the arrays' lengths"
)]

use crate::search::{Model, Step};

/// How many owners there are.
const OWNERS: usize = 2;

/// More steps than any landing of the whole needs.
const LANDINGS_MAX: usize = 100;

/// A rule of the feed that is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The note is not written in the step of its write.
    NoteApart,
    /// The stream is trimmed before the commit.
    TrimFirst,
    /// The stream is trimmed before the end of probation.
    TrimEarly,
    /// The commit of notes ignores the position of the last event.
    Unguarded,
    /// The commit ignores the epoch.
    Unfenced,
    /// The worker writes no lead lines.
    NoLead,
    /// A flush writes no lead lines.
    FlushNoLead,
    /// A lead line takes the position that was written last.
    LeadLowered,
    /// A note drops the lead lines of all owners.
    LeadOfAnyOwner,
    /// A note drops its owner's lead line of any position.
    LeadDroppedEarly,
    /// An owner has one lead line for all epochs.
    LeadsMerged,
    /// The landed position for lead lines is that of Redis.
    LeadOfRedis,
    /// A gap keeps the lead lines up to it.
    GapKeepsLeads,
    /// The events of notes land in a transaction before their rows.
    EventsFirst,
    /// The rows of notes land in a transaction before their events.
    RowsFirst,
    /// The new epoch does not look for lost leads.
    NoResync,
    /// The look for lost leads takes lines of another epoch.
    ResyncUnchecked,
    /// The numbers begin again in each epoch.
    NumbersRestart,
    /// The numbers go on from those of Redis alone.
    NumbersOfRedis,
    /// The next number is that after the stream's last entry.
    PositionReused,
    /// No gap is noticed.
    GapUnseen,
    /// A gap is told before the rows of its marks.
    GapFirst,
    /// A gap is told after the rows of an earlier snapshot.
    GapOfAnySnapshot,
    /// Adoption leaves no gap in place of the notes of a copy that is older than the feed.
    OlderUnseen,
    /// The leads of such a copy have the positions of their own notes.
    OlderLeads,
    /// Adoption takes the position of the last event that was read before the fence.
    LastBeforeFence,
    /// An earlier copy of Redis takes writes before its adoption.
    WriteUnadopted,
    /// Adoption keeps the position of the snapshot.
    UntilKept,
    /// Adoption keeps the landed position of Redis.
    NotedKept,
    /// The reader takes the last position after the events.
    ReadApart,
}

/// The feed within bounds.
#[derive(Debug, Clone, Copy)]
pub struct Feed {
    /// How many owners are written, at most two.
    pub owners: usize,
    /// How many writes are made, noted and plain ones.
    pub writes: u8,
    /// How many of them may be plain.
    pub plain: u8,
    /// How many notes land in a transaction.
    pub batch: usize,
    /// How many flushes may begin.
    pub flushes: u8,
    /// How many workers land the partition, because some lost the lock and do not know it.
    pub workers: usize,
    /// How often a reader reads the feed.
    pub reads: u8,
    /// How often somebody may delete the stream.
    pub deletes: u8,
    /// How often Redis may lose all data.
    pub wipes: u8,
    /// How often Redis may be replaced by an earlier copy.
    pub failovers: u8,
    /// How often the database may be replaced by an earlier copy. The stream keeps landed entries
    /// until the end of probation then.
    pub forgets: u8,
    /// The rule that is broken.
    pub broken: Option<Broken>,
}

/// A set of owners, a bit each.
type Owners = u8;

/// A set of versions, a bit each.
type Versions = u16;

fn of(owner: usize) -> Owners {
    1 << owner
}

fn bit(version: u8) -> Versions {
    1 << version
}

/// A position in the feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
struct Position {
    epoch: u8,
    number: u8,
}

/// The value of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Value {
    version: u8,
    /// The noted writes that led to it.
    noted: Versions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Note,
    /// Something of the owner was lost.
    Resync,
    /// Something of any owner was lost.
    Gap,
}

/// An entry of the stream, or an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Entry {
    at: Position,
    owner: usize,
    version: u8,
    kind: Kind,
}

/// The hot tier.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Hot {
    values: [Value; OWNERS],
    /// The position of each owner's last note.
    notes: [Position; OWNERS],
    dirty: Owners,
    snapshot: Owners,
    /// The number of the snapshot.
    number: u8,
    /// The last position at the time of the snapshot.
    until: Position,
    /// Landed marks on probation.
    landed: Owners,
    stream: Vec<Entry>,
    epoch: u8,
    /// The last position.
    note: Position,
    /// The position up to which notes have landed.
    noted: Position,
    /// The number that was left out since this Redis is an earlier copy, older than the feed.
    older: Position,
    /// The epoch for which lost leads were looked for.
    resynced: u8,
    /// The oracle: the notes of each owner that somebody deleted.
    deleted: [Versions; OWNERS],
}

/// Says that an owner's row may be ahead of its events, up to a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Lead {
    owner: usize,
    at: Position,
}

/// The cold tier.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Cold {
    rows: [Value; OWNERS],
    /// The epoch of the fence.
    epoch: u8,
    /// The position of the last event.
    last: Position,
    events: Vec<Entry>,
    leads: Vec<Lead>,
    /// The oracle: the notes of each owner that an event told.
    told: [Versions; OWNERS],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum At {
    Collected,
    /// A half of the transaction is committed, because of a broken rule.
    Half,
    Committed,
    /// The database was further than Redis knew.
    Behind,
    /// The lead lines are read.
    Resync,
}

/// A landing under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Landing {
    at: At,
    epoch: u8,
    number: u8,
    /// The position up to which notes had landed, and up to which they have landed later.
    noted: Position,
    entries: Vec<Entry>,
    /// The owners that were read, and the positions of their last notes.
    values: [Option<(Value, Position)>; OWNERS],
    /// The lead lines of earlier epochs, as entries of the stream.
    leads: Vec<Entry>,
}

/// A reader of the feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Reader {
    cursor: Position,
    /// How many events it has read.
    seen: usize,
    /// It has read the events, and not the last position.
    half: bool,
}

/// The progress of an adoption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Adopted {
    No,
    /// The fence of the database is raised.
    Fenced,
    Yes,
}

/// The whole.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    hot: Hot,
    adopted: Adopted,
    /// Marks on probation must become live again before the worker lands.
    requeue: bool,
    /// The position of the last event, as adoption read it.
    last: Position,
    hot_copy: Option<Hot>,
    cold: Cold,
    cold_copy: Option<Cold>,
    workers: [Option<Landing>; 2],
    flush: Option<Landing>,
    reader: Reader,
    version: u8,
    epoch: u8,
    writes: u8,
    plain: u8,
    flushes: u8,
    reads: u8,
    deletes: u8,
    wipes: u8,
    failovers: u8,
    forgets: u8,
}

fn step(who: &'static str, number: usize, what: &'static str) -> Step {
    Step { who, number, what }
}

type Take<'a> = &'a mut dyn FnMut(Step, Result<World, String>);

impl Hot {
    /// Appends an entry at the next position.
    fn append(&mut self, entry: Entry, at: Position) {
        self.note = at;
        self.stream.push(Entry { at, ..entry });
    }

    /// The position of an owner's last note, or of the gap that tells it.
    fn note_of(&self, owner: usize) -> Position {
        if self.has_older() {
            self.notes[owner].max(self.older)
        } else {
            self.notes[owner]
        }
    }

    /// Whether a gap must still tell the notes of an older copy.
    fn has_older(&self) -> bool {
        self.older > self.noted
    }

    fn trim(&mut self, until: Position) {
        self.stream.retain(|entry| entry.at > until);
    }

    /// Begins to land entries and owners.
    fn collect(&self, entries: &[Entry], owners: Owners) -> Landing {
        let mut values = [None; OWNERS];
        for owner in (0..OWNERS).filter(|owner| owners & of(*owner) != 0) {
            values[owner] = Some((self.values[owner], self.note_of(owner)));
        }
        Landing {
            at: At::Collected,
            epoch: self.epoch,
            number: self.number,
            noted: self.noted,
            entries: entries.to_vec(),
            values,
            leads: Vec::new(),
        }
    }
}

impl Landing {
    /// The position up to which notes have landed with this landing.
    fn until(&self) -> Position {
        self.entries.last().map_or(self.noted, |entry| entry.at)
    }
}

impl Feed {
    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    /// Whether an owner has a lead line for each epoch.
    fn keyed(&self) -> bool {
        !self.is(Broken::LeadsMerged)
    }

    fn has_probation(&self) -> bool {
        self.forgets > 0
    }

    /// The next position.
    fn next(&self, hot: &Hot) -> Position {
        let number = if self.is(Broken::PositionReused) {
            hot.stream.last().map_or(0, |entry| entry.at.number)
        } else {
            hot.note.number
        };
        Position {
            epoch: hot.epoch,
            number: number + 1,
        }
    }

    /// Whether no position is missing between two.
    fn follows(&self, former: Position, next: Position) -> bool {
        if self.is(Broken::NumbersRestart) && next.epoch > former.epoch {
            return next.number == 1;
        }
        self.is(Broken::GapUnseen) || next.number == former.number + 1
    }

    /// The next notes to land: those without a gap after the landed position.
    fn notes(&self, hot: &Hot) -> Vec<Entry> {
        let mut former = hot.noted;
        hot.stream
            .iter()
            .filter(|entry| entry.at > hot.noted)
            .take_while(|entry| {
                let follows = self.follows(former, entry.at);
                former = entry.at;
                follows
            })
            .take(self.batch)
            .copied()
            .collect()
    }

    /// The event for the entries that are missing after the landed position.
    fn gap(&self, hot: &Hot) -> Option<Entry> {
        let next = hot.stream.iter().find(|entry| entry.at > hot.noted);
        let is_gap = match next {
            Some(next) => !self.follows(hot.noted, next.at),
            None if self.is(Broken::NumbersRestart) => hot.note.number > 0 && hot.note > hot.noted,
            None => hot.note.number > hot.noted.number && !self.is(Broken::GapUnseen),
        };
        let at = next.map_or(hot.note, |next| Position {
            epoch: next.at.epoch,
            number: next.at.number - 1,
        });
        is_gap.then_some(Entry {
            at,
            owner: 0,
            version: 0,
            kind: Kind::Gap,
        })
    }

    /// Whether the rows of all marks before a gap have landed.
    fn gap_is_due(&self, hot: &Hot, gap: Entry) -> bool {
        self.is(Broken::GapFirst)
            || hot.snapshot == 0 && (hot.until >= gap.at || self.is(Broken::GapOfAnySnapshot))
    }

    fn writes(&self, world: &World, take: Take<'_>) {
        let takes_writes = world.adopted == Adopted::Yes || self.is(Broken::WriteUnadopted);
        if world.writes == 0 || !takes_writes {
            return;
        }
        // The owners differ only by their past.
        let owners = if world.version == 0 { 1 } else { self.owners };
        for owner in 0..owners {
            for plain in [false, true] {
                if plain && world.plain == 0 {
                    continue;
                }
                let mut next = world.clone();
                next.writes -= 1;
                next.plain -= u8::from(plain);
                next.version += 1;
                let (version, hot) = (next.version, &mut next.hot);
                hot.values[owner].version = version;
                hot.dirty |= of(owner);
                if !plain {
                    hot.values[owner].noted |= bit(version);
                }
                // The broken rule leaves the note to another step, before which the server dies.
                if !plain && !self.is(Broken::NoteApart) {
                    let at = self.next(hot);
                    hot.notes[owner] = at;
                    let kind = Kind::Note;
                    let entry = Entry {
                        at,
                        owner,
                        version,
                        kind,
                    };
                    hot.append(entry, at);
                }
                let what = if plain {
                    "writes"
                } else {
                    "writes with a note"
                };
                take(step("game server", owner, what), Ok(next));
            }
        }
    }

    fn worker(&self, world: &World, number: usize, take: Take<'_>) {
        let Some(landing) = &world.workers[number] else {
            if world.adopted == Adopted::Yes {
                self.begin(world, number, take);
            }
            return;
        };
        let mut next = world.clone();
        next.workers[number] = None;
        take(step("worker", number, "dies"), Ok(next));
        let mut next = world.clone();
        match landing.at {
            At::Collected | At::Half => {
                let committed = self.commit(&mut next.cold, landing.clone());
                take(
                    step("worker", number, "commits"),
                    committed.map(|landing| {
                        next.workers[number] = landing;
                        next
                    }),
                );
            }
            At::Committed | At::Behind => {
                self.settle(&mut next, landing);
                next.workers[number] = None;
                take(step("worker", number, "settles"), Ok(next));
            }
            At::Resync => {
                self.resync(&mut next, landing);
                next.workers[number] = None;
                take(step("worker", number, "resyncs"), Ok(next));
            }
        }
    }

    /// All ways to go on for a worker that lands nothing.
    fn begin(&self, world: &World, number: usize, take: Take<'_>) {
        let hot = &world.hot;
        let mut next = world.clone();
        if world.requeue {
            next.requeue = false;
            next.hot.dirty |= std::mem::take(&mut next.hot.landed);
            take(step("worker", number, "requeues probation"), Ok(next));
            return;
        }
        let gap = self.gap(hot);
        let is_due = gap.is_none_or(|gap| self.gap_is_due(hot, gap));
        if hot.snapshot == 0 && (hot.dirty != 0 || !is_due) {
            next.hot.snapshot = std::mem::take(&mut next.hot.dirty);
            next.hot.number += 1;
            next.hot.until = hot.note;
            take(step("worker", number, "takes a snapshot"), Ok(next));
        }
        let mut begin = |what, landing: Landing| {
            let mut next = world.clone();
            if self.is(Broken::TrimFirst) {
                next.hot.trim(landing.until());
            }
            next.workers[number] = Some(landing);
            take(step("worker", number, what), Ok(next));
        };
        for (owner, what) in ["reads owner 0", "reads owner 1"].into_iter().enumerate() {
            if hot.snapshot & of(owner) != 0 {
                begin(what, hot.collect(&[], of(owner)));
            }
        }
        if hot.resynced != hot.epoch {
            begin("reads the leads", self.leads(world));
        }
        let notes = self.notes(hot);
        if !notes.is_empty() {
            let owners = notes.iter().fold(0, |owners, note| owners | of(note.owner));
            begin("reads notes", hot.collect(&notes, owners));
        }
        if let Some(gap) = gap
            && is_due
        {
            begin("notices a gap", hot.collect(&[gap], 0));
        }
    }

    /// Commits a landing. `None` if another epoch has begun.
    fn commit(&self, cold: &mut Cold, landing: Landing) -> Result<Option<Landing>, String> {
        if landing.epoch != cold.epoch && !self.is(Broken::Unfenced) {
            return Ok(None);
        }
        let has_notes = !landing.entries.is_empty();
        let is_half = landing.at == At::Half;
        let is_behind = has_notes && cold.last != landing.noted && !self.is(Broken::Unguarded);
        if is_behind && !is_half {
            return Ok(Some(Landing {
                at: At::Behind,
                noted: cold.last,
                ..landing
            }));
        }
        let events_first = has_notes && self.is(Broken::EventsFirst);
        let rows_first = has_notes && self.is(Broken::RowsFirst);
        if !events_first || is_half {
            self.land_rows(cold, &landing, self.is(Broken::NoLead));
        }
        if !rows_first || is_half {
            for entry in &landing.entries {
                self.land_event(cold, *entry)?;
            }
        }
        let at = if (events_first || rows_first) && !is_half {
            At::Half
        } else {
            At::Committed
        };
        Ok(Some(Landing { at, ..landing }))
    }

    /// Writes the rows that are newer, and their lead lines.
    fn land_rows(&self, cold: &mut Cold, landing: &Landing, no_lead: bool) {
        for owner in 0..OWNERS {
            let Some((value, at)) = landing.values[owner] else {
                continue;
            };
            if value.version <= cold.rows[owner].version {
                continue;
            }
            cold.rows[owner] = value;
            let is_told = if self.is(Broken::LeadOfRedis) {
                at <= landing.until()
            } else {
                at <= landing.until().max(cold.last)
            };
            if is_told || no_lead {
                continue;
            }
            let is_same = |lead: &&mut Lead| {
                lead.owner == owner && (!self.keyed() || lead.at.epoch == at.epoch)
            };
            match cold.leads.iter_mut().find(is_same) {
                Some(lead) if self.is(Broken::LeadLowered) => lead.at = at,
                Some(lead) => lead.at = lead.at.max(at),
                None => cold.leads.push(Lead { owner, at }),
            }
            cold.leads.sort_by_key(|lead| (lead.owner, lead.at));
        }
    }

    fn land_event(&self, cold: &mut Cold, event: Entry) -> Result<(), String> {
        let Entry {
            at,
            owner,
            version,
            kind,
        } = event;
        if at <= cold.last {
            return Err(format!("{event:?} lands behind {:?}", cold.last));
        }
        let is_same = |other: &Entry| other.owner == owner && other.version == version;
        if kind == Kind::Note
            && cold
                .events
                .iter()
                .any(|other| is_same(other) && other.kind == Kind::Note)
        {
            return Err(format!("{event:?} lands twice"));
        }
        // An earlier copy that is older than the feed takes a wipe and a failover.
        let may_lack = self.deletes > 0 || self.wipes > 0 && self.failovers > 0;
        if kind == Kind::Gap && !may_lack {
            return Err("a gap is told, and nothing was deleted".to_owned());
        }
        if kind != Kind::Gap && cold.rows[owner].version < version {
            return Err(format!("{event:?} tells a change that the row lacks"));
        }
        match kind {
            Kind::Note => cold.told[owner] |= bit(version),
            Kind::Resync => cold.told[owner] |= cold.rows[owner].noted,
            Kind::Gap => {
                for owner in 0..OWNERS {
                    cold.told[owner] |= cold.rows[owner].noted;
                }
            }
        }
        let early = self.is(Broken::LeadDroppedEarly);
        let of_any =
            kind == Kind::Gap && !self.is(Broken::GapKeepsLeads) || self.is(Broken::LeadOfAnyOwner);
        let of_epoch = self.keyed() && kind == Kind::Note;
        cold.leads.retain(|lead| {
            let is_told = lead.at <= at && !(of_epoch && lead.at.epoch != at.epoch);
            let is_owner = of_any || kind != Kind::Gap && lead.owner == owner;
            !(is_owner && (is_told || early))
        });
        cold.last = at;
        cold.events.push(event);
        Ok(())
    }

    /// Clears the marks of landed owners, and trims the stream.
    fn settle(&self, world: &mut World, landing: &Landing) {
        let hot = &mut world.hot;
        if world.adopted != Adopted::Yes || landing.epoch != hot.epoch {
            return;
        }
        let until = if landing.at == At::Behind {
            landing.noted
        } else {
            landing.until()
        };
        // A late worker may lower it. Its landings then meet the guard.
        hot.noted = until;
        if !self.has_probation() || self.is(Broken::TrimEarly) {
            hot.trim(hot.noted);
        }
        if landing.at == At::Committed && landing.number == hot.number {
            for owner in (0..OWNERS).filter(|owner| landing.values[*owner].is_some()) {
                let mark = hot.snapshot & of(owner);
                hot.snapshot &= !mark;
                hot.landed |= if self.has_probation() { mark } else { 0 };
            }
        }
    }

    /// Reads the lead lines of earlier epochs.
    fn leads(&self, world: &World) -> Landing {
        let mut landing = world.hot.collect(&[], 0);
        landing.at = At::Resync;
        landing.leads = world
            .cold
            .leads
            .iter()
            .filter(|lead| lead.at.epoch < landing.epoch && !self.is(Broken::NoResync))
            .map(|lead| Entry {
                at: lead.at,
                owner: lead.owner,
                version: world.cold.rows[lead.owner].version,
                kind: Kind::Resync,
            })
            .collect();
        landing
    }

    /// Appends an entry for each lead line whose note is lost.
    fn resync(&self, world: &mut World, landing: &Landing) {
        let hot = &mut world.hot;
        let is_same = landing.epoch == hot.epoch || self.is(Broken::ResyncUnchecked);
        if world.adopted != Adopted::Yes || !is_same || hot.resynced == hot.epoch {
            return;
        }
        for lead in &landing.leads {
            if hot.stream.iter().all(|entry| entry.at != lead.at) {
                let at = self.next(hot);
                hot.append(*lead, at);
            }
        }
        hot.resynced = hot.epoch;
    }

    fn flush(&self, world: &World, take: Take<'_>) {
        if let Some(landing) = &world.flush {
            let mut next = world.clone();
            next.flush = None;
            if landing.epoch == next.cold.epoch || self.is(Broken::Unfenced) {
                let no_lead = self.is(Broken::NoLead) || self.is(Broken::FlushNoLead);
                self.land_rows(&mut next.cold, landing, no_lead);
            }
            take(step("flush", 0, "commits"), Ok(next));
            return;
        }
        if world.flushes == 0 || world.adopted != Adopted::Yes {
            return;
        }
        for owner in 0..OWNERS {
            if world.hot.values[owner].version > world.cold.rows[owner].version {
                let mut next = world.clone();
                next.flushes -= 1;
                next.flush = Some(world.hot.collect(&[], of(owner)));
                take(step("flush", owner, "reads"), Ok(next));
            }
        }
    }

    fn reader(&self, world: &World, take: Take<'_>) {
        let Reader { cursor, .. } = world.reader;
        let cold = &world.cold;
        let mut next = world.clone();
        if world.reader.half {
            next.reader.half = false;
            next.reader.cursor = cold.last;
            take(step("reader", 0, "reads the last position"), Ok(next));
        } else if world.reads > 0 && cold.last > cursor {
            next.reads -= 1;
            next.reader.seen += cold.events.iter().filter(|one| one.at > cursor).count();
            if self.is(Broken::ReadApart) {
                next.reader.half = true;
            } else {
                next.reader.cursor = cold.last;
            }
            take(step("reader", 0, "reads events"), Ok(next));
        }
    }

    fn faults(&self, world: &World, take: Take<'_>) {
        if world.deletes > 0 && world.adopted == Adopted::Yes && !world.hot.stream.is_empty() {
            let mut next = world.clone();
            next.deletes -= 1;
            for entry in std::mem::take(&mut next.hot.stream) {
                if entry.kind == Kind::Note {
                    next.hot.deleted[entry.owner] |= bit(entry.version);
                }
            }
            take(step("somebody", 0, "deletes the stream"), Ok(next));
        }
        self.hot_faults(world, take);
        self.cold_faults(world, take);
        match world.adopted {
            Adopted::No => take(step("worker", 0, "raises the fence"), Ok(self.fence(world))),
            Adopted::Fenced => take(
                step("worker", 0, "adopts the partition"),
                Ok(self.adopt(world)),
            ),
            Adopted::Yes => {}
        }
    }

    fn hot_faults(&self, world: &World, take: Take<'_>) {
        if world.wipes > 0 {
            let mut next = world.clone();
            next.wipes -= 1;
            next.replace(Hot::default());
            take(step("Redis", 0, "is wiped"), Ok(next));
        }
        if world.failovers > 0 && world.hot_copy.is_none() && world.adopted == Adopted::Yes {
            let mut next = world.clone();
            next.hot_copy = Some(world.hot.clone());
            take(step("replica", 0, "has a copy"), Ok(next));
        }
        if let Some(copy) = &world.hot_copy {
            let mut next = world.clone();
            next.failovers -= 1;
            next.hot_copy = None;
            next.replace(copy.clone());
            take(step("replica", 0, "takes over"), Ok(next));
        }
    }

    fn cold_faults(&self, world: &World, take: Take<'_>) {
        if world.forgets == 0 {
            return;
        }
        let Some(copy) = &world.cold_copy else {
            let mut next = world.clone();
            next.cold_copy = Some(world.cold.clone());
            take(step("database", 0, "is copied"), Ok(next));
            if world.adopted == Adopted::Yes && !world.requeue {
                // No copy lacks what has landed.
                let mut next = world.clone();
                next.hot.landed = 0;
                next.hot.trim(world.hot.noted);
                take(step("time", 0, "ends probation"), Ok(next));
            }
            return;
        };
        if world.adopted == Adopted::Yes {
            let mut next = world.clone();
            next.forgets -= 1;
            next.cold = copy.clone();
            next.cold_copy = None;
            // Every landing that began meets a fence of the past.
            next.cold.epoch = u8::MAX;
            next.unadopt();
            next.requeue = true;
            take(step("database", 0, "is replaced by its copy"), Ok(next));
        }
    }

    /// Raises the fence of the database. The last event of earlier epochs is known then.
    fn fence(&self, world: &World) -> World {
        let mut next = world.clone();
        next.epoch += 1;
        next.cold.epoch = next.epoch;
        next.adopted = Adopted::Fenced;
        if !self.is(Broken::LastBeforeFence) {
            next.last = next.cold.last;
        }
        next
    }

    /// The record of a new epoch. Owners that are older than their rows take the rows.
    fn adopt(&self, world: &World) -> World {
        let mut next = world.clone();
        let last = std::mem::take(&mut next.last);
        let (hot, cold) = (&mut next.hot, &next.cold);
        for owner in 0..OWNERS {
            if hot.values[owner].version < cold.rows[owner].version {
                hot.values[owner] = cold.rows[owner];
            }
        }
        // The feed can't take notes of epochs before its last event any more.
        let is_older = hot.epoch > 0 && hot.note.epoch < last.epoch;
        hot.epoch = cold.epoch;
        let number = if self.is(Broken::NumbersRestart) {
            0
        } else if self.is(Broken::NumbersOfRedis) {
            hot.note.number
        } else {
            hot.note.number.max(last.number) + u8::from(is_older && !self.is(Broken::OlderUnseen))
        };
        hot.note = Position {
            epoch: hot.epoch,
            number,
        };
        if is_older && !self.is(Broken::OlderLeads) {
            hot.older = hot.note;
        }
        if !self.is(Broken::NotedKept) {
            hot.noted = last;
        }
        if !self.is(Broken::UntilKept) {
            hot.until = Position::default();
        }
        next.adopted = Adopted::Yes;
        next
    }

    /// Lands everything without faults. The landings under way are dead.
    fn finish(&self, world: &World) -> Result<World, String> {
        let mut world = world.clone();
        world.workers = [None, None];
        if world.adopted == Adopted::No {
            world = self.fence(&world);
        }
        if world.adopted == Adopted::Fenced {
            world = self.adopt(&world);
        }
        for _ in 0..LANDINGS_MAX {
            let mut next = None;
            let mut found = None;
            if world.workers[0].is_some() {
                self.worker(&world, 0, &mut |step, result| match result {
                    Ok(state) if step.what != "dies" => next = Some(state),
                    Ok(_) => {}
                    Err(violation) => found = Some(violation),
                });
            } else {
                // The last one is the most urgent.
                self.worker(&world, 0, &mut |_, result| next = result.ok());
            }
            if let Some(violation) = found {
                return Err(violation);
            }
            let Some(next) = next else {
                return Ok(world);
            };
            world = next;
        }
        Err("landing never ends".to_owned())
    }

    /// A row that is ahead of its events, without a lead line.
    fn ahead(&self, cold: &Cold) -> Option<String> {
        let owner = (0..OWNERS).find(|owner| {
            (cold.rows[*owner].noted & !cold.told[*owner]) != 0
                && cold.leads.iter().all(|lead| lead.owner != *owner)
        })?;
        Some(format!(
            "the row of owner {owner} is ahead of its events, and no line says so"
        ))
    }

    /// A note that was lost and not deleted.
    fn lost(&self, world: &World) -> Option<String> {
        let (hot, cold) = (&world.hot, &world.cold);
        let owner = (0..OWNERS).find(|owner| {
            let known = hot
                .stream
                .iter()
                .filter(|entry| entry.owner == *owner && entry.kind == Kind::Note)
                .fold(
                    hot.deleted[*owner] | cold.rows[*owner].noted,
                    |known, one| known | bit(one.version),
                );
            let noted = hot.values[*owner].noted & !known;
            let is_due = world.adopted == Adopted::Yes && !hot.has_older();
            is_due && (noted & !cold.told[*owner]) != 0
        })?;
        Some(format!("a note of owner {owner} is lost"))
    }

    /// A note that is not told although everything has landed.
    fn unfinished(&self, world: &World) -> Option<String> {
        let world = match self.finish(world) {
            Ok(world) => world,
            Err(violation) => return Some(violation),
        };
        let (hot, cold) = (&world.hot, &world.cold);
        if let Some(owner) = (0..OWNERS).find(|owner| {
            let told = cold.told[*owner];
            hot.deleted[*owner] & hot.values[*owner].noted & !told != 0
                || (hot.values[*owner].noted & !told) != 0
        }) {
            return Some(format!(
                "all has landed, and a note of owner {owner} is untold"
            ));
        }
        if let Some(owner) =
            (0..OWNERS).find(|owner| hot.values[*owner].version != cold.rows[*owner].version)
        {
            return Some(format!("all has landed, and not owner {owner}"));
        }
        if !cold.leads.is_empty() {
            return Some("a lead line is left".to_owned());
        }
        self.ahead(cold)
    }
}

impl World {
    /// Another Redis takes the place of this one.
    fn replace(&mut self, hot: Hot) {
        self.hot = hot;
        self.unadopt();
    }

    /// The partition must be adopted. The adoption reads the database first.
    fn unadopt(&mut self) {
        self.adopted = Adopted::No;
        self.last = self.cold.last;
    }

    /// A reader that has missed an event.
    fn missed(&self) -> Option<String> {
        let Reader { cursor, seen, half } = self.reader;
        let events = &self.cold.events;
        let behind = events.iter().filter(|event| event.at <= cursor).count();
        (behind > seen && !half).then(|| "the reader has missed an event".to_owned())
    }
}

impl Model for Feed {
    type State = World;

    fn start(&self) -> World {
        let note = Position {
            epoch: 1,
            number: 0,
        };
        World {
            hot: Hot {
                epoch: 1,
                note,
                noted: note,
                ..Hot::default()
            },
            adopted: Adopted::Yes,
            requeue: false,
            last: Position::default(),
            hot_copy: None,
            cold: Cold {
                epoch: 1,
                last: note,
                ..Cold::default()
            },
            cold_copy: None,
            workers: [None, None],
            flush: None,
            reader: Reader::default(),
            version: 0,
            epoch: 1,
            writes: self.writes,
            plain: self.plain,
            flushes: self.flushes,
            reads: self.reads,
            deletes: self.deletes,
            wipes: self.wipes,
            failovers: self.failovers,
            forgets: self.forgets,
        }
    }

    fn steps(&self, world: &World, take: Take<'_>) {
        self.writes(world, take);
        for number in 0..self.workers {
            self.worker(world, number, take);
        }
        self.flush(world, take);
        self.reader(world, take);
        self.faults(world, take);
    }

    fn violation(&self, world: &World) -> Option<String> {
        self.ahead(&world.cold)
            .or_else(|| self.lost(world))
            .or_else(|| world.missed())
            .or_else(|| self.unfinished(world))
    }
}
