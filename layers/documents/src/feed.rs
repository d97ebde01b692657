//! The landed feed, what a follower has missed, and the state of one change.

use std::collections::BTreeMap;

use storage_sdk::feed::{Content, Cursor, Event as Told, Partition, Position};

use crate::{Documents, Error, Event, Kind, Path, Result};

/// The most events of a page.
pub const CHANGES_MAX: usize = 1_000;
/// About how many bytes of bodies a page has at most, and what a follower gets anew.
const PAGE_BYTES: usize = 8 << 20;
const MISSED_BYTES: usize = 16 << 20;
/// The most events of all paths that a page looks at.
const READ_MAX: usize = 100_000;
/// The most events that a follower gets anew.
const MISSED_MAX: usize = 10_000;
/// How often a follower's events are looked for in both tiers, while they land.
const LOOKS: usize = 4;

/// What the feed tells.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Change {
    /// A change of a document, an item or a collection.
    Event(Box<Event>),
    /// Changes of this path are missing. Read it again. `None` stands for all paths of the
    /// partition.
    Reset {
        /// The partition.
        partition: u32,
        /// The document, or the collection.
        path: Option<Path>,
    },
}

impl Change {
    /// Whether a follower of a prefix is told. A follower of an item is told of its collection, too.
    #[must_use]
    pub fn concerns(&self, prefix: &str) -> bool {
        let path = match self {
            Self::Event(event) => Some(&event.path),
            Self::Reset { path, .. } => path.as_ref(),
        };
        path.is_none_or(|path| path.is_below(prefix) || path.holds(prefix))
    }
}

/// A page of landed changes.
#[derive(Debug, Clone)]
pub struct Changes {
    /// The changes.
    pub changes: Vec<Change>,
    /// Where the next page begins.
    pub next: Cursor,
    /// Whether more changes are known. A page that lies behind many others can be empty.
    pub more: bool,
}

/// The state of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// The hot tier has it.
    Accepted,
    /// The database has it.
    Landed,
}

impl Documents {
    /// The change that an event of the core's feed tells. `None` if it concerns no document of this
    /// world.
    #[must_use]
    pub fn change_of(&self, told: &Told) -> Option<Change> {
        let (partition, world) = (told.partition.0, self.world.scope());
        match &told.content {
            Content::Note(_) => {
                let event = Event::of(told, world)?;
                Some(Change::Event(Box::new(event)))
            }
            Content::Resync { owner } if owner.scope() == *world => {
                let path = Some(crate::collection::path_of(owner)?);
                Some(Change::Reset { partition, path })
            }
            Content::Gap => Some(Change::Reset {
                partition,
                path: None,
            }),
            _ => None,
        }
    }

    /// Landed changes below a prefix, in the order of each partition: each once, and never taken
    /// back. Without a cursor, the page begins with the oldest change that is kept.
    ///
    /// # Errors
    /// `Storage`: the database is away, or changes behind the cursor were dropped for their age.
    ///
    /// # Cancel safety
    /// Nothing changes.
    pub async fn changes(&self, since: Cursor, prefix: &str, most: usize) -> Result<Changes> {
        let mut page = Changes {
            changes: Vec::new(),
            next: since.clone(),
            more: false,
        };
        let (mut reader, mut read, mut bytes) = (self.storage.changes(since), 0_usize, 0_usize);
        loop {
            let events = reader.try_next().await?;
            if events.is_empty() {
                page.next = reader.cursor().clone();
                return Ok(page);
            }
            read = read.saturating_add(events.len());
            for event in events {
                if page.changes.len() >= most.min(CHANGES_MAX) || bytes > PAGE_BYTES {
                    page.more = true;
                    return Ok(page);
                }
                page.next.move_to(event.partition, event.position);
                let change = self.change_of(&event);
                if let Some(change) = change.filter(|change| change.concerns(prefix)) {
                    bytes = bytes.saturating_add(bytes_of(&event));
                    page.changes.push(change);
                }
            }
            if read > READ_MAX {
                page.more = true;
                return Ok(page);
            }
        }
    }

    /// Checks a cursor that somebody gives. One that lies ahead of the feed is none that the feed
    /// gave. Or the database is older than the cursor.
    ///
    /// # Errors
    /// `Query`: the cursor lies ahead of the feed. `Storage`: the database is away.
    pub async fn check_cursor(&self, since: &Cursor) -> Result<()> {
        let end = self.storage.feed_end().await?;
        for (partition, place) in since.positions() {
            let last = end.of(partition);
            if last.is_none_or(|last| place.number > last.number) {
                let message = format!(
                    "the cursor lies ahead of the feed at {partition}:{place}; begin without a cursor, and read the documents again"
                );
                return Err(Error::new(Kind::Query, message));
            }
        }
        Ok(())
    }

    /// The end of the landed feed.
    ///
    /// # Errors
    /// `Storage`: the database is away.
    pub async fn changes_end(&self) -> Result<Cursor> {
        Ok(self.storage.feed_end().await?)
    }

    /// The end of the feed in the hot tier: the last change that was acknowledged.
    ///
    /// # Errors
    /// `Storage`: the hot tier is away.
    pub async fn hot_end(&self) -> Result<Cursor> {
        let count = self.storage.tiers().hot().partition_count();
        let live = self.storage.live((0..count).map(Partition)).await?;
        Ok(live.cursor())
    }

    /// The changes below a prefix between two places of the feed, from both tiers, and the places
    /// behind them. `None` if some can't be had any more, or if they are too many. Then the follower
    /// begins anew.
    ///
    /// # Errors
    /// `Storage`: a tier can't be read.
    pub async fn missed(
        &self,
        (since, until): (&Cursor, &Cursor),
        prefix: &str,
    ) -> Result<Option<(Vec<Told>, Cursor)>> {
        let mut missed = Missed {
            documents: self,
            prefix,
            at: BTreeMap::new(),
            events: Vec::new(),
            bytes: 0,
        };
        for (partition, end) in until.positions() {
            let from = since.of(partition).unwrap_or(end);
            let is_ahead = from > end && !self.was_written(partition, from).await?;
            if from.epoch != end.epoch || is_ahead {
                return Ok(None);
            }
            missed.at.insert(partition, from);
        }
        for _ in 0..LOOKS {
            if !missed.read_landed().await? {
                return Ok(None);
            }
            missed.read_unlanded(until).await?;
            if missed.is_too_much() {
                return Ok(None);
            }
            let at = &missed.at;
            let is_whole = |(partition, end): (Partition, Position)| {
                at.get(&partition).is_some_and(|at| *at >= end)
            };
            if until.positions().all(is_whole) {
                let end = cursor_of(&missed.at);
                return Ok(Some((missed.events, end)));
            }
        }
        Ok(None)
    }

    /// Whether the hot tier has reached a place. Another gateway can have told of it first.
    async fn was_written(&self, partition: Partition, place: Position) -> Result<bool> {
        let notes = self.storage.unlanded(partition, place).await?;
        Ok(notes.last >= place)
    }

    /// The state of the change at a place of the feed. `None` if there is no such change, or if it
    /// was lost with the hot tier.
    ///
    /// # Errors
    /// `Storage`: a tier can't be read.
    ///
    /// # Cancel safety
    /// Nothing changes.
    pub async fn state(&self, partition: u32, position: Position) -> Result<Option<State>> {
        let partition = Partition(partition);
        let count = self.storage.tiers().hot().partition_count();
        if partition.0 >= count || position.number == 0 {
            return Ok(None);
        }
        // ORDER: the notes before the database. A note that lands in between is there by then.
        let before = Position::new(position.epoch.0, position.number - 1);
        let notes = self.storage.unlanded(partition, before).await?;
        let is_it = |event: &Told| event.position == position && self.change_of(event).is_some();
        if notes.events.iter().any(is_it) {
            return Ok(Some(State::Accepted));
        }
        let cold = self.storage.tiers().cold();
        let ends = cold
            .feeds(&[partition])
            .await
            .map_err(storage_sdk::Error::from)?;
        let ends = ends.first().map(|ends| (ends.last, ends.trimmed));
        let Some((last, trimmed)) = ends.filter(|(last, _)| position <= *last) else {
            return Ok(None);
        };
        if position <= trimmed {
            return Ok(Some(State::Landed));
        }
        let events = cold.events(partition, before, 1).await;
        let events = events.map_err(storage_sdk::Error::from)?;
        let is_there = events.iter().any(is_it);
        Ok((is_there && position <= last).then_some(State::Landed))
    }
}

/// The events that a follower has missed.
struct Missed<'a> {
    documents: &'a Documents,
    prefix: &'a str,
    /// How far the events were read.
    at: BTreeMap<Partition, Position>,
    events: Vec<Told>,
    bytes: usize,
}

impl Missed<'_> {
    fn is_too_much(&self) -> bool {
        self.events.len() > MISSED_MAX || self.bytes > MISSED_BYTES
    }

    fn add(&mut self, event: Told) {
        self.at.insert(event.partition, event.position);
        let change = self.documents.change_of(&event);
        if change.is_some_and(|change| change.concerns(self.prefix)) {
            self.bytes = self.bytes.saturating_add(bytes_of(&event));
            self.events.push(event);
        }
    }

    /// Reads landed events. Returns false if some were dropped for their age.
    async fn read_landed(&mut self) -> Result<bool> {
        let mut reader = self.documents.storage.changes(cursor_of(&self.at));
        while !self.is_too_much() {
            let events = match reader.try_next().await {
                Err(error)
                    if matches!(
                        error.kind(),
                        storage_sdk::Kind::CursorTooOld | storage_sdk::Kind::CursorForeign
                    ) =>
                {
                    return Ok(false);
                }
                // A place can be ahead of the landed feed. The stream has the events behind it.
                events => events?,
            };
            if events.is_empty() {
                break;
            }
            events.into_iter().for_each(|event| self.add(event));
        }
        Ok(true)
    }

    /// Reads notes behind the landed events, as long as none is missing in between.
    async fn read_unlanded(&mut self, until: &Cursor) -> Result<()> {
        for (partition, end) in until.positions() {
            while !self.is_too_much() {
                let place = self.at.get(&partition).copied().unwrap_or(end);
                let notes = self.documents.storage.unlanded(partition, place).await?;
                if place >= end || !self.add_notes(notes.events, place) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Adds notes that follow a place without a gap. Returns whether all of them do.
    fn add_notes(&mut self, notes: Vec<Told>, mut place: Position) -> bool {
        let mut is_next = false;
        for event in notes {
            is_next = event.follows(place);
            if !is_next {
                return false;
            }
            place = event.position;
            self.add(event);
        }
        is_next
    }
}

/// The bytes of an event's body.
#[must_use]
pub fn bytes_of(told: &Told) -> usize {
    match &told.content {
        Content::Note(note) => note.body.len(),
        _ => 0,
    }
}

fn cursor_of(at: &BTreeMap<Partition, Position>) -> Cursor {
    let mut cursor = Cursor::default();
    for (partition, position) in at {
        cursor.move_to(*partition, *position);
    }
    cursor
}
