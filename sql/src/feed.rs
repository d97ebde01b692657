//! The feed: landed events, and rows that are ahead of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use storage_model::{
    Bytes, Content, Epoch, Event, Lead, Note, Owner, Partition, Position, Version,
};

use crate::engine::{
    Arg, Database, Engine, Exec, Fault, MANY_MAX, Record, Session, Statement, padded, statement,
};
use crate::partition::partition_in;
use crate::read::{owner, version};
use crate::split::{BYTES_MAX, split};
use crate::upsert::value_bytes_max;
use crate::{Batch, ColdError, EventStore, Events, FeedEnds};

static READ_FEEDS: Statement = statement!("feed/read_feeds").through("PRIMARY");
static ADVANCE: Statement = statement!("feed/advance");
static ADD_EVENTS: Statement = statement!("feed/add_events");
static CLEAR_LEADS: Statement = statement!("feed/clear_leads").by_keys().through("PRIMARY");
static CLEAR_TOLD_LEADS: Statement = statement!("feed/clear_told_leads")
    .by_keys()
    .through("PRIMARY");
static CLEAR_ALL_LEADS: Statement = statement!("feed/clear_all_leads").through("PRIMARY");
static ADD_LEADS: Statement = statement!("feed/add_leads");
static READ_LEADS: Statement = statement!("feed/read_leads").through("PRIMARY");
static READ_EVENTS: Statement = statement!("feed/read_events").in_order_of("PRIMARY");
static READ_OLD_EVENTS: Statement = statement!("feed/read_old_events");
static DROP_EVENTS: Statement = statement!("feed/drop_events").through("PRIMARY");
static TRIM: Statement = statement!("feed/trim").through("PRIMARY");

pub(crate) const STATEMENTS: &[&Statement] = &[
    &READ_FEEDS,
    &ADVANCE,
    &ADD_EVENTS,
    &CLEAR_LEADS,
    &CLEAR_TOLD_LEADS,
    &CLEAR_ALL_LEADS,
    &ADD_LEADS,
    &READ_LEADS,
    &READ_EVENTS,
    &READ_OLD_EVENTS,
    &DROP_EVENTS,
    &TRIM,
];

// The kinds of events in the table.
const NOTE: u64 = 0;
/// A note of a write that did not know the owner's version.
const NOTE_OF_UNKNOWN: u64 = 1;
const RESYNC: u64 = 2;
const GAP: u64 = 3;

#[async_trait]
impl<E: Engine> EventStore for Database<E> {
    async fn feeds(&self, partitions: &[Partition]) -> Result<Vec<FeedEnds>, ColdError> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        self.read("feeds", async |exec| feeds(exec, partitions).await)
            .await
    }

    async fn events(
        &self,
        partition: Partition,
        after: Position,
        limit: usize,
    ) -> Result<Vec<Event>, ColdError> {
        self.read("events", async |exec| {
            let mut args = after_args(partition, after).to_vec();
            args.push(number(limit));
            let read = |record: &dyn Record| event(partition, record);
            exec.fetch(&READ_EVENTS, 1, &args, read).await
        })
        .await
    }

    async fn leads(&self, partition: Partition, before: Epoch) -> Result<Vec<Lead>, ColdError> {
        self.read("leads", async |exec| {
            let args = [id(partition), Arg::Number(before.0)];
            exec.fetch(&READ_LEADS, 1, &args, lead).await
        })
        .await
    }

    async fn drop_events(
        &self,
        partition: Partition,
        older_than: Duration,
        limit: usize,
    ) -> Result<usize, ColdError> {
        self.write("drop_events", async |exec| {
            let args = [
                id(partition),
                number(limit),
                Arg::Number(older_than.as_secs()),
            ];
            let read = |record: &dyn Record| position(record, 0);
            let old = exec.fetch(&READ_OLD_EVENTS, 1, &args, read).await?;
            let Some(last) = old.last().copied() else {
                return Ok(0);
            };
            exec.transaction(async |exec| {
                // ORDER: the record first. So a reader that finds events missing finds also that
                // they were dropped.
                let upto = after_args(partition, last);
                let mut trimmed = vec![Arg::Number(last.epoch.0), Arg::Number(last.number)];
                trimmed.extend(upto);
                exec.execute(&TRIM, 1, &trimmed).await?;
                exec.execute(&DROP_EVENTS, 1, &upto).await.map(drop)
            })
            .await?;
            Ok(old.len())
        })
        .await
    }
}

/// Adds the events of a batch, and keeps the leads of its rows. The fences of the batch are held.
/// Returns the partitions whose feeds have another end than the one that was read.
///
/// The rows of an owner are ahead if the owner has a note beyond the end of the feed. If the hot
/// tier loses that note, the lead is all that tells of it.
pub(crate) async fn write<S: Session>(
    exec: &mut Exec<S>,
    batch: &Batch,
) -> Result<Vec<Partition>, Fault> {
    let mut ends = feeds(exec, &touched(batch)).await?;
    let moved = advance(batch, &mut ends);
    if !moved.is_empty() {
        return Ok(moved);
    }
    for end in &ends {
        if let Some(events) = of_partition(batch, end.partition) {
            add(exec, events, end.last).await?;
        }
    }
    add_leads(exec, &batch.leads, &ends).await?;
    Ok(Vec::new())
}

/// The partitions whose feeds a batch concerns, each once.
fn touched(batch: &Batch) -> Vec<Partition> {
    let events = batch.events.iter().map(|events| events.partition);
    let leads = batch.leads.iter().map(|(partition, _)| *partition);
    let touched: BTreeSet<Partition> = events.chain(leads).collect();
    touched.into_iter().collect()
}

/// Moves the ends of feeds to the last events of a batch. Returns the partitions whose feeds have
/// another end than the one that was read.
fn advance(batch: &Batch, ends: &mut [FeedEnds]) -> Vec<Partition> {
    let mut moved = Vec::new();
    for end in ends {
        let Some(events) = of_partition(batch, end.partition) else {
            continue;
        };
        if events.after != end.last {
            moved.push(end.partition);
        } else if let Some(last) = events.events.last() {
            end.last = last.position;
        }
    }
    moved
}

fn of_partition(batch: &Batch, partition: Partition) -> Option<&Events> {
    let mut events = batch.events.iter();
    events.find(|events| events.partition == partition)
}

/// Adds events, moves the end of the feed to the last of them, and clears the leads that they end.
async fn add<S: Session>(exec: &mut Exec<S>, events: &Events, last: Position) -> Result<(), Fault> {
    let sizes: Vec<usize> = events.events.iter().map(size).collect();
    let counters: Vec<String> = events.events.iter().map(counters_of).collect();
    let bytes_max = BYTES_MAX.min(value_bytes_max(exec.packet_bytes_max()));
    for range in split(&sizes, bytes_max) {
        let some = events.events.get(range.clone()).unwrap_or_default();
        let texts = counters.get(range).unwrap_or_default();
        let args: Vec<Arg<'_>> = some
            .iter()
            .zip(texts)
            .flat_map(|(event, counters)| event_args(event, counters))
            .collect();
        exec.execute(&ADD_EVENTS, some.len(), &args).await?;
    }
    let end = [
        id(events.partition),
        Arg::Number(last.epoch.0),
        Arg::Number(last.number),
    ];
    exec.execute(&ADVANCE, 1, &end).await?;
    clear_leads(exec, events).await
}

/// The leads that events end. A note ends those of its owner in its epoch. A lead of an earlier
/// epoch may be of a note that was lost.
#[derive(Debug, Default)]
struct EndedLeads<'a> {
    /// Of each epoch, the last note and the owners of its notes.
    noted: BTreeMap<Epoch, (Position, BTreeSet<&'a Owner>)>,
    /// The owners that readers were told to read, and the last event that does.
    told: BTreeSet<&'a Owner>,
    told_at: Position,
    /// The last gap. It tells of all owners.
    gap: Option<Position>,
}

impl<'a> EndedLeads<'a> {
    fn by(events: &'a [Event]) -> Self {
        let mut ended = Self::default();
        for event in events {
            match &event.content {
                Content::Note(note) => {
                    let (last, owners) = ended.noted.entry(event.position.epoch).or_default();
                    *last = event.position;
                    owners.insert(&note.owner);
                }
                Content::Resync { owner } => {
                    ended.told.insert(owner);
                    ended.told_at = event.position;
                }
                _ => ended.gap = Some(event.position),
            }
        }
        ended
    }
}

/// Clears the leads that events end.
async fn clear_leads<S: Session>(exec: &mut Exec<S>, events: &Events) -> Result<(), Fault> {
    let ended = EndedLeads::by(&events.events);
    if let Some(gap) = ended.gap {
        let upto = after_args(events.partition, gap);
        exec.execute(&CLEAR_ALL_LEADS, 1, &upto).await?;
    }
    for (epoch, (last, owners)) in ended.noted {
        let upto = [Arg::Number(epoch.0), Arg::Number(last.number)];
        let head = [&[id(events.partition)][..], &upto].concat();
        clear(exec, &CLEAR_LEADS, &head, &owners).await?;
    }
    let head = after_args(events.partition, ended.told_at);
    clear(exec, &CLEAR_TOLD_LEADS, &head, &ended.told).await
}

/// Runs a statement that takes these arguments and then owners.
async fn clear<S: Session>(
    exec: &mut Exec<S>,
    statement: &'static Statement,
    head: &[Arg<'static>],
    owners: &BTreeSet<&Owner>,
) -> Result<(), Fault> {
    let owners: Vec<&Owner> = owners.iter().copied().collect();
    for chunk in owners.chunks(statement.longest) {
        let owners = padded(chunk);
        let mut args: Vec<Arg<'_>> = head.to_vec();
        args.extend(owners.iter().flat_map(|owner| owner_args(owner)));
        exec.execute(statement, owners.len(), &args).await?;
    }
    Ok(())
}

/// Keeps the leads that reach beyond the ends of the feeds.
async fn add_leads<S: Session>(
    exec: &mut Exec<S>,
    leads: &[(Partition, Lead)],
    ends: &[FeedEnds],
) -> Result<(), Fault> {
    let is_ahead = |(partition, lead): &&(Partition, Lead)| {
        let mut ends = ends.iter();
        let end = ends.find(|end| end.partition == *partition);
        end.is_some_and(|end| lead.position > end.last)
    };
    let mut ahead: Vec<&(Partition, Lead)> = leads.iter().filter(is_ahead).collect();
    ahead.sort_unstable_by_key(|(partition, lead)| (*partition, &lead.owner));
    for range in split(&vec![1; ahead.len()], BYTES_MAX) {
        let some = ahead.get(range).unwrap_or_default();
        let args: Vec<Arg<'_>> = some.iter().flat_map(|lead| lead_args(lead)).collect();
        exec.execute(&ADD_LEADS, some.len(), &args).await?;
    }
    Ok(())
}

fn lead_args((partition, lead): &(Partition, Lead)) -> Vec<Arg<'_>> {
    let mut args = vec![id(*partition)];
    args.extend(owner_args(&lead.owner));
    args.push(Arg::Number(lead.position.epoch.0));
    args.push(Arg::Number(lead.position.number));
    args
}

/// How far the feeds of these partitions reach, in the requested order.
async fn feeds<S: Session>(
    exec: &mut Exec<S>,
    partitions: &[Partition],
) -> Result<Vec<FeedEnds>, Fault> {
    let mut found = Vec::new();
    for chunk in partitions.chunks(MANY_MAX) {
        let ids = padded(chunk);
        let args: Vec<_> = ids.iter().copied().map(id).collect();
        found.extend(exec.fetch(&READ_FEEDS, ids.len(), &args, ends).await?);
    }
    found.sort_unstable_by_key(|ends: &FeedEnds| ends.partition);
    let of = |partition: &Partition| {
        let at = found.binary_search_by_key(partition, |ends| ends.partition);
        at.ok().and_then(|at| found.get(at).copied())
    };
    let none = |partition: &Partition| FeedEnds {
        partition: *partition,
        last: Position::ZERO,
        trimmed: Position::ZERO,
    };
    let all = partitions.iter();
    Ok(all
        .map(|partition| of(partition).unwrap_or_else(|| none(partition)))
        .collect())
}

fn ends(record: &dyn Record) -> Result<FeedEnds, Fault> {
    Ok(FeedEnds {
        partition: partition_in(record, 0)?,
        last: position(record, 1)?,
        trimmed: position(record, 3)?,
    })
}

/// The position in this column and the next.
fn position(record: &dyn Record, column: usize) -> Result<Position, Fault> {
    Ok(Position::new(
        record.number(column)?,
        record.number(column + 1)?,
    ))
}

fn lead(record: &dyn Record) -> Result<Lead, Fault> {
    Ok(Lead {
        owner: owner(record)?,
        position: position(record, 4)?,
    })
}

fn event(partition: Partition, record: &dyn Record) -> Result<Event, Fault> {
    let content = match record.number(6)? {
        kind @ (NOTE | NOTE_OF_UNKNOWN) => {
            let previous = version(record.number(8)?)?;
            Content::Note(Note {
                owner: owner(record)?,
                version: version(record.number(7)?)?,
                previous: (kind == NOTE).then_some(previous),
                counters: counters(record.bytes(9)?)?,
                body: Bytes::copy_from_slice(record.bytes(10)?),
            })
        }
        RESYNC => Content::Resync {
            owner: owner(record)?,
        },
        GAP => Content::Gap,
        kind => {
            let text = format!("an event has kind {kind}, which this program does not know");
            return Err(Fault::unreadable(text));
        }
    };
    Ok(Event {
        partition,
        position: position(record, 4)?,
        content,
    })
}

fn counters(text: &[u8]) -> Result<Vec<i64>, Fault> {
    let unreadable = || Fault::unreadable("the counters of an event are no numbers");
    let text = std::str::from_utf8(text).map_err(|_| unreadable())?;
    let numbers = text.split_ascii_whitespace().map(str::parse);
    numbers.collect::<Result<_, _>>().map_err(|_| unreadable())
}

fn counters_of(event: &Event) -> String {
    let Content::Note(note) = &event.content else {
        return String::new();
    };
    let numbers: Vec<String> = note.counters.iter().map(i64::to_string).collect();
    numbers.join(" ")
}

fn owner_of(event: &Event) -> Option<&Owner> {
    match &event.content {
        Content::Note(note) => Some(&note.owner),
        Content::Resync { owner } => Some(owner),
        _ => None,
    }
}

/// The bytes of an event in a statement, with a reserve for names, lengths and types.
fn size(event: &Event) -> usize {
    match &event.content {
        Content::Note(note) => 640 + 21 * note.counters.len() + note.body.len(),
        _ => 640,
    }
}

fn event_args<'a>(event: &'a Event, counters: &'a str) -> Vec<Arg<'a>> {
    let mut args = vec![
        id(event.partition),
        Arg::Number(event.position.epoch.0),
        Arg::Number(event.position.number),
        Arg::Number(kind(&event.content)),
    ];
    match owner_of(event) {
        Some(owner) => args.extend(owner_args(owner)),
        None => args.extend([Arg::Bytes(b""); 4]),
    }
    let (version, previous, body): (_, _, &[u8]) = match &event.content {
        Content::Note(note) => (note.version, note.previous.unwrap_or_default(), &note.body),
        _ => (Version::ZERO, Version::ZERO, &[]),
    };
    args.extend([
        Arg::Number(version.get()),
        Arg::Number(previous.get()),
        counters.into(),
        Arg::Bytes(body),
    ]);
    args
}

/// The kind of an event in the table.
fn kind(content: &Content) -> u64 {
    match content {
        Content::Note(note) if note.previous.is_some() => NOTE,
        Content::Note(_) => NOTE_OF_UNKNOWN,
        Content::Resync { .. } => RESYNC,
        _ => GAP,
    }
}

fn owner_args(owner: &Owner) -> [Arg<'_>; 4] {
    [
        owner.app().into(),
        owner.region().into(),
        owner.logic_type().into(),
        owner.id().into(),
    ]
}

/// A partition and a position, as a condition takes them.
fn after_args(partition: Partition, after: Position) -> [Arg<'static>; 4] {
    let epoch = Arg::Number(after.epoch.0);
    [id(partition), epoch, epoch, Arg::Number(after.number)]
}

fn id(partition: Partition) -> Arg<'static> {
    Arg::Number(u64::from(partition.0))
}

fn number(count: usize) -> Arg<'static> {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    Arg::Number(count.min(i64::MAX.unsigned_abs()))
}
