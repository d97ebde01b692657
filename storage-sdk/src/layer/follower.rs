//! Following the landed events of chosen partitions, from the database alone.

use std::fmt;

use storage_model::{Cursor, Event, Partition};
use storage_sql::FeedEnds;

use super::ColdTier;
use crate::Result;
use crate::feed::reader::{self, EventReader};

/// Follows the landed events of chosen partitions, from the database alone.
///
/// It reads in *rounds*. A round asks for the ends of all feeds, and then takes every event up to them, and some behind
/// them if they come together. So a cache that drops what events name knows its age: after a whole round it reflects everything that had
/// landed when the round began.
///
/// ```
/// # storage_doc::with_storage(async |storage| {
/// use storage_sdk::Durability;
/// use storage_sdk::layer::{ColdTier, Follower};
///
/// let ann = storage.world("mygame", "eu-1")?.bytes().owner("hero", "ann")?;
/// let mut follower = Follower::begin(&ColdTier::of(&storage), [ann.partition()]).await?;
/// // A reader of rows begins here. What lands from now on comes as an event.
/// let landed = Durability::Landed { timeout: std::time::Duration::from_secs(10) };
/// ann.update([("level", "7")]).note("up").durability(landed).await?;
/// # let mut cursor = storage_sdk::feed::Cursor::default();
/// # storage.changes(cursor.clone()).next().await?; // the note has landed
/// let mut heard = 0;
/// loop {
///     let step = follower.step().await?;
///     heard += step.events.len();
///     if step.ends_round {
///         break; // everything that had landed when the round began
///     }
/// }
/// assert_eq!(heard, 1);
/// # Ok(()) });
/// ```
pub struct Follower {
    cold: ColdTier,
    reader: EventReader,
    /// The ends that the round goes up to. Empty between two rounds.
    until: Vec<FeedEnds>,
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cursor = self.cursor().to_string();
        f.debug_struct("Follower")
            .field("cursor", &cursor)
            .finish_non_exhaustive()
    }
}

/// A part of a round.
///
/// ```
/// # storage_doc::with_storage(async |storage| {
/// use storage_sdk::feed::Partition;
/// use storage_sdk::layer::{ColdTier, Follower};
/// let mut follower = Follower::begin(&ColdTier::of(&storage), [Partition(0)]).await?;
/// let step = follower.step().await?;
/// assert!(step.events.is_empty() && step.begins_round && step.ends_round); // nothing is new
/// # Ok(()) });
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FollowerStep {
    /// The next events, up to 64 of each partition, and about 8 MiB.
    pub events: Vec<Event>,
    /// Whether this part has asked for the ends, as the first one of a round.
    pub begins_round: bool,
    /// Whether the round is whole: the events up to all ends have been taken.
    pub ends_round: bool,
}

impl Follower {
    /// A follower that stands behind everything that has landed by now.
    ///
    /// # Errors
    /// `Invalid`: there is no such partition. `Unpaired`: no game has used the database. Otherwise as
    /// [`ColdTier::rows`].
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn begin(
        cold: &ColdTier,
        partitions: impl IntoIterator<Item = Partition>,
    ) -> Result<Self> {
        let mut reader = EventReader::new(Cursor::default());
        reader.chosen = Some(partitions.into_iter().collect());
        let mut follower = Self {
            cold: cold.clone(),
            reader,
            until: Vec::new(),
        };
        for ends in follower.ends().await? {
            follower.reader.cursor.move_to(ends.partition, ends.last);
        }
        Ok(follower)
    }

    /// Where the follower stands.
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// use storage_sdk::feed::Partition;
    /// use storage_sdk::layer::{ColdTier, Follower};
    /// let cold = ColdTier::of(&storage);
    /// let follower = Follower::begin(&cold, [Partition(0)]).await?;
    /// let end = cold.ends(&[Partition(0)]).await?[0].last;
    /// assert_eq!(follower.cursor().of(Partition(0)), Some(end));
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn cursor(&self) -> &Cursor {
        &self.reader.cursor
    }

    /// The next part of a round. The first part of a round asks for the ends.
    ///
    /// # Errors
    /// `CursorTooOld`: events that the follower has not taken were dropped for their age. `CursorForeign`: the
    /// database was replaced, or has lost events that the follower has taken. After both, begin a new follower and
    /// read all data again. Otherwise as [`ColdTier::rows`].
    ///
    /// # Cancel safety
    /// The follower moves only when the call returns. A dropped call loses no event.
    pub async fn step(&mut self) -> Result<FollowerStep> {
        let begins_round = self.until.is_empty();
        let mut until = match begins_round {
            true => self.ends().await?,
            false => self.until.clone(),
        };
        let read = self.reader.read(self.cold.cold(), &until);
        let events = self.cold.call(read).await?;
        self.reader.take(&events);
        until.retain(|ends| self.reader.place(ends) < ends.last);
        self.until = until;
        Ok(FollowerStep {
            events,
            begins_round,
            ends_round: self.until.is_empty(),
        })
    }

    /// The ends of the feeds. None of them may stand before the follower (V8).
    async fn ends(&mut self) -> Result<Vec<FeedEnds>> {
        // Another database may answer at the same address by now.
        self.reader.doubt();
        let partitions = self.cold.partitions();
        let cold = self.cold.clone();
        let ends = cold.call(self.reader.ends(cold.cold(), partitions)).await?;
        let is_lost = |ends: &&FeedEnds| ends.last < self.reader.place(ends);
        match ends.iter().find(is_lost) {
            Some(lost) => Err(reader::ends_before(lost, self.reader.place(lost))),
            None => Ok(ends),
        }
    }
}
