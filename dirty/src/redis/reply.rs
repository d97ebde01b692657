//! Reads answers. The worst outcome of any answer is an error.

use bytes::Bytes;
use redis::Value;
use storage_model::{
    DatabaseId, Epoch, Fence, Field, OpId, Owner, Position, Stamp, Timestamp, Version,
};

use crate::redis::error::Failure;
use crate::{Marker, Session, key, mark};

type Decoded<T> = Result<T, Failure>;

fn nonsense<T>(wanted: &str, value: &Value) -> Decoded<T> {
    let shown: String = format!("{value:?}").chars().take(80).collect();
    Err(Failure::Nonsense(format!("expected {wanted}, got {shown}")))
}

/// Bytes, or `None` for nil.
pub(crate) fn maybe(value: Value) -> Decoded<Option<Bytes>> {
    match value {
        Value::Nil | Value::Boolean(false) => Ok(None),
        Value::BulkString(bytes) => Ok(Some(Bytes::from(bytes))),
        Value::SimpleString(text) => Ok(Some(Bytes::from(text))),
        Value::Okay => Ok(Some(Bytes::from_static(b"OK"))),
        Value::Int(number) => Ok(Some(Bytes::from(number.to_string()))),
        other => nonsense("a string", &other),
    }
}

/// Bytes.
pub(crate) fn bytes(value: Value) -> Decoded<Bytes> {
    maybe(value)?.ok_or_else(|| Failure::Nonsense("expected a string, got nil".to_owned()))
}

/// Text.
pub(crate) fn text(value: Value) -> Decoded<String> {
    let bytes = bytes(value)?;
    String::from_utf8(bytes.to_vec())
        .map_err(|_| Failure::Nonsense("expected text, got bytes that are not UTF-8".to_owned()))
}

/// A database's identity, or `None` for nil.
pub(crate) fn database(value: Value) -> Decoded<Option<DatabaseId>> {
    let Some(bytes) = maybe(value)? else {
        return Ok(None);
    };
    let id = std::str::from_utf8(&bytes).ok().and_then(DatabaseId::parse);
    id.map(Some)
        .ok_or_else(|| Failure::Nonsense("expected a database's identity".to_owned()))
}

/// Several values.
pub(crate) fn list(value: Value) -> Decoded<Vec<Value>> {
    match value {
        Value::Array(values) | Value::Set(values) => Ok(values),
        Value::Map(pairs) => Ok(pairs
            .into_iter()
            .flat_map(|(name, value)| [name, value])
            .collect()),
        other => nonsense("an array", &other),
    }
}

/// Exactly `N` values.
pub(crate) fn array<const N: usize>(value: Value) -> Decoded<[Value; N]> {
    let values = list(value)?;
    values.try_into().map_err(|values: Vec<Value>| {
        Failure::Nonsense(format!("expected {N} values, got {}", values.len()))
    })
}

/// Names and values in turn.
pub(crate) fn pairs(value: Value) -> Decoded<Vec<(Bytes, Bytes)>> {
    let mut values = list(value)?.into_iter();
    let mut pairs = Vec::with_capacity(values.len() / 2);
    while let Some(name) = values.next() {
        let value = values
            .next()
            .ok_or_else(|| Failure::Nonsense("a name without a value".to_owned()))?;
        pairs.push((bytes(name)?, bytes(value)?));
    }
    Ok(pairs)
}

/// A number in decimal digits, without the '+' that Rust accepts and the scripts do not.
pub(crate) fn digits<T: std::str::FromStr>(text: &[u8]) -> Decoded<T> {
    let number = std::str::from_utf8(text)
        .ok()
        .filter(|text| !text.starts_with('+'))
        .and_then(|text| text.parse().ok());
    number.ok_or_else(|| {
        let shown: String = String::from_utf8_lossy(text).chars().take(40).collect();
        Failure::Nonsense(format!("expected a number, got {shown:?}"))
    })
}

/// A number.
pub(crate) fn number<T: std::str::FromStr>(value: Value) -> Decoded<T> {
    digits(&bytes(value)?)
}

/// A version.
pub(crate) fn version(text: &[u8]) -> Decoded<Version> {
    let number = digits(text)?;
    Version::new(number)
        .ok_or_else(|| Failure::Nonsense(format!("version {number} is above 2^53 - 1")))
}

/// A version as a map of marks keeps it: 14 hexadecimal digits.
pub(crate) fn mark_version(text: &[u8]) -> Decoded<Version> {
    let is_one = text.len() == 14
        && text
            .iter()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let number = std::str::from_utf8(text)
        .ok()
        .filter(|_| is_one)
        .and_then(|text| u64::from_str_radix(text, 16).ok());
    let version = number.and_then(Version::new);
    version.ok_or_else(|| {
        Failure::Nonsense(format!(
            "expected a mark's version, got {:?}",
            String::from_utf8_lossy(text)
        ))
    })
}

/// An epoch.
pub(crate) fn epoch(text: &[u8]) -> Decoded<Epoch> {
    digits(text).map(Epoch)
}

/// The stamp of an epoch. An older program adopts an epoch without one.
pub(crate) fn stamp(value: Value) -> Decoded<Stamp> {
    let text = maybe(value)?;
    text.map_or(Ok(0), |text| digits(&text)).map(Stamp)
}

/// The answer of `TIME`.
pub(crate) fn time(value: Value) -> Result<Timestamp, Failure> {
    let [seconds, micros] = array(value)?;
    let (seconds, micros): (u64, u64) = (number(seconds)?, number(micros)?);
    Ok(Timestamp(
        seconds.saturating_mul(1_000_000).saturating_add(micros),
    ))
}

/// A moment.
pub(crate) fn timestamp(text: &[u8]) -> Decoded<Timestamp> {
    digits(text).map(Timestamp)
}

/// Whether the number is 1.
pub(crate) fn yes(value: Value) -> Decoded<bool> {
    Ok(number::<i64>(value)? == 1)
}

/// The field of a name in a hash.
pub(crate) fn field(name: &[u8]) -> Decoded<Field> {
    let field = std::str::from_utf8(name).ok().and_then(key::field_of);
    field.ok_or_else(|| {
        Failure::Nonsense(format!("{:?} is no field", String::from_utf8_lossy(name)))
    })
}

/// A marker with its kind, as the scripts name it.
pub(crate) fn marker(text: &[u8]) -> Decoded<Marker> {
    let (kind, number): (fn(Version) -> Marker, &[u8]) = match text {
        [b'?', number @ ..] => (Marker::Unknown, number),
        [b'-', number @ ..] => (Marker::Absent, number),
        [b'=', number @ ..] => (Marker::Missing, number),
        number => (Marker::At, number),
    };
    version(number).map(kind)
}

/// A place in the stream.
pub(crate) fn position(text: &[u8]) -> Decoded<Position> {
    let text = std::str::from_utf8(text).ok();
    let position = text.and_then(|text| text.parse().ok());
    position.ok_or_else(|| Failure::Nonsense("expected the place of a note".to_owned()))
}

/// A place in a reply that need not be there.
pub(crate) fn maybe_position(value: Value) -> Decoded<Option<Position>> {
    let place = maybe(value)?;
    place.as_deref().map(position).transpose()
}

/// An id, from its hexadecimal digits.
pub(crate) fn id(text: &str) -> Option<OpId> {
    let digits = text.as_bytes().as_chunks::<2>().0;
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = digits.iter().map(byte).collect();
    OpId::from_bytes(&bytes?)
}

/// A session, from "version token epoch holder asked name".
pub(crate) fn session(text: &[u8]) -> Decoded<Session> {
    let wrong = || Failure::Nonsense("a session can't be read".to_owned());
    let text = std::str::from_utf8(text).map_err(|_| wrong())?;
    let mut words = text.splitn(6, ' ');
    let mut next = || words.next().ok_or_else(wrong);
    let version = version(next()?.as_bytes())?;
    let token = id(next()?).ok_or_else(wrong)?;
    let epoch = epoch(next()?.as_bytes())?;
    let holder = id(next()?).ok_or_else(wrong)?;
    let asked = Some(next()?.to_owned()).filter(|by| by != "-");
    let name = next()?.to_owned();
    Ok(Session {
        fence: Fence { version, token },
        holder,
        name,
        epoch,
        asked,
    })
}

/// The owners of these names. Another program may have written a name that is none, and it is
/// skipped.
pub(crate) fn owners(names: impl IntoIterator<Item = Value>) -> Decoded<Vec<Owner>> {
    let mut owners = Vec::new();
    for name in names {
        owners.extend(mark::owner_of(&bytes(name)?));
    }
    Ok(owners)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marks_version_is_fourteen_hexadecimal_digits() {
        for number in [0, 1, 15, 16, 0x1234_5678_9abc, Version::MAX.get()] {
            let version = Version::new(number).unwrap();
            assert_eq!(
                mark_version(format!("{number:014x}").as_bytes()).unwrap(),
                version
            );
        }
    }

    #[test]
    fn no_answer_of_another_shape_passes_as_the_one_expected() {
        let odd = [
            Value::Nil,
            Value::Int(-1),
            Value::Array(vec![]),
            Value::Array(vec![Value::Nil]),
            Value::BulkString(b"\xff".to_vec()),
            Value::BulkString(b"9007199254740992".to_vec()),
            Value::Double(1.5),
            Value::Boolean(true),
        ];
        for value in odd {
            assert!(array::<2>(value.clone()).is_err(), "{value:?}");
            assert!(
                bytes(value.clone())
                    .and_then(|text| version(&text))
                    .is_err(),
                "{value:?}"
            );
            assert!(
                bytes(value.clone())
                    .and_then(|text| mark_version(&text))
                    .is_err(),
                "{value:?}"
            );
        }
        assert!(pairs(Value::Array(vec![Value::BulkString(b"name".to_vec())])).is_err());
    }
}
