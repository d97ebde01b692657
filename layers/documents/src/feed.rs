//! The landed feed, and the state of one change.

use std::time::Duration;

use storage_sdk::ByteOwner;
use storage_sdk::feed::{Content, Cursor, Event as Told, Partition, Position};
use tokio::time::Instant;

use crate::{Documents, Event, Path, Prefixes, Result};

/// The most events of a page.
pub const CHANGES_MAX: usize = 1_000;
/// About how many bytes of bodies a page has at most.
const PAGE_BYTES: usize = 8 << 20;
/// The most events of all paths that a page looks at, and that one with a change looks at. So a follower of
/// a few paths is told soon, however many changes of others land meanwhile.
const READ_MAX: usize = 100_000;
const READ_ENOUGH: usize = 4_096;

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

    /// Landed changes below some prefixes, in the order of each partition: each once, and never taken
    /// back. Without a cursor, the page begins with the oldest change that is kept.
    ///
    /// # Errors
    /// `Storage`: the database is away, changes behind the cursor were dropped for their age, or the
    /// cursor is of another database or of a state that this one lost.
    ///
    /// # Cancel safety
    /// Nothing changes.
    pub async fn changes(
        &self,
        since: Cursor,
        prefixes: &Prefixes,
        most: usize,
    ) -> Result<Changes> {
        let mut reader = self.storage.changes(since);
        let mut page = Changes {
            changes: Vec::new(),
            next: reader.begin().await?.clone(),
            more: false,
        };
        let (mut read, mut bytes) = (0_usize, 0_usize);
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
                if let Some(change) = change.filter(|change| prefixes.concern(change)) {
                    bytes = bytes.saturating_add(bytes_of(&event));
                    page.changes.push(change);
                }
            }
            let enough = if page.changes.is_empty() {
                READ_MAX
            } else {
                READ_ENOUGH
            };
            if read > enough {
                page.more = true;
                return Ok(page);
            }
        }
    }

    /// Waits until all changes of an owner are in the database, with all events that came before.
    ///
    /// # Errors
    /// `Contended`: they are not there in time. `Storage`.
    pub(crate) async fn land(&self, owner: &ByteOwner, within: Duration) -> Result<()> {
        let until = Instant::now() + within;
        owner.flush(within).await?;
        let end = self.storage.live([owner.partition()]).await?.cursor();
        let message = "the change is in the database, but its event is not yet";
        let left = until.saturating_duration_since(Instant::now());
        self.until_landed(&end, left, message).await
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
        let count = self.cold.partitions();
        let live = self.storage.live((0..count).map(Partition)).await?;
        Ok(live.cursor())
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
        let count = self.cold.partitions();
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
        let ends = self.cold.ends(&[partition]).await?;
        let Some(end) = ends.first().filter(|end| position <= end.last) else {
            return Ok(None);
        };
        if position <= end.trimmed {
            return Ok(Some(State::Landed));
        }
        let events = self.cold.events(partition, before, 1).await?;
        Ok(events.iter().any(is_it).then_some(State::Landed))
    }
}

/// Whether a cursor can't be used any more.
pub(crate) fn is_of_another_feed(error: &storage_sdk::Error) -> bool {
    use storage_sdk::Kind::{CursorForeign, CursorTooOld};
    matches!(error.kind(), CursorTooOld | CursorForeign)
}

/// The bytes of an event's body.
#[must_use]
pub fn bytes_of(told: &Told) -> usize {
    match &told.content {
        Content::Note(note) => note.body.len(),
        _ => 0,
    }
}
