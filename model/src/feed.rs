//! The feed: notes of writes, in the order of their partition.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Epoch, Owner, Partition, Token, Version};

/// The place of an event in the feed of its partition. Positions of a partition rise, and no two
/// events have the same.
///
/// Numbers go on over epochs. So a missing number shows that notes were deleted. They begin again
/// only where the hot tier lost its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Position {
    /// The epoch in which the note was written.
    pub epoch: Epoch,
    /// The number of the note.
    pub number: u64,
}

impl Position {
    /// Before the first event.
    pub const ZERO: Self = Self {
        epoch: Epoch(0),
        number: 0,
    };

    /// A position.
    #[must_use]
    pub fn new(epoch: u64, number: u64) -> Self {
        Self {
            epoch: Epoch(epoch),
            number,
        }
    }
}

/// `epoch-number`, as the hot tier keeps it.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.epoch, self.number)
    }
}

/// Text that is no position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no position; a position is an epoch and a number, such as 3-17")]
pub struct NoPosition(String);

impl FromStr for Position {
    type Err = NoPosition;

    fn from_str(text: &str) -> Result<Self, NoPosition> {
        let number = |digits: &str| {
            let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            is_plain.then(|| digits.parse().ok()).flatten()
        };
        let parts = text.split_once('-');
        let parsed = parts.and_then(|(epoch, at)| Some(Self::new(number(epoch)?, number(at)?)));
        parsed.ok_or_else(|| NoPosition(text.chars().take(40).collect()))
    }
}

/// An event of the feed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Event {
    /// Its partition.
    pub partition: Partition,
    /// Its place in the feed of the partition.
    pub position: Position,
    /// The content.
    pub content: Content,
}

impl Event {
    /// Whether no event is missing between a position and this event. The numbers of a partition
    /// have no gaps.
    #[must_use]
    pub fn follows(&self, after: Position) -> bool {
        let is_next = self.position.number == after.number.saturating_add(1);
        is_next || self.content == Content::Gap
    }
}

/// The content of an event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Content {
    /// A write that carried a note.
    Note(Note),
    /// Rows of this owner hold changes whose notes were lost with the hot tier. Read the owner.
    Resync {
        /// The owner.
        owner: Owner,
    },
    /// Notes up to this position were deleted from the hot tier by hand, or came back too late with
    /// an older copy of it. Read the owners of the partition.
    Gap,
}

/// A write with its note.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Note {
    /// The owner that changed.
    pub owner: Owner,
    /// The version that the write gave to the owner.
    pub version: Version,
    /// The owner's version before the write. `None` if the hot tier did not know it. A reader that
    /// has seen another version last has missed a change.
    pub previous: Option<Version>,
    /// The new values of the counters that the write changed, sorted by the names of their fields.
    pub counters: Vec<i64>,
    /// The body that the writer gave.
    pub body: Bytes,
}

/// The rows of an owner are ahead of its notes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lead {
    /// The owner.
    pub owner: Owner,
    /// The place of the last note whose change the rows hold.
    pub position: Position,
}

/// Where a reader of the feed stands: a position for each partition. A partition without one begins
/// at its oldest event that is kept.
///
/// Its text is short and stable, so a reader can store it. A cursor that a reader gave names its
/// database, and readers of other databases reject it.
///
/// ```
/// # mod storage_sdk { pub use storage_model::*; pub mod feed { pub use storage_model::*; } }
/// use storage_sdk::feed::{Cursor, Partition, Position, Token};
/// use storage_sdk::SeededIds;
///
/// let mut cursor = Cursor::default();
/// cursor.move_to(Partition(3), Position::new(1, 17));
/// assert_eq!(cursor.to_string(), "3:1-17");
/// assert_eq!("3:1-17".parse(), Ok(cursor.clone()));
///
/// let database = Token::draw(&SeededIds::new(7));
/// cursor.belong_to(database);
/// assert_eq!(cursor.to_string(), format!("{database}/3:1-17"));
/// assert_eq!(cursor.to_string().parse(), Ok(cursor));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Cursor {
    database: Option<Token>,
    at: BTreeMap<Partition, Position>,
}

impl Cursor {
    /// The last event of a partition that was read. [`Position::ZERO`] if there was no event.
    #[must_use]
    pub fn of(&self, partition: Partition) -> Option<Position> {
        self.at.get(&partition).copied()
    }

    /// The events of a partition up to this one were read.
    pub fn move_to(&mut self, partition: Partition, position: Position) {
        self.at.insert(partition, position);
    }

    /// The partitions with a position.
    pub fn positions(&self) -> impl Iterator<Item = (Partition, Position)> {
        self.at.iter().map(|(partition, at)| (*partition, *at))
    }

    /// The database whose feed was read. `None` for a cursor that no reader gave.
    #[must_use]
    pub fn database(&self) -> Option<Token> {
        self.database
    }

    /// The positions are of the feed of this database.
    pub fn belong_to(&mut self, database: Token) {
        self.database = Some(database);
    }
}

/// `partition:epoch-number` for each partition, with commas between them, behind the identity of the
/// database and a slash.
impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(database) = self.database {
            write!(f, "{database}/")?;
        }
        for (at, (partition, position)) in self.positions().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{partition}:{position}")?;
        }
        Ok(())
    }
}

impl FromStr for Cursor {
    type Err = NoPosition;

    fn from_str(text: &str) -> Result<Self, NoPosition> {
        let mut cursor = Self::default();
        let positions = match text.split_once('/') {
            None => text,
            Some((database, positions)) => {
                let no_database = || NoPosition(text.chars().take(40).collect());
                cursor.database = Some(Token::parse(database).ok_or_else(no_database)?);
                positions
            }
        };
        for part in positions.split(',').filter(|_| !positions.is_empty()) {
            let no_position = || NoPosition(part.chars().take(40).collect());
            let (partition, position) = part.split_once(':').ok_or_else(no_position)?;
            let number = partition.parse().map_err(|_| no_position())?;
            cursor.move_to(Partition(number), position.parse()?);
        }
        Ok(cursor)
    }
}

/// Its text.
impl Serialize for Cursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Cursor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// A cursor stands before events that were dropped for their age. The reader has missed some. It
/// must read the owners that it follows, and go on from a newer cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the cursor stands at {position} in partition {partition}, but events up to {trimmed} were dropped for their age; \
     read the data again and begin with a new cursor"
)]
pub struct CursorTooOld {
    /// The partition.
    pub partition: Partition,
    /// Where the cursor stands.
    pub position: Position,
    /// The last event that was dropped.
    pub trimmed: Position,
}

#[cfg(test)]
mod tests {
    use serde::de::IntoDeserializer as _;
    use serde::de::value::{Error as ValueError, StrDeserializer};

    use super::*;
    use crate::SeededIds;

    #[test]
    fn a_position_is_read_back_from_its_text() {
        for position in [
            Position::ZERO,
            Position::new(3, 17),
            Position::new(u64::MAX, u64::MAX),
        ] {
            assert_eq!(position.to_string().parse(), Ok(position));
        }
        for text in [
            "",
            "-",
            "3",
            "3-",
            "-3",
            "+3-1",
            "3-1-1",
            "3- 1",
            "3-18446744073709551616",
        ] {
            assert!(text.parse::<Position>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn serde_reads_a_cursor_from_its_text_and_refuses_another() {
        let read = |text: &str| {
            let deserializer: StrDeserializer<'_, ValueError> = text.into_deserializer();
            Cursor::deserialize(deserializer)
        };
        let mut cursor = Cursor::default();
        cursor.belong_to(Token::draw(&SeededIds::new(7)));
        cursor.move_to(Partition(3), Position::new(1, 17));
        assert_eq!(read(&cursor.to_string()), Ok(cursor));
        assert_eq!(read(""), Ok(Cursor::default()));
        assert!(read("3:1").is_err());
    }

    #[test]
    fn an_event_follows_if_no_number_is_missing() {
        let gap = |epoch, number| Event {
            partition: Partition(0),
            position: Position::new(epoch, number),
            content: Content::Gap,
        };
        let resync = |epoch, number| {
            let owner = Owner::new("a", "r", "t", "1").unwrap();
            Event {
                content: Content::Resync { owner },
                ..gap(epoch, number)
            }
        };
        let after = Position::new(1, 4);
        assert!(resync(1, 5).follows(after));
        assert!(resync(2, 5).follows(after));
        assert!(gap(1, 9).follows(after));
        assert!(resync(3, 1).follows(Position::ZERO));
        assert!(!resync(3, 7).follows(Position::ZERO));
        assert!(!resync(1, 6).follows(after));
    }

    #[test]
    fn a_cursor_is_read_back_from_its_text() {
        let mut cursor = Cursor::default();
        assert_eq!(cursor.to_string().parse(), Ok(cursor.clone()));
        for (partition, number) in [(0, 5), (7, 0), (255, u64::MAX)] {
            cursor.move_to(Partition(partition), Position::new(2, number));
        }
        assert_eq!(cursor.to_string().parse(), Ok(cursor.clone()));
        cursor.belong_to(Token::draw(&SeededIds::new(7)));
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for text in [
            "1", "1:", ":1-1", "x:1-1", "1:1-1,", "1:1", ",", "/", "7/1:1-1",
        ] {
            assert!(text.parse::<Cursor>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn positions_are_ordered_by_epoch_and_then_by_number() {
        assert!(Position::ZERO < Position::new(1, 1));
        assert!(Position::new(1, 9) < Position::new(2, 1));
        assert!(Position::new(2, 1) < Position::new(2, 2));
    }
}
