//! Landed events behind a cursor, read from the database alone.

use storage_model::{Content, Cursor, CursorTooOld, Event, Partition, Position};
use storage_sql::{Cold, FeedEnds};

use crate::{Error, Kind, Result};

/// The most events of a partition that are read at a time.
const EVENTS: usize = 64;
/// About how many bytes of bodies one call returns.
const BYTES: usize = 8 << 20;

/// A cursor, and the partitions that are read.
pub(crate) struct EventReader {
    pub(crate) cursor: Cursor,
    /// `None` for all of them.
    pub(crate) chosen: Option<Vec<Partition>>,
    /// Whether the cursor is of this database.
    is_ours: bool,
}

impl EventReader {
    pub(crate) fn new(cursor: Cursor) -> Self {
        Self {
            cursor,
            chosen: None,
            is_ours: false,
        }
    }

    /// The ends of the feeds of the partitions that are read. A partition without a place in the cursor gets
    /// that of its oldest event that is kept. The ends of the others may stand before the cursor.
    pub(crate) async fn ends(&mut self, cold: &Cold, partitions: u32) -> Result<Vec<FeedEnds>> {
        if !self.is_ours {
            self.is_ours = self.belong(cold, partitions).await?;
        }
        let chosen = self.partitions(partitions)?;
        let all = cold.events.feeds(&chosen).await?;
        for ends in &all {
            if self.cursor.of(ends.partition).is_none() {
                self.cursor.move_to(ends.partition, ends.trimmed);
            }
        }
        Ok(all)
    }

    /// The next call asks again which database it is.
    pub(crate) fn doubt(&mut self) {
        self.is_ours = false;
    }

    /// Makes the cursor one of this database. Returns whether it is, which is not known before the
    /// database has a hot tier.
    async fn belong(&mut self, cold: &Cold, partitions: u32) -> Result<bool> {
        let pairing = cold.database.pairing().await?;
        let Some(identity) = pairing.identity else {
            return Ok(false);
        };
        if let Some(other) = self.cursor.database().filter(|other| *other != identity) {
            return Err(foreign(&format!(
                "the cursor is of database {other}, and {} is database {identity}",
                pairing.address
            )));
        }
        let named = self.cursor.positions().map(|(partition, _)| partition);
        if let Some(unknown) = named.max().filter(|last| last.0 >= partitions) {
            return Err(foreign(&format!(
                "the cursor names partition {unknown}, and there are {partitions}"
            )));
        }
        self.cursor.belong_to(identity);
        Ok(true)
    }

    /// The partitions that are read.
    fn partitions(&self, count: u32) -> Result<Vec<Partition>> {
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

    /// Where the cursor stands in a partition.
    pub(crate) fn place(&self, ends: &FeedEnds) -> Position {
        self.cursor.of(ends.partition).unwrap_or(ends.trimmed)
    }

    /// The next events of the partitions that have some. The cursor does not move.
    pub(crate) async fn read(&self, cold: &Cold, ends: &[FeedEnds]) -> Result<Vec<Event>> {
        let (mut events, mut bytes) = (Vec::new(), 0);
        for ends in ends {
            let after = self.place(ends);
            if ends.last <= after || bytes > BYTES {
                continue;
            }
            let some = read_one(cold, ends.partition, after).await?;
            bytes += some.iter().map(size).sum::<usize>();
            events.extend(some);
        }
        Ok(events)
    }

    /// Moves the cursor behind events.
    pub(crate) fn take(&mut self, events: &[Event]) {
        for event in events {
            self.cursor.move_to(event.partition, event.position);
        }
    }
}

/// The next events of a partition that has some.
async fn read_one(cold: &Cold, partition: Partition, after: Position) -> Result<Vec<Event>> {
    let events = cold.events.events(partition, after, EVENTS).await?;
    if events.first().is_some_and(|next| next.follows(after)) {
        return Ok(events);
    }
    let now = cold.events.feeds(&[partition]).await?;
    Err(missed(after, events.first(), now.first()))
}

/// The bytes of an event's body.
fn size(event: &Event) -> usize {
    match &event.content {
        Content::Note(note) => note.body.len(),
        _ => 0,
    }
}

/// The feed ends before the place of a cursor.
pub(crate) fn ends_before(ends: &FeedEnds, after: Position) -> Error {
    foreign(&format!(
        "the cursor stands at {after} in partition {}, and the feed ends at {}",
        ends.partition, ends.last
    ))
}

fn foreign(why: &str) -> Error {
    let message = format!(
        "{why}: it is a cursor of another database, or an older copy of the database was restored; read the data again and begin with a new cursor"
    );
    Error::new(Kind::CursorForeign, message)
}

/// Why the next event does not follow a place.
fn missed(after: Position, next: Option<&Event>, ends: Option<&FeedEnds>) -> Error {
    // Numbers go on over epochs. So the feed went on from before the place.
    if let Some(next) = next.filter(|next| next.position.number <= after.number) {
        return foreign(&format!(
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
