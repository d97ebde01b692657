//! The landed feed, what a follower has missed, and the state of one change.

use std::collections::BTreeMap;

use storage_sdk::feed::{Content, Cursor, Event as Told, Partition, Position};

use crate::{Documents, Error, Event, Kind, Path, Result};

/// The most events of a page.
pub const CHANGES_MAX: usize = 1_000;
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
    /// The change that an event of the core's feed tells. `None` if it concerns no document.
    #[must_use]
    pub fn of(told: &Told) -> Option<Self> {
        let partition = told.partition.0;
        match &told.content {
            Content::Note(_) => Event::of(told).map(|event| Self::Event(Box::new(event))),
            Content::Resync { owner } => {
                let path = crate::collection::path_of(owner)?;
                Some(Self::Reset {
                    partition,
                    path: Some(path),
                })
            }
            Content::Gap => Some(Self::Reset {
                partition,
                path: None,
            }),
            _ => None,
        }
    }

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
        };
        let mut reader = self.storage.changes(since);
        loop {
            let events = reader.try_next().await?;
            if events.is_empty() {
                page.next = reader.cursor().clone();
                return Ok(page);
            }
            for event in events {
                if page.changes.len() >= most.min(CHANGES_MAX) {
                    return Ok(page);
                }
                page.next.move_to(event.partition, event.position);
                let change = Change::of(&event).filter(|change| change.concerns(prefix));
                page.changes.extend(change);
            }
        }
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

    /// The changes between two places of the feed, from both tiers, and the places behind them.
    /// `None` if some can't be had any more. Then the follower begins anew.
    ///
    /// # Errors
    /// `Storage`: a tier can't be read.
    pub async fn missed(
        &self,
        since: &Cursor,
        until: &Cursor,
    ) -> Result<Option<(Vec<Told>, Cursor)>> {
        let mut at = BTreeMap::new();
        for (partition, end) in until.positions() {
            let from = since.of(partition).unwrap_or(end);
            if from.epoch != end.epoch {
                return Ok(None);
            }
            at.insert(partition, from);
        }
        let mut missed = Vec::new();
        for _ in 0..LOOKS {
            if !self.read_landed(&mut at, &mut missed).await? || missed.len() > MISSED_MAX {
                return Ok(None);
            }
            self.read_unlanded(&mut at, until, &mut missed).await?;
            let is_whole = |(partition, end): (Partition, Position)| {
                at.get(&partition).is_some_and(|at| *at >= end)
            };
            if until.positions().all(is_whole) {
                return Ok(Some((missed, cursor_of(&at))));
            }
        }
        Ok(None)
    }

    /// Reads landed events behind these places. Returns false if some were dropped for their age.
    async fn read_landed(
        &self,
        at: &mut BTreeMap<Partition, Position>,
        missed: &mut Vec<Told>,
    ) -> Result<bool> {
        let mut reader = self.storage.changes(cursor_of(at));
        while missed.len() <= MISSED_MAX {
            let events = match reader.try_next().await {
                Err(error) if error.kind() == storage_sdk::Kind::CursorTooOld => return Ok(false),
                // A place can be ahead of the landed feed. The stream has the events behind it.
                events => events?,
            };
            if events.is_empty() {
                break;
            }
            for event in events {
                at.insert(event.partition, event.position);
                missed.push(event);
            }
        }
        Ok(true)
    }

    /// Reads notes behind these places, as long as none is missing in between.
    async fn read_unlanded(
        &self,
        at: &mut BTreeMap<Partition, Position>,
        until: &Cursor,
        missed: &mut Vec<Told>,
    ) -> Result<()> {
        for (partition, end) in until.positions() {
            let Some(place) = at.get_mut(&partition) else {
                continue;
            };
            while *place < end && missed.len() <= MISSED_MAX {
                let notes = self.storage.unlanded(partition, *place).await?;
                let mut is_next = false;
                for event in notes.events {
                    is_next = event.follows(*place);
                    if !is_next {
                        break;
                    }
                    *place = event.position;
                    missed.push(event);
                }
                if !is_next {
                    break;
                }
            }
        }
        Ok(())
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
        if notes.events.iter().any(|event| event.position == position) {
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
        let is_there = events.iter().any(|event| event.position == position);
        Ok((is_there && position <= last).then_some(State::Landed))
    }
}

fn cursor_of(at: &BTreeMap<Partition, Position>) -> Cursor {
    let mut cursor = Cursor::default();
    for (partition, position) in at {
        cursor.move_to(*partition, *position);
    }
    cursor
}

impl Error {
    /// Whether changes behind a cursor were dropped for their age.
    #[must_use]
    pub fn is_too_old(&self) -> bool {
        let Kind::Storage(error) = self.kind() else {
            return false;
        };
        error.kind() == storage_sdk::Kind::CursorTooOld
    }
}
