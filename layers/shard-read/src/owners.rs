//! The schema of the ready-made service of owners: whole owners of a storage, as they have landed.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message as _;
use storage_sdk::Owner;

use crate::{Malformed, Schema, StandardWire, proto};

/// Owners of a storage. The key is the owner, and the value has its live fields.
///
/// The sharding key is [`Owner::placement`] with its bits reversed. With a power of two of partitions, a range
/// covers whole partitions or a part of one, so that a server follows only those.
#[derive(Debug, Clone, Copy)]
pub struct Owners;

/// The live fields of an owner as it has landed. Cheap to clone: it has the bytes of the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandedOwner(Bytes);

impl LandedOwner {
    /// An owner with a version and these live fields, sorted by their names.
    #[must_use]
    pub fn new(version: u64, fields: impl IntoIterator<Item = (String, Bytes)>) -> Self {
        let fields = fields.into_iter();
        let message = proto::LandedOwner {
            version,
            fields: fields
                .map(|(name, value)| proto::OwnerField { name, value })
                .collect(),
        };
        Self(message.encode_to_vec().into())
    }

    fn read(&self) -> proto::LandedOwner {
        // The bytes were checked.
        proto::LandedOwner::decode(self.0.clone()).unwrap_or_default()
    }

    /// The greatest version of its rows.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.read().version
    }

    /// The live fields. They are read from the bytes in each call.
    #[must_use]
    pub fn fields(&self) -> BTreeMap<String, Bytes> {
        let fields = self.read().fields.into_iter();
        fields.map(|field| (field.name, field.value)).collect()
    }

    /// The number of bytes that it has.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.len()
    }
}

impl Schema for Owners {
    type Key = Owner;
    type Id = Owner;
    /// None: the owner has no row.
    type Value = Option<LandedOwner>;
    type Wire = StandardWire;
    const NAME: &'static str = "storage-owners-1";

    fn sharding_key(key: &Owner) -> u64 {
        key.placement().reverse_bits()
    }

    fn id(key: &Owner) -> Owner {
        key.clone()
    }

    /// The four names with a NUL between them, which no name holds.
    fn encode_key(key: &Owner) -> Bytes {
        [key.app(), key.region(), key.logic_type(), key.id()]
            .join("\0")
            .into()
    }

    fn decode_key(bytes: &[u8]) -> Result<Owner, Malformed> {
        let text = std::str::from_utf8(bytes)?;
        let names: Vec<&str> = text.split('\0').collect();
        match *names {
            [app, region, logic_type, id] => Ok(Owner::new(app, region, logic_type, id)?),
            _ => Err(Malformed::new(
                "an owner is four names with a NUL between them",
            )),
        }
    }

    fn encode_value(value: &Option<LandedOwner>) -> Bytes {
        value
            .as_ref()
            .map(|owner| owner.0.clone())
            .unwrap_or_default()
    }

    fn decode_value(bytes: &[u8]) -> Result<Option<LandedOwner>, Malformed> {
        if bytes.is_empty() {
            return Ok(None);
        }
        proto::LandedOwner::decode(bytes)?;
        Ok(Some(LandedOwner(Bytes::copy_from_slice(bytes))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ann() -> Owner {
        Owner::new("game", "eu", "player", "ann").unwrap()
    }

    #[test]
    fn keys_and_values_are_the_same_behind_the_wire() {
        assert_eq!(Owners::decode_key(&Owners::encode_key(&ann())), Ok(ann()));
        let fields = [("gold", &b"7"[..]), ("name", b"\xff")];
        let fields = fields.map(|(name, value)| (name.to_owned(), Bytes::from_static(value)));
        let owner = LandedOwner::new(u64::MAX, fields.clone());
        assert_eq!((owner.version(), owner.fields()), (u64::MAX, fields.into()));
        for value in [None, Some(LandedOwner::new(1, [])), Some(owner)] {
            assert_eq!(
                Owners::decode_value(&Owners::encode_value(&value)),
                Ok(value)
            );
        }
    }

    #[test]
    fn a_key_that_is_no_owner_is_an_error() {
        for bytes in [
            &b"game\0eu\0player"[..],
            b"game\0eu\0player\0a\0b",
            b"\xff",
            b"\0\0\0",
        ] {
            assert!(Owners::decode_key(bytes).is_err(), "{bytes:?}");
        }
    }

    /// Of a change, old and new programs would look for owners at different servers.
    #[test]
    fn sharding_keys_stay_what_they_are() {
        assert_eq!(Owners::sharding_key(&ann()), ann().digest().reverse_bits());
    }
}
