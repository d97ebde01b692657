//! Notes that have not landed yet.

use storage_dirty::{Bound, HotKind, Notes};
use storage_model::{Epoch, Event, Partition, Position};

use crate::core::Core;
use crate::{Error, Result};

/// The most that is read of a partition at a time.
const BOUND: Bound = Bound {
    rows: 256,
    bytes: 1 << 20,
};

/// A page of the notes of a partition that have not landed.
///
/// ```
/// # storage_doc::run(async || {
/// use storage_sdk::feed::Position;
/// use storage_sdk::{Settings, Storage};
/// let storage = Storage::builder(Settings::in_memory()).landing(false).open().await?;
/// let room = storage.world("mygame", "eu-1")?.bytes().owner("room", 7_u64)?;
/// room.update([("topic", "raid at nine")]).note("topic").await?;
/// let page = storage.unlanded(room.partition(), Position::ZERO).await?;
/// assert_eq!((page.events.len(), page.events[0].position, page.more), (1, page.last, false));
/// # Ok(()) });
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unlanded {
    /// The notes, in their order.
    pub events: Vec<Event>,
    /// The epoch of the hot tier. Notes of an earlier reader may be lost if it has changed.
    pub epoch: Epoch,
    /// The position of the last note that was written in the partition.
    pub last: Position,
    /// Whether more notes follow.
    pub more: bool,
}

impl Unlanded {
    pub(crate) async fn read(core: &Core, partition: Partition, after: Position) -> Result<Self> {
        let read = notes(core, partition, after);
        let read = core.while_open(read).await?;
        Ok(Self {
            events: read.events,
            epoch: read.epoch,
            last: read.last,
            more: read.more,
        })
    }
}

/// The notes of a partition behind a place.
pub(super) async fn notes(core: &Core, partition: Partition, after: Position) -> Result<Notes> {
    let hot = core.tiers.hot();
    match hot.feed.notes(partition, after, BOUND).await {
        Err(error) if matches!(error.kind, HotKind::Unprepared(_)) => {
            let prepared = core.tiers.prepare_for_call(partition).await;
            prepared.map_err(Error::of_tiers)?;
            hot.feed
                .notes(partition, after, BOUND)
                .await
                .map_err(Error::from)
        }
        notes => notes.map_err(Error::from),
    }
}
