//! Landed events, in their order.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use storage_model::{Content, Cursor, CursorTooOld, Event, Partition, Position};
use storage_sql::FeedEnds;
use tokio::time::sleep;

use crate::core::Shared;
use crate::{Error, Kind, Result};

/// The most events of a partition that are read at a time.
const EVENTS: usize = 64;
/// About how many bytes of bodies one call returns.
const BYTES: usize = 8 << 20;
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
    cursor: Cursor,
    /// The partitions that are read. `None` for all of them.
    chosen: Option<Vec<Partition>>,
    /// Whether the cursor is of this database.
    is_ours: bool,
    every: Duration,
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cursor = self.cursor.to_string();
        f.debug_struct("Changes").field("cursor", &cursor).finish()
    }
}

impl Changes {
    pub(crate) fn new(core: &Shared, cursor: Cursor) -> Self {
        Self {
            core: Arc::clone(core),
            cursor,
            chosen: None,
            is_ours: false,
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
        self.chosen = Some(partitions.into_iter().collect());
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
        &self.cursor
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
        let events = core.while_open(self.read(&ends)).await?;
        for event in &events {
            self.cursor.move_to(event.partition, event.position);
        }
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
        Ok(&self.cursor)
    }

    /// Makes the cursor one of this database. Returns whether it is, which is not known before the
    /// database has a hot tier.
    async fn belong(&mut self) -> Result<bool> {
        let pairing = self.core.tiers.cold().database.pairing().await?;
        let Some(identity) = pairing.identity else {
            return Ok(false);
        };
        if let Some(other) = self.cursor.database().filter(|other| *other != identity) {
            return Err(foreign(format!(
                "the cursor is of database {other}, and {} is database {identity}",
                pairing.address
            )));
        }
        let count = self.core.tiers.hot().partitions.partition_count();
        let partitions = self.cursor.positions().map(|(partition, _)| partition);
        if let Some(unknown) = partitions.max().filter(|last| last.0 >= count) {
            return Err(foreign(format!(
                "the cursor names partition {unknown}, and there are {count}"
            )));
        }
        self.cursor.belong_to(identity);
        Ok(true)
    }

    /// The partitions that are read.
    fn partitions(&self) -> Result<Vec<Partition>> {
        let count = self.core.tiers.hot().partitions.partition_count();
        let Some(chosen) = &self.chosen else {
            return Ok((0..count).map(Partition).collect());
        };
        match chosen.iter().find(|partition| partition.0 >= count) {
            Some(unknown) => {
                let message = format!("partition {unknown} does not exist: there are {count}");
                Err(Error::new(Kind::Invalid, message))
            }
            None => Ok(chosen.clone()),
        }
    }

    /// The ends of the feeds of the partitions that are read. The cursor has a place in each of them then.
    async fn ends(&mut self) -> Result<Vec<FeedEnds>> {
        if !self.is_ours {
            self.is_ours = self.belong().await?;
        }
        let partitions = self.partitions()?;
        let all = self.core.tiers.cold().events.feeds(&partitions).await?;
        for ends in &all {
            let Some(after) = self.cursor.of(ends.partition) else {
                self.cursor.move_to(ends.partition, ends.trimmed);
                continue;
            };
            if ends.last < after && self.is_lost(ends, after).await {
                return Err(foreign(format!(
                    "the cursor stands at {after} in partition {}, and the feed ends at {}",
                    ends.partition, ends.last
                )));
            }
        }
        Ok(all)
    }

    /// The next events of the partitions that have some.
    async fn read(&self, ends: &[FeedEnds]) -> Result<Vec<Event>> {
        let (mut events, mut bytes) = (Vec::new(), 0);
        for ends in ends {
            let after = self.cursor.of(ends.partition).unwrap_or(ends.trimmed);
            if ends.last <= after || bytes > BYTES {
                continue;
            }
            let some = self.read_one(ends.partition, after).await?;
            bytes += some.iter().map(size).sum::<usize>();
            events.extend(some);
        }
        Ok(events)
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

    /// The next events of a partition that has some.
    async fn read_one(&self, partition: Partition, after: Position) -> Result<Vec<Event>> {
        let cold = self.core.tiers.cold();
        let events = cold.events.events(partition, after, EVENTS).await?;
        if events.first().is_some_and(|next| next.follows(after)) {
            return Ok(events);
        }
        let now = cold.events.feeds(&[partition]).await?;
        Err(missed(after, events.first(), now.first()))
    }
}

/// The bytes of an event's body.
fn size(event: &Event) -> usize {
    match &event.content {
        Content::Note(note) => note.body.len(),
        _ => 0,
    }
}

fn foreign(why: String) -> Error {
    let message = format!(
        "{why}: it is a cursor of another database, or an older copy of the database was restored; read the data again and begin with a new cursor"
    );
    Error::new(Kind::CursorForeign, message)
}

/// Why the next event does not follow a place.
fn missed(after: Position, next: Option<&Event>, ends: Option<&FeedEnds>) -> Error {
    // Numbers go on over epochs. So the feed went on from before the place.
    if let Some(next) = next.filter(|next| next.position.number <= after.number) {
        return foreign(format!(
            "the cursor stands at {after} in partition {}, and the feed goes on with {}",
            next.partition, next.position
        ));
    }
    match ends.filter(|ends| ends.trimmed > after) {
        Some(ends) => {
            let error = CursorTooOld {
                partition: ends.partition,
                position: after,
                trimmed: ends.trimmed,
            };
            Error::new(Kind::CursorTooOld, error.to_string())
        }
        None => {
            let message = format!("events behind {after} are missing in the database");
            Error::new(Kind::Corrupt, message)
        }
    }
}
