//! Objects to bytes and back.
//!
//! A stored object is a header of 18 bytes and one MessagePack value. In this value, structs are
//! maps from field name to value:
//!
//! | bytes | content |
//! | --- | --- |
//! | 0..3 | magic `c1 53 4f`: no UTF-8 text and no MessagePack begins with `c1` |
//! | 3 | format of the header, 1 |
//! | 4..12 | XXH3 (64 bits, seed 0, big-endian) of all bytes that follow |
//! | 12 | codec of the payload: 1 is MessagePack with named fields |
//! | 13 | compression of the payload: 0 is none |
//! | 14..18 | schema version of the type, big-endian |
//! | 18.. | payload |
//!
//! # How a type may change
//! A new field needs `#[serde(default)]`. Fields may be removed and reordered. A program ignores
//! fields that it does not know, and drops them when it saves the object again.
//!
//! If a program must not drop a new field, or if a field changes its meaning, raise the schema
//! version. Older programs then reject the object with [`CodecError::SchemaTooNew`] and lose no
//! part of it.
//!
//! # Limits of the format
//! - Both directions reject values that nest deeper than [`DEPTH_MAX`]. They also reject more than
//!   four times as many `Some`s and newtypes around one value. The codec counts both while it
//!   encodes, so no value is too deep for the thread's stack. One case can't be counted: serde
//!   copies an enum's tuple or struct variant below `flatten` or `tag` before the codec sees it.
//!   Keep lists of the type itself out of such a variant.
//! - `Some` of a value that is written as nil comes back as `None`, because MessagePack has one
//!   nil. This affects `Some(None)`, `Some(())`, and `Some(serde_json::Value::Null)`.
//! - Below `#[serde(untagged)]`, serde reads the first variant that accepts the value. A variant
//!   with an `f32` accepts each `f64` and rounds it, 1e300 to infinity. Put the wider type first.
//! - Below `#[serde(flatten)]`, `#[serde(untagged)]` and `#[serde(tag = …)]`, serde reads neither
//!   byte vectors nor 128-bit integers back. It does read an empty byte vector, so the error begins
//!   with the first byte. [`encode_checked`] rejects all of these.
//! - `skip_serializing_if` without `default` writes an object that serde can't read.
//!   [`encode_checked`] rejects it.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use storage_sdk::codec;
//!
//! #[derive(Serialize, Deserialize)]
//! struct V1 { level: u32 }
//!
//! #[derive(Serialize, Deserialize)]
//! struct V2 { #[serde(default)] guild: Option<String>, level: u32 }
//!
//! let stored = codec::encode(&V1 { level: 7 }, 1)?;
//! let player: V2 = codec::decode(&stored, 2)?;
//! assert_eq!((player.level, player.guild), (7, None));
//! # Ok::<(), codec::CodecError>(())
//! ```

mod bounded;
mod error;
mod header;
mod nesting;
#[cfg(test)]
mod tests;

use std::any::type_name;
use std::fmt::Display;

use serde::Serialize;
use serde::de::DeserializeOwned;
use storage_model::Bytes;

use bounded::WriteFailure;
pub use error::CodecError;
pub use nesting::DEPTH_MAX;

/// Encodes an object of this schema version.
///
/// Equal values give equal bytes, if the value has an order of its own (a `HashMap` has none). The
/// codec allocates one buffer, which grows with the object.
///
/// ```
/// use storage_sdk::codec;
/// let stored = codec::encode(&("Ann", 7_u32), 1)?;
/// assert_eq!(stored[..3], [0xc1, 0x53, 0x4f]); // the magic of the header
/// assert_eq!(codec::decode::<(String, u32)>(&stored, 1)?, ("Ann".to_owned(), 7));
/// # Ok::<(), codec::CodecError>(())
/// ```
///
/// # Errors
/// The type's `Serialize` fails, or the value nests deeper than [`DEPTH_MAX`].
pub fn encode<T: Serialize + ?Sized>(value: &T, schema_version: u32) -> Result<Bytes, CodecError> {
    let mut object = header::begin(schema_version);
    let mut written = bounded::write(value, &mut object, true);
    if let Err(WriteFailure::Refused(_)) = written {
        // A sequence whose first item is a u8 and whose later items are not is no byte vector. An
        // untagged enum writes such sequences.
        object.truncate(header::LEN);
        written = bounded::write(value, &mut object, false);
    }
    written.map_err(|unwritten| match unwritten {
        WriteFailure::TooDeep => CodecError::TooDeep { limit: DEPTH_MAX },
        WriteFailure::Refused(error) => encode_error::<T>(&error),
    })?;
    let payload = object.get(header::LEN..).unwrap_or_default();
    match nesting::measure(payload) {
        Ok(bytes) if bytes == payload.len() => Ok(header::seal(object).into()),
        Err(nesting::Fault::TooDeep) => Err(CodecError::TooDeep { limit: DEPTH_MAX }),
        Ok(_) | Err(nesting::Fault::Malformed) => Err(encode_error::<T>(
            &"it wrote a sequence or map of another length than it announced",
        )),
    }
}

/// Encodes an object and reads it back, so that no object is stored that can't be read.
///
/// It takes longer than [`encode`] by the time for one read.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use storage_sdk::codec::{self, CodecError};
///
/// #[derive(Serialize, Deserialize)]
/// struct Hero { #[serde(skip_serializing)] level: u32 }
///
/// let error = codec::encode_checked(&Hero { level: 7 }, 1).unwrap_err();
/// assert!(matches!(error, CodecError::Unreadable { .. })); // nobody could read it without the level
/// ```
///
/// # Errors
/// As [`encode`]. [`CodecError::Unreadable`]: the type can't read its own bytes.
pub fn encode_checked<T: Serialize + DeserializeOwned>(
    value: &T,
    schema_version: u32,
) -> Result<Bytes, CodecError> {
    encode_and_read(value, schema_version).map(|(object, _)| object)
}

/// As [`encode_checked`], with the value that was read back.
pub(crate) fn encode_and_read<T: Serialize + DeserializeOwned>(
    value: &T,
    schema_version: u32,
) -> Result<(Bytes, T), CodecError> {
    let object = encode(value, schema_version)?;
    // The first checks of `decode` can't fail here: the header is new, and the nesting is measured.
    match rmp_serde::from_slice::<T>(object.get(header::LEN..).unwrap_or_default()) {
        Ok(read) => Ok((object, read)),
        Err(error) => Err(CodecError::Unreadable {
            type_name: type_name::<T>(),
            reason: reason(&error),
        }),
    }
}

/// Decodes an object that [`encode`] made with this schema version or an earlier one.
///
/// Any bytes are safe to pass. Bytes that are not a whole, unaltered object give an error.
///
/// ```
/// use storage_sdk::codec::{self, CodecError};
/// let stored = codec::encode(&7_u32, 2)?;
/// let old_program = codec::decode::<u32>(&stored, 1).unwrap_err();
/// assert!(matches!(old_program, CodecError::SchemaTooNew { found: 2, newest: 1, .. }));
/// # Ok::<(), CodecError>(())
/// ```
///
/// # Errors
/// One [`CodecError`] for each cause. The checks run in this order: not an object, cut short, a
/// newer format, altered bytes, an unknown codec or compression, a newer schema, nesting too deep,
/// bytes after the value, and a value that the type does not accept.
pub fn decode<T: DeserializeOwned>(object: &[u8], schema_version: u32) -> Result<T, CodecError> {
    let (stored, payload) = header::open(object)?;
    if stored > schema_version {
        return Err(CodecError::SchemaTooNew {
            type_name: type_name::<T>(),
            found: stored,
            newest: schema_version,
        });
    }
    let refused = |reason: &dyn Display| CodecError::Decode {
        type_name: type_name::<T>(),
        schema_version: stored,
        reason: self::reason(reason),
    };
    // Measured before the decoder runs. The decoder recurses into enums without a limit, and
    // ignores bytes after the value.
    match nesting::measure(payload) {
        Ok(bytes) if bytes < payload.len() => Err(CodecError::TrailingBytes {
            bytes: payload.len() - bytes,
        }),
        Ok(_) => rmp_serde::from_slice(payload)
            .map_err(|error| named(refused(&error), field_of::<T>(payload))),
        Err(nesting::Fault::TooDeep) => Err(CodecError::TooDeep { limit: DEPTH_MAX }),
        Err(nesting::Fault::Malformed) => {
            Err(refused(&"the payload is not one whole MessagePack value"))
        }
    }
}

/// The field of the object that a type does not accept. Reads the payload again.
///
/// Only the outermost name: further ones may be keys of a map, which belong to a player.
#[cold]
fn field_of<T: DeserializeOwned>(payload: &[u8]) -> Option<String> {
    let mut decoder = rmp_serde::Deserializer::from_read_ref(payload);
    let error = serde_path_to_error::deserialize::<_, T>(&mut decoder).err()?;
    match error.path().iter().next()? {
        serde_path_to_error::Segment::Map { key } => Some(key.clone()).filter(|key| is_name(key)),
        _ => None,
    }
}

/// Whether a key can be the name of a field.
fn is_name(key: &str) -> bool {
    const BYTES_MAX: usize = 64;
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    key.len() <= BYTES_MAX && key.bytes().all(is_part)
}

/// The same error, with the field that it is about.
#[cold]
fn named(error: CodecError, field: Option<String>) -> CodecError {
    match (error, field) {
        (
            CodecError::Decode {
                type_name,
                schema_version,
                reason,
            },
            Some(field),
        ) => CodecError::Decode {
            type_name,
            schema_version,
            reason: format!("field {field}: {reason}"),
        },
        (error, _) => error,
    }
}

#[cold]
fn encode_error<T: ?Sized>(reason: &dyn Display) -> CodecError {
    CodecError::Encode {
        type_name: type_name::<T>(),
        reason: self::reason(reason),
    }
}

/// The message of a type, without the value. serde's messages quote the found value before the
/// expected one, and the value may belong to a player. The names of a type's fields stay.
#[cold]
fn reason(said: &dyn Display) -> String {
    const CHARS_MAX: usize = 200;
    let mut reason = said.to_string();
    if !["missing field", "duplicate field", "unknown field"]
        .iter()
        .any(|about| reason.starts_with(about))
    {
        // The found value may hold any text. The expectation comes from the type itself.
        let expected = reason.rfind(", expected ").unwrap_or(reason.len());
        if let Some(value) = reason
            .get(..expected)
            .and_then(|found| found.find(['"', '`']))
        {
            reason.replace_range(value..expected, "…");
        }
    }
    if let Some((end, _)) = reason.char_indices().nth(CHARS_MAX) {
        reason.truncate(end);
        reason.push('…');
    }
    reason
}
