//! The state: the database, the server and a call. The oracle: what a value reflects.

use crate::shards::decisions::Position;

/// The first version of the owner, which has landed at the start.
pub(super) const FIRST: u8 = 1;

/// An event of the feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Event {
    pub(super) committed: u8,
    /// The version that it tells. `None` for an event of another owner.
    pub(super) version: Option<u8>,
}

/// A database: the row of the owner, and the feed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Database {
    pub(super) identity: u8,
    /// The version of the row.
    pub(super) row: u8,
    pub(super) events: Vec<Event>,
}

impl Database {
    pub(super) fn end(&self) -> Position {
        Position {
            database: self.identity,
            number: self.events.len(),
        }
    }

    /// The last version that these events tell.
    pub(super) fn told(events: &[Event]) -> u8 {
        let versions = events.iter().filter_map(|event| event.version);
        versions.max().unwrap_or_default()
    }

    /// The last version that was told before a moment.
    fn told_before(&self, moment: u8) -> u8 {
        let before = self
            .events
            .iter()
            .take_while(|event| event.committed < moment);
        before
            .filter_map(|event| event.version)
            .max()
            .unwrap_or_default()
    }
}

/// The database that a copy has replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Former {
    /// The moment of the replacement.
    pub(super) replaced: u8,
    /// The version of its row.
    pub(super) row: u8,
    /// The version of the row in the copy. Those after it are lost.
    pub(super) copied: u8,
    /// The last position of its feed, and the last version that its events told.
    pub(super) last: Named,
}

/// A position that a call names, and the last version that was told up to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Named {
    pub(super) position: Position,
    pub(super) version: u8,
}

/// A round of the follower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Round {
    pub(super) began: u8,
    /// The end of the feed that it found.
    pub(super) end: Option<Position>,
}

/// A row that a load has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Row {
    /// The identity of the database.
    pub(super) database: u8,
    pub(super) version: u8,
}

/// A load under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Load {
    pub(super) row: Option<Row>,
    pub(super) is_void: bool,
}

/// The progress of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum At {
    Begins,
    /// It waits for the load under way.
    Waits,
    /// It waits for the load after the one under way.
    Queues,
    /// It has read a value.
    Has(u8),
}

/// A call under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Call {
    /// The mark as the call began.
    pub(super) mark: u8,
    pub(super) at: At,
    pub(super) named: Option<Named>,
}

/// A state of the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    pub(super) now: u8,
    pub(super) database: Database,
    pub(super) former: Option<Former>,
    /// The last position that the server has heard. `None` before it knows an end of the feed.
    pub(super) cursor: Option<Position>,
    /// Each event that was committed before this moment has been heard.
    pub(super) mark: u8,
    pub(super) round: Option<Round>,
    /// The version in the cache.
    pub(super) cache: Option<u8>,
    pub(super) load: Option<Load>,
    pub(super) call: Option<Call>,
}

impl World {
    /// The first version has landed with its event. The server knows nothing.
    pub(super) fn new() -> Self {
        Self {
            now: 0,
            database: Database {
                identity: 0,
                row: FIRST,
                events: vec![Event {
                    committed: 0,
                    version: Some(FIRST),
                }],
            },
            former: None,
            cursor: None,
            mark: 0,
            round: None,
            cache: None,
            load: None,
            call: None,
        }
    }

    /// The last position of the present feed.
    pub(super) fn last(&self) -> Named {
        Named {
            position: self.database.end(),
            version: Database::told(&self.database.events),
        }
    }

    /// Whether the copy lacks a version of the former database.
    fn is_lost(&self, version: u8) -> bool {
        self.former
            .is_some_and(|former| former.copied < version && version <= former.row)
    }

    /// Whether a value has a version in its history. Versions of the present database are greater
    /// than lost ones, and do not have them in their history.
    fn reflects(&self, value: u8, version: u8) -> bool {
        value >= version && (self.is_lost(value) || !self.is_lost(version))
    }

    /// An answer that is older than its mark, or than the position that the call names.
    pub(super) fn violation(&self, value: u8, mark: u8, named: Option<Named>) -> Option<String> {
        let due = self.database.told_before(mark);
        if !self.reflects(value, due) {
            return Some(format!(
                "an answer of version {value} has the mark {mark}, and version {due} was told before"
            ));
        }
        let is_replaced = self.former.is_some_and(|former| former.replaced < mark);
        if is_replaced && self.is_lost(value) {
            return Some(format!(
                "an answer of the lost version {value} has the mark {mark}, after the replacement"
            ));
        }
        let version = named.map_or(0, |named| named.version);
        (!self.reflects(value, version)).then(|| {
            format!(
                "an answer of version {value} to a call that names the event of version {version}"
            )
        })
    }
}
