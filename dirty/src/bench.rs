//! The parts of this crate's interior that the micro-benchmarks call. They are no part of its
//! interface.

use storage_model::{Field, Owner, Partition};

use crate::{Mark, key, mark};

/// Makes the keys of one prefix.
#[derive(Debug)]
pub struct Keys(key::Keys);

impl Keys {
    /// Keys under this prefix.
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        Self(key::Keys::new(prefix))
    }

    /// The key of an owner's hash.
    #[must_use]
    pub fn data(&self, partition: Partition, owner: &Owner) -> String {
        self.0.data(partition, owner)
    }

    /// The keys of a write.
    #[must_use]
    pub fn of_write(&self, partition: Partition, owner: &Owner) -> ([String; 4], [String; 2]) {
        let keys = &self.0;
        let shared = [
            keys.dirty(partition),
            keys.part(partition),
            keys.ops(partition, 0),
            keys.ops(partition, 1),
        ];
        let own = keys.of_write(partition, &key::owner_part(owner));
        (shared, own)
    }
}

/// A mark as it is stored: its name, and its fields.
#[must_use]
pub fn encode_mark(owner: &Owner, fields: &[Field]) -> (String, String) {
    (key::owner_part(owner), mark::fields_text(fields))
}

/// The mark of a name and fields.
#[must_use]
pub fn decode_mark(name: &[u8], fields: &[u8]) -> Option<Mark> {
    mark::decode(name, fields)
}
