//! Notes that list the changes of their write, for logic types of which every change leaves one.

use std::fmt;

use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use storage_model::{Bytes, Change, Field, Note};

/// The first byte of such a body. No MessagePack begins with it.
const FIRST: u8 = 0xC1;

/// The body of a note with these changes. Only its first byte, if it would be larger than a value
/// may be.
pub(crate) fn body_of(changes: &[(Field, Change)], bytes_max: usize) -> Bytes {
    let listed: Vec<Listed<'_>> = changes
        .iter()
        .map(|(field, change)| listed(field, change))
        .collect();
    let mut body = vec![FIRST];
    let written = rmp_serde::encode::write(&mut body, &listed);
    if written.is_err() || body.len() > bytes_max {
        body.truncate(1);
    }
    body.into()
}

/// The changes that a note lists, of a logic type in `feed.every_change`. The new values of counters
/// are in [`Note::counters`].
///
/// `None` if the writer gave the note another body, or if the changes together are larger than
/// `limits.value_bytes_max`. Then the body has one byte, and the reader reads the owner.
///
/// ```
/// # storage_doc::run(async || {
/// use storage_sdk::feed::{Change, Content, Cursor, changes_of};
/// use storage_sdk::{Settings, Storage};
/// let mut settings = Settings::in_memory();
/// settings.feed.every_change.insert("player".into());
/// let storage = Storage::open(settings).await?;
/// storage.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?.incr("gold", 5).await?;
/// let events = storage.changes(Cursor::default()).next().await?;
/// let Content::Note(note) = &events[0].content else { panic!("each change leaves a note") };
/// let changes = changes_of(note).expect("they are small");
/// assert_eq!((changes[0].0.as_str(), &changes[0].1), ("gold", &Change::Incr(5)));
/// # Ok(()) });
/// ```
#[must_use]
pub fn changes_of(note: &Note) -> Option<Vec<(Field, Change)>> {
    let body = note.body.strip_prefix(&[FIRST])?;
    let listed: Vec<(String, u8, Raw, i64, i64, i64)> = rmp_serde::from_slice(body).ok()?;
    let changes = listed
        .into_iter()
        .map(|(name, kind, value, by, floor, ceiling)| {
            let change = match kind {
                0 => Change::Set(value.0.into()),
                1 => Change::Incr(by),
                2 => Change::Add { by, floor, ceiling },
                3 => Change::Remove,
                4 => Change::Restore,
                5 => Change::Purge,
                _ => return None,
            };
            Some((Field::new(&name).ok()?, change))
        });
    changes.collect()
}

/// A field, the kind of its change, its value, its step, and the bounds of its sum.
type Listed<'a> = (&'a str, u8, BorrowedBytes<'a>, i64, i64, i64);

fn listed<'a>(field: &'a Field, change: &'a Change) -> Listed<'a> {
    let empty = BorrowedBytes(&[]);
    let field = field.as_str();
    match change {
        Change::Set(value) => (field, 0, BorrowedBytes(value), 0, 0, 0),
        Change::Incr(by) => (field, 1, empty, *by, 0, 0),
        Change::Add { by, floor, ceiling } => (field, 2, empty, *by, *floor, *ceiling),
        Change::Remove => (field, 3, empty, 0, 0, 0),
        Change::Restore => (field, 4, empty, 0, 0, 0),
        Change::Purge => (field, 5, empty, 0, 0, 0),
    }
}

/// Bytes that MessagePack keeps as they are, and not as a list of numbers.
struct BorrowedBytes<'a>(&'a [u8]);

impl Serialize for BorrowedBytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

struct Raw(Vec<u8>);

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Raw;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Raw, E> {
                Ok(Raw(bytes.to_vec()))
            }

            fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<Raw, E> {
                Err(E::custom("text in place of bytes"))
            }
        }
        let raw = deserializer.deserialize_bytes(Reader);
        raw.map_err(|error| D::Error::custom(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use storage_model::{Owner, Version};

    use super::*;

    fn note(body: Bytes) -> Note {
        Note {
            owner: Owner::new("a", "r", "t", "1").unwrap(),
            version: Version::ZERO,
            previous: None,
            counters: Vec::new(),
            body,
        }
    }

    fn changes() -> Vec<(Field, Change)> {
        let add = Change::Add {
            by: -3,
            floor: 0,
            ceiling: i64::MAX,
        };
        let all = [
            ("bag", Change::Set(Bytes::from_static(&[0, 200, 255]))),
            ("empty", Change::Set(Bytes::new())),
            ("gold", Change::Incr(i64::MIN)),
            ("purse", add),
            ("a", Change::Remove),
            ("b", Change::Restore),
            ("c", Change::Purge),
        ];
        let all = all.into_iter();
        all.map(|(name, change)| (Field::new(name).unwrap(), change))
            .collect()
    }

    #[test]
    fn a_note_lists_its_changes_and_is_read_back() {
        let body = body_of(&changes(), 1 << 20);
        assert_eq!(changes_of(&note(body)), Some(changes()));
    }

    #[test]
    fn changes_that_are_too_large_for_a_note_are_left_out() {
        let body = body_of(&changes(), 9);
        assert_eq!(body.len(), 1);
        assert_eq!(changes_of(&note(body)), None);
    }

    #[test]
    fn no_other_body_passes_for_changes() {
        for body in [&b""[..], b"text", &[FIRST], &[FIRST, 0x91], &[0x90]] {
            let body = Bytes::copy_from_slice(body);
            assert_eq!(changes_of(&note(body)), None);
        }
    }
}
