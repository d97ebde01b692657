//! Landed events, in their order.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use storage_model::{Cursor, Event, Partition, Position};
use storage_sql::FeedEnds;
use tokio::time::sleep;

use super::reader::{self, EventReader};
use crate::Result;
use crate::core::Shared;

/// How often the database is asked while there is nothing new.
const EVERY: Duration = Duration::from_millis(200);

/// A reader of landed events: each once, and in the order of its partition.
///
/// It reads the event table of the database. One small query finds the partitions with new events.
///
/// ```
/// # storage_doc::with_storage(async |storage| {
/// use storage_sdk::feed::{Content, Cursor};
/// let ann = storage.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
/// ann.incr("gold", 5).note("won a duel").await?;
///
/// let mut changes = storage.changes(Cursor::default());
/// for event in changes.next().await? {
///     match event.content {
///         Content::Note(note) => assert_eq!(note.owner.id(), "42"),
///         Content::Resync { owner } => println!("read {owner} again"),
///         _ => println!("read the owners of partition {} again", event.partition),
///     }
/// }
/// # Ok(()) });
/// ```
pub struct Changes {
    core: Shared,
    reader: EventReader,
    every: Duration,
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cursor = self.cursor().to_string();
        f.debug_struct("Changes").field("cursor", &cursor).finish()
    }
}

impl Changes {
    pub(crate) fn new(core: &Shared, cursor: Cursor) -> Self {
        Self {
            core: Arc::clone(core),
            reader: EventReader::new(cursor),
            every: EVERY,
        }
    }

    /// How often the database is asked while there is nothing new. Default: 200 ms.
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// use std::time::Duration;
    /// use storage_sdk::feed::Cursor;
    /// let mut highscores = storage.changes(Cursor::default()).every(Duration::from_millis(20));
    /// let ann = storage.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
    /// ann.incr("score", 5).note("score").await?;
    /// assert_eq!(highscores.next().await?.len(), 1); // at most 20 ms after it has landed
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn every(mut self, every: Duration) -> Self {
        self.every = every;
        self
    }

    /// Reads these partitions alone, so that several readers can share the feed. The cursor keeps its places
    /// in the others. Default: all partitions.
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// use storage_sdk::Durability;
    /// use storage_sdk::feed::Cursor;
    ///
    /// let ann = storage.world("mygame", "eu-1")?.bytes().owner("hero", "ann")?;
    /// let landed = Durability::Landed { timeout: std::time::Duration::from_secs(10) };
    /// ann.update([("level", "7")]).note("up").durability(landed).await?;
    /// let mut changes = storage.changes(Cursor::default()).of([ann.partition()]);
    /// assert_eq!(changes.next().await?.len(), 1);
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn of(mut self, partitions: impl IntoIterator<Item = Partition>) -> Self {
        self.reader.chosen = Some(partitions.into_iter().collect());
        self
    }

    /// Where the reader stands: behind all events that were returned. Store it to go on later.
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// use storage_sdk::feed::Cursor;
    /// let ann = storage.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
    /// ann.incr("gold", 5).note("won a duel").await?;
    /// let mut changes = storage.changes(Cursor::default());
    /// changes.next().await?; // handle the events, and then store the cursor
    /// let stored = changes.cursor().to_string();
    /// assert!(storage.changes(stored.parse()?).try_next().await?.is_empty()); // nothing comes twice
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn cursor(&self) -> &Cursor {
        &self.reader.cursor
    }

    /// The next events, up to 64 of each partition, and about 8 MiB. Waits until there is one.
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// use storage_sdk::feed::{Content, Cursor};
    /// let ann = storage.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
    /// let mut changes = storage.changes(Cursor::default());
    /// let (events, ack) = tokio::join!(changes.next(), ann.incr("gold", 5).note("won a duel").into_future());
    /// let Content::Note(note) = &events?[0].content else { panic!("it was noted") };
    /// assert_eq!(note.version, ack?.version());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`Changes::try_next`].
    ///
    /// # Cancel safety
    /// The cursor moves only when the call returns. A dropped call loses no event.
    pub async fn next(&mut self) -> Result<Vec<Event>> {
        loop {
            let events = self.try_next().await?;
            if !events.is_empty() {
                return Ok(events);
            }
            sleep(self.every).await;
        }
    }

    /// The events that have landed by now, up to 64 of each partition, and about 8 MiB. Empty if there
    /// is none.
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// use storage_sdk::feed::Cursor;
    /// let mut changes = storage.changes(Cursor::default());
    /// assert!(changes.try_next().await?.is_empty()); // it does not wait
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// `ColdUnavailable`: the database is away. `CursorTooOld`: events behind the cursor were dropped
    /// for their age. `CursorForeign`: the cursor is of another database, or of a state of this one that
    /// was lost when an older copy was restored. `Invalid`: a chosen partition does not exist. `Closed`: the
    /// storage was closed.
    ///
    /// # Cancel safety
    /// As [`Changes::next`].
    pub async fn try_next(&mut self) -> Result<Vec<Event>> {
        let core = Arc::clone(&self.core);
        let ends = core.while_open(self.ends()).await?;
        let read = self.reader.read(core.tiers.cold(), &ends);
        let events = core.while_open(read).await?;
        self.reader.take(&events);
        Ok(events)
    }

    /// Checks the cursor and completes it, without an event: a partition without a place gets that of its
    /// oldest event that is kept.
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// use storage_sdk::feed::Cursor;
    /// let mut changes = storage.changes(Cursor::default());
    /// let stored = changes.begin().await?.to_string(); // before the first event, so that a crash skips none
    /// let ann = storage.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
    /// ann.incr("gold", 5).note("won a duel").await?;
    /// assert_eq!(storage.changes(stored.parse()?).next().await?.len(), 1);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`Changes::try_next`], but events that were dropped are not looked for.
    ///
    /// # Cancel safety
    /// As [`Changes::next`].
    pub async fn begin(&mut self) -> Result<&Cursor> {
        let core = Arc::clone(&self.core);
        core.while_open(self.ends()).await?;
        Ok(&self.reader.cursor)
    }

    /// The ends of the feeds of the partitions that are read. The cursor has a place in each of them then.
    async fn ends(&mut self) -> Result<Vec<FeedEnds>> {
        let core = Arc::clone(&self.core);
        let partitions = core.tiers.hot().partitions.partition_count();
        let all = self.reader.ends(core.tiers.cold(), partitions).await?;
        for ends in &all {
            let after = self.reader.place(ends);
            if ends.last < after && self.is_lost(ends, after).await {
                return Err(reader::ends_before(ends, after));
            }
        }
        Ok(all)
    }

    /// Whether a place behind the end of the feed is in neither tier. A live reader gives places of
    /// notes that have not landed.
    async fn is_lost(&self, ends: &FeedEnds, after: Position) -> bool {
        if ends.last.number > after.number {
            // Numbers go on over epochs. So the feed gave this number in an earlier epoch.
            return after.number > 0;
        }
        let peeked = self
            .core
            .tiers
            .hot()
            .partitions
            .peek(&[ends.partition])
            .await
            .pop();
        // A change of the epoch moves the end of the hot tier without a note. While it is away, nobody
        // knows.
        peeked.is_some_and(|peek| {
            peek.is_ok_and(|peek| {
                peek.last_note.number < after.number || peek.last_note.epoch < after.epoch
            })
        })
    }
}
