//! Notes at once, before they land.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use storage_dirty::Notes;
use storage_model::{Content, Cursor, Epoch, Event, Partition, Position, Token};
use tokio::time::sleep;

use super::unlanded;
use crate::Result;
use crate::core::{Core, Shared};

/// The events of the database that are read at a time, and altogether, for notes that have landed
/// before the reader came. A body can have 1 MiB. The bytes are those of all partitions.
const LANDED: usize = 16;
const LANDED_MAX: usize = 4_096;
const LANDED_BYTES: usize = 32 << 20;
/// How often the hot tier is asked while there is nothing new.
const EVERY: Duration = Duration::from_millis(20);

/// A reader of notes at once, before they land.
///
/// Notes that have landed before the reader came are read from the database. A note that it returns
/// can be lost with the hot tier, together with its change. Then the reader returns
/// [`LiveEvent::Reset`].
///
/// ```
/// # storage_doc::with_storage(async |storage| {
/// use storage_sdk::feed::{Content, LiveEvent};
/// let room = storage.world("mygame", "eu-1")?.bytes().owner("room", 7_u64)?;
/// let mut live = storage.live([room.partition()]).await?;
/// room.update([("topic", "raid at nine")]).note("topic").await?;
/// for event in live.next().await? {
///     let LiveEvent::Event(event) = event else { panic!("read the rooms again") };
///     let Content::Note(note) = event.content else { continue };
///     assert_eq!(note.owner, *room.owner()); // tell the players in the room
/// }
/// # Ok(()) });
/// ```
pub struct Live {
    core: Shared,
    /// The epoch of each partition, and the last note that was returned. `None` before the first
    /// read.
    places: BTreeMap<Partition, Option<Place>>,
    /// The database of the hot tier. `None` while it has none.
    database: Option<Token>,
    every: Duration,
}

/// An epoch, and the place of the last note that was returned.
type Place = (Epoch, Position);

/// An event of a [`Live`] reader.
///
/// ```
/// # storage_doc::with_storage(async |storage| {
/// use storage_sdk::feed::LiveEvent;
/// let room = storage.world("mygame", "eu-1")?.bytes().owner("room", 7_u64)?;
/// let mut live = storage.live([room.partition()]).await?;
/// room.update([("topic", "raid at nine")]).note("topic").await?;
/// match &live.next().await?[0] {
///     LiveEvent::Event(event) => assert_eq!(event.partition, room.partition()),
///     LiveEvent::Reset(partition) => println!("read the rooms of partition {partition} again"),
///     _ => {}
/// }
/// # Ok(()) });
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LiveEvent {
    /// A note, and other events of the feed.
    Event(Event),
    /// Notes of this partition are missing, or some that were returned are lost with the hot tier. Read
    /// the data of the partition again. The next events come after this moment.
    Reset(Partition),
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partitions = self.places.len();
        f.debug_struct("Live")
            .field("partitions", &partitions)
            .finish_non_exhaustive()
    }
}

impl Live {
    pub(crate) async fn open(
        core: &Shared,
        partitions: impl IntoIterator<Item = Partition>,
    ) -> Result<Self> {
        let places = partitions.into_iter().map(|partition| (partition, None));
        let mut live = Self {
            core: Arc::clone(core),
            places: places.collect(),
            database: None,
            every: EVERY,
        };
        // The reader begins here. Notes of later writes are returned.
        live.try_next().await?;
        let pairing = core.while_open(async { Ok(core.tiers.hot().tier.pairing().await?) });
        live.database = pairing.await?.paired.map(|paired| paired.database);
        Ok(live)
    }

    /// Where the reader stands: behind all notes that were returned.
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// let room = storage.world("mygame", "eu-1")?.bytes().owner("room", 7_u64)?;
    /// let live = storage.live([room.partition()]).await?;
    /// let ack = room.update([("topic", "raid at nine")]).note("topic").await?;
    /// // A reader of landed events goes on where the live reader stands.
    /// let mut changes = storage.changes(live.cursor()).of([room.partition()]);
    /// assert_eq!(Some(changes.next().await?[0].position), ack.position());
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        let mut cursor = Cursor::default();
        if let Some(database) = self.database {
            cursor.belong_to(database);
        }
        for (partition, place) in &self.places {
            if let Some((_, position)) = place {
                cursor.move_to(*partition, *position);
            }
        }
        cursor
    }

    /// How often the hot tier is asked while there is nothing new. Default: 20 ms.
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// use std::time::Duration;
    /// let room = storage.world("mygame", "eu-1")?.bytes().owner("room", 7_u64)?;
    /// let mut slow = storage.live([room.partition()]).await?.every(Duration::from_millis(200));
    /// room.update([("topic", "raid at nine")]).note("topic").await?;
    /// assert_eq!(slow.next().await?.len(), 1);
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn every(mut self, every: Duration) -> Self {
        self.every = every;
        self
    }

    /// The next events. Waits until there is one.
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// let room = storage.world("mygame", "eu-1")?.bytes().owner("room", 7_u64)?;
    /// let mut live = storage.live([room.partition()]).await?;
    /// let (events, ack) = tokio::join!(live.next(), room.update([("seats", 40)]).note("seats").into_future());
    /// assert_eq!((events?.len(), ack?.changed()), (1, 1));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`Live::try_next`].
    ///
    /// # Cancel safety
    /// A dropped call loses no event.
    pub async fn next(&mut self) -> Result<Vec<LiveEvent>> {
        loop {
            let events = self.try_next().await?;
            if !events.is_empty() {
                return Ok(events);
            }
            sleep(self.every).await;
        }
    }

    /// The events until now. Empty if there is none.
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// let room = storage.world("mygame", "eu-1")?.bytes().owner("room", 7_u64)?;
    /// let mut live = storage.live([room.partition()]).await?;
    /// assert!(live.try_next().await?.is_empty()); // in each frame of a game, for example
    /// room.update([("topic", "raid at nine")]).note("topic").await?;
    /// assert_eq!(live.try_next().await?.len(), 1);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// `HotUnavailable`: the hot tier is away. `Closed`: the storage was closed.
    ///
    /// # Cancel safety
    /// As [`Live::next`].
    pub async fn try_next(&mut self) -> Result<Vec<LiveEvent>> {
        let core = Arc::clone(&self.core);
        let bytes = LANDED_BYTES / self.places.len().max(1);
        let read = self
            .places
            .iter()
            .map(|(at, place)| read(&core, *at, *place, bytes));
        let read = async { Ok(futures::future::join_all(read).await) };
        let read = core.while_open(read).await?;
        let (mut events, mut places) = (Vec::new(), Vec::new());
        for (partition, notes) in self.places.keys().copied().zip(read) {
            let before = self.places.get(&partition).copied().flatten();
            places.push((partition, taken(partition, before, notes?, &mut events)));
        }
        self.places
            .extend(places.into_iter().map(|(at, place)| (at, Some(place))));
        Ok(events)
    }
}

/// The notes of a partition behind a place, and whether the reader goes on there. For a reader that
/// begins, only where they end.
async fn read(
    core: &Core,
    partition: Partition,
    place: Option<Place>,
    bytes: usize,
) -> Result<(Notes, bool)> {
    let after = place.map_or(Position::new(u64::MAX, 0), |(_, after)| after);
    let mut notes = unlanded::notes(core, partition, after).await?;
    let Some((epoch, _)) = place else {
        return Ok((notes, false));
    };
    let goes_on = epoch == notes.epoch || is_kept(core, partition, after).await?;
    if goes_on {
        add_landed(core, partition, after, bytes, &mut notes).await;
    }
    Ok((notes, goes_on))
}

/// Whether the note at a place is in one of the tiers. All before it are kept then, too, because
/// the hot tier loses its last notes first.
async fn is_kept(core: &Core, partition: Partition, place: Position) -> Result<bool> {
    if place.number == 0 {
        return Ok(true);
    }
    let before = Position::new(place.epoch.0, place.number - 1);
    let is_it = |event: &Event| event.position == place;
    // ORDER: the hot tier first. A note that lands in between is in the database by then.
    let notes = unlanded::notes(core, partition, before).await?;
    if notes.events.first().is_some_and(is_it) {
        return Ok(true);
    }
    // While nobody knows, the reader reads again.
    let landed = core.tiers.cold().events.events(partition, before, 1).await;
    Ok(landed.unwrap_or_default().first().is_some_and(is_it))
}

/// Puts notes that landed before the reader came in front of those of the hot tier. If the database
/// can't be read, they are missing, and the reader is reset.
// ORDER: the notes of the hot tier were read before. A note that is not among them has landed.
async fn add_landed(
    core: &Core,
    partition: Partition,
    after: Position,
    bytes_max: usize,
    notes: &mut Notes,
) {
    let end = match notes.events.first() {
        Some(first) => first.position.number.saturating_sub(1),
        None if notes.more => return,
        None => notes.last.number,
    };
    let (mut landed, mut bytes, mut place) = (Vec::new(), 0_usize, after);
    while place.number < end && landed.len() < LANDED_MAX && bytes < bytes_max {
        let read = core
            .tiers
            .cold()
            .events
            .events(partition, place, LANDED)
            .await
            .unwrap_or_default();
        let Some(last) = read.last() else {
            break;
        };
        place = last.position;
        bytes = read.iter().map(bytes_of).fold(bytes, usize::saturating_add);
        landed.extend(read);
    }
    landed.retain(|event| event.position.number <= end);
    notes.events.splice(..0, landed);
}

fn bytes_of(event: &Event) -> usize {
    match &event.content {
        Content::Note(note) => note.body.len(),
        _ => 0,
    }
}

/// Takes the events behind a place, and returns the new place.
///
/// If it does not go on, the reader begins anew, because notes that were returned may be lost, and
/// others may have their numbers.
fn taken(
    partition: Partition,
    before: Option<Place>,
    (notes, goes_on): (Notes, bool),
    events: &mut Vec<LiveEvent>,
) -> Place {
    let end = (notes.epoch, notes.last);
    let Some((_, mut place)) = before else {
        return end;
    };
    if !goes_on {
        events.push(LiveEvent::Reset(partition));
        return end;
    }
    for event in notes.events {
        if event.position.number != place.number.saturating_add(1) {
            events.push(LiveEvent::Reset(partition));
        }
        place = event.position;
        events.push(LiveEvent::Event(event));
    }
    if notes.last.number > place.number && !notes.more {
        // The notes behind the place were dropped before the reader came.
        events.push(LiveEvent::Reset(partition));
        return end;
    }
    (notes.epoch, place)
}

#[cfg(test)]
mod tests {
    use storage_model::Owner;

    use super::*;

    fn read(epoch: u64, numbers: &[u64], last: u64) -> Notes {
        let event = |number: &u64| Event {
            partition: Partition(0),
            position: Position::new(epoch, *number),
            content: Content::Resync {
                owner: Owner::new("a", "r", "t", "1").unwrap(),
            },
        };
        Notes {
            epoch: Epoch(epoch),
            last: Position::new(epoch, last),
            is_resynced: true,
            events: numbers.iter().map(event).collect(),
            more: false,
        }
    }

    /// The numbers of the events that are taken, 0 for a reset, and the new place.
    fn take(before: Option<(u64, u64)>, notes: Notes) -> (Vec<u64>, u64) {
        let goes_on = before.is_some_and(|(epoch, _)| Epoch(epoch) == notes.epoch);
        take_if(before, (notes, goes_on))
    }

    fn take_if(before: Option<(u64, u64)>, notes: (Notes, bool)) -> (Vec<u64>, u64) {
        let mut events = Vec::new();
        let before = before.map(|(epoch, number)| (Epoch(epoch), Position::new(epoch, number)));
        let (_, place) = taken(Partition(0), before, notes, &mut events);
        let number = |event: &LiveEvent| match event {
            LiveEvent::Event(event) => event.position.number,
            LiveEvent::Reset(_) => 0,
        };
        (events.iter().map(number).collect(), place.number)
    }

    #[test]
    fn a_reader_that_has_missed_notes_is_reset() {
        assert_eq!(take(None, read(1, &[], 7)), (vec![], 7));
        assert_eq!(take(Some((1, 7)), read(1, &[8, 9], 9)), (vec![8, 9], 9));
        assert_eq!(take(Some((1, 7)), read(1, &[], 7)), (vec![], 7));
        assert_eq!(take(Some((1, 7)), read(1, &[9], 9)), (vec![0, 9], 9));
        assert_eq!(take(Some((1, 7)), read(1, &[8], 9)), (vec![8, 0], 9));
        assert_eq!(take(Some((1, 7)), read(1, &[], 9)), (vec![0], 9));
    }

    #[test]
    fn a_reader_whose_last_note_is_lost_is_reset_although_the_numbers_go_on() {
        assert_eq!(take(Some((1, 7)), read(2, &[8], 8)), (vec![0], 8));
        assert_eq!(take(Some((1, 7)), read(2, &[], 7)), (vec![0], 7));
        assert_eq!(take(Some((1, 7)), read(2, &[], 3)), (vec![0], 3));
    }

    #[test]
    fn a_reader_whose_last_note_is_kept_goes_on_in_another_epoch() {
        let kept = |notes| take_if(Some((1, 7)), (notes, true));
        assert_eq!(kept(read(2, &[8], 8)), (vec![8], 8));
        assert_eq!(kept(read(2, &[], 7)), (vec![], 7));
        assert_eq!(kept(read(2, &[9], 9)), (vec![0, 9], 9));
    }
}
