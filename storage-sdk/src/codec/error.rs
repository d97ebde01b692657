//! Errors of encoding and decoding.

/// An object that was not encoded or not decoded.
///
/// Nothing was written, and the stored bytes stay as they are.
///
/// ```
/// use storage_sdk::codec::{self, CodecError};
/// let answer = match codec::decode::<u32>(b"seven", 1) {
///     Ok(level) => format!("level {level}"),
///     Err(CodecError::SchemaTooNew { .. }) => "update this server".to_owned(),
///     Err(error) => format!("restore it: {error}"),
/// };
/// assert!(answer.starts_with("restore it: the value is not a stored object"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The value was not written as an object.
    #[error(
        "the value is not a stored object: it {found}, but an object begins with c1 53 4f; \
         read this field as bytes, or keep objects in a field of their own"
    )]
    NotAnObject {
        /// The first bytes of the value.
        found: String,
    },
    /// The value ends within the header.
    #[error(
        "the object has {bytes} bytes, but its header alone has {header}: it was cut short, so restore it from a backup"
    )]
    CutShort {
        /// The number of bytes in the value.
        bytes: usize,
        /// The number of bytes in a header.
        header: usize,
    },
    /// The header has another format.
    #[error(
        "the object has format {found}, but this program reads formats up to {newest}; update the program"
    )]
    Format {
        /// The object's format.
        found: u8,
        /// The newest known format.
        newest: u8,
    },
    /// The bytes differ from the written bytes.
    #[error(
        "the object's checksum is {stored:016x}, but its bytes have the checksum {computed:016x}: \
         it was altered or cut short after it was written, so restore it from a backup"
    )]
    Checksum {
        /// The checksum in the header.
        stored: u64,
        /// The checksum of the bytes.
        computed: u64,
    },
    /// The payload has another codec.
    #[error(
        "the object has codec {found}, but this program reads codec 1 (MessagePack); update the program"
    )]
    Codec {
        /// The object's codec.
        found: u8,
    },
    /// The payload is compressed.
    #[error(
        "the object has compression {found}, but this program reads compression 0 (none); update the program"
    )]
    Compression {
        /// The object's compression.
        found: u8,
    },
    /// A newer program wrote the object.
    #[error(
        "the object has schema version {found}, but this program's {type_name} reads versions up to {newest}; \
         update the program, since an older one could lose what the newer one stored"
    )]
    SchemaTooNew {
        /// The type that reads.
        type_name: &'static str,
        /// The object's schema version.
        found: u32,
        /// The type's schema version.
        newest: u32,
    },
    /// Sequences and maps nest too deep.
    #[error(
        "the object nests deeper than the limit of {limit} levels; store the parts as a list that refers by index"
    )]
    TooDeep {
        /// The most levels.
        limit: usize,
    },
    /// Bytes follow the value.
    #[error(
        "{bytes} bytes follow the object's value: it was not written as one object, so write it again"
    )]
    TrailingBytes {
        /// The number of bytes.
        bytes: usize,
    },
    /// The type does not accept the value.
    #[error(
        "the object of schema version {schema_version} is no {type_name}: {reason}; {}",
        lacks(reason)
    )]
    Decode {
        /// The type that reads.
        type_name: &'static str,
        /// The object's schema version.
        schema_version: u32,
        /// The first characters of the type's message.
        reason: String,
    },
    /// The type refuses to be written.
    #[error("{type_name} cannot be encoded: {reason}; change the value or the type's Serialize")]
    Encode {
        /// The type that writes.
        type_name: &'static str,
        /// The first characters of the type's message.
        reason: String,
    },
    /// The type can't read its own bytes.
    #[error("{type_name} cannot read what it writes: {reason}; {}", advice(reason))]
    Unreadable {
        /// The type.
        type_name: &'static str,
        /// The message of the type's `Deserialize`.
        reason: String,
    },
}

/// The advice for the message of a type that refuses what an earlier one wrote.
fn lacks(reason: &str) -> &'static str {
    if reason.contains("missing field") {
        "a field added since then needs #[serde(default)]"
    } else {
        "a field whose type has changed since then needs another name, or a Deserialize that reads both types"
    }
}

/// The advice for a message of a type's `Deserialize`.
fn advice(reason: &str) -> &'static str {
    if reason.starts_with("missing field") {
        "a field with skip_serializing_if needs #[serde(default)]"
    } else if reason.contains("byte array") || reason.contains("128 is not supported") {
        "below flatten, untagged or tag, serde reads no byte vector and no 128-bit integer: give the field a type that reads bytes"
    } else if reason.contains("did not match any variant of untagged enum") {
        "below untagged, serde tries each variant and reads neither byte vectors nor 128-bit integers"
    } else {
        "change the type so that its Deserialize accepts all that its Serialize writes"
    }
}
