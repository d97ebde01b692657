//! What a service and its clients agree on: keys, values, and the function that shards keys.

use std::fmt;
use std::hash::Hash;

use bytes::Bytes;

use crate::Wire;

/// The keys and values of a service, compiled into its servers and its clients.
///
/// ```
/// use bytes::Bytes;
/// use storage_shard_read::{Malformed, Schema, StandardWire};
///
/// /// How often each word was used.
/// struct Words;
///
/// impl Schema for Words {
///     type Key = String;
///     type Id = String;
///     type Value = u64;
///     type Wire = StandardWire;
///     const NAME: &'static str = "words-1";
///
///     fn sharding_key(key: &String) -> u64 { xxhash_rust::xxh3::xxh3_64(key.as_bytes()) }
///     fn id(key: &String) -> String { key.clone() }
///     fn encode_key(key: &String) -> Bytes { key.clone().into() }
///     fn decode_key(bytes: &[u8]) -> Result<String, Malformed> {
///         Ok(std::str::from_utf8(bytes)?.to_owned())
///     }
///     fn encode_value(value: &u64) -> Bytes { Bytes::copy_from_slice(&value.to_be_bytes()) }
///     fn decode_value(bytes: &[u8]) -> Result<u64, Malformed> {
///         Ok(u64::from_be_bytes(bytes.try_into()?))
///     }
/// }
/// assert_eq!(Words::decode_value(&Words::encode_value(&7)), Ok(7));
/// assert!(Words::decode_value(b"short").is_err());
/// ```
pub trait Schema: Send + Sync + 'static {
    /// What is asked for.
    type Key: Send + Sync + 'static;
    /// A short name of a key, unique in a call.
    type Id: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static;
    /// The answer.
    type Value: Send + 'static;
    /// The messages on the wire: [`StandardWire`](crate::StandardWire), or those of a protocol of its own.
    type Wire: Wire;

    /// The name of the schema, with a version. A service with another sharding function has another name.
    const NAME: &'static str;

    /// The place of a key among all keys. Servers divide these numbers into ranges.
    ///
    /// The function is a part of the schema: after a change of it, clients and servers of two releases
    /// only misdirect each other.
    fn sharding_key(key: &Self::Key) -> u64;

    /// The short name of a key.
    fn id(key: &Self::Key) -> Self::Id;

    /// A key as bytes.
    fn encode_key(key: &Self::Key) -> Bytes;

    /// The key of these bytes.
    ///
    /// # Errors
    /// The bytes are no key.
    fn decode_key(bytes: &[u8]) -> Result<Self::Key, Malformed>;

    /// A value as bytes.
    fn encode_value(value: &Self::Value) -> Bytes;

    /// The value of these bytes.
    ///
    /// # Errors
    /// The bytes are no value.
    fn decode_value(bytes: &[u8]) -> Result<Self::Value, Malformed>;
}

/// Bytes that can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(String);

impl Malformed {
    /// With the reason, for people.
    #[must_use]
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Any error is a reason, so that `?` works in a schema. So `Malformed` itself is no `Error`.
impl<E: std::error::Error> From<E> for Malformed {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}
