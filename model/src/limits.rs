//! The largest values and calls.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{Change, Field, Mutation};

/// The limits of one call. They are checked before anything is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Limits {
    /// The most bytes of one value. Default: 1 MiB. Never above the capacity of the table and of
    /// the database's packet.
    pub value_bytes_max: usize,
    /// The most fields of one call. Default: 1,000. One script takes at most some 8,000 arguments.
    pub fields_max: usize,
    /// The most bytes of all values of one call. Default: 8 MiB, so that no call blocks the server
    /// for long.
    pub call_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            value_bytes_max: 1 << 20,
            fields_max: 1_000,
            call_bytes_max: 8 << 20,
        }
    }
}

/// A call that exceeds the limits. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// A value is too large.
    #[error(
        "field {field:?} has a value of {bytes} bytes; limits.value_bytes_max is {limit}, so split the value or raise the limit"
    )]
    Value {
        /// The field.
        field: String,
        /// Its value's bytes.
        bytes: usize,
        /// The most bytes.
        limit: usize,
    },
    /// A value is larger than the database accepts. The settings would allow it.
    #[error(
        "field {field:?} has a value of {bytes} bytes; the database accepts {limit}, half of the largest statement \
         (max_allowed_packet of MySQL), so split the value or raise that setting on the server"
    )]
    ValueOfDatabase {
        /// The field.
        field: String,
        /// Its value's bytes.
        bytes: usize,
        /// The most bytes.
        limit: usize,
    },
    /// The body of a note is too large.
    #[error(
        "the note has {bytes} bytes; no more than {limit} fit (limits.value_bytes_max, or the largest value of the database), \
         so shorten the note"
    )]
    Note {
        /// The bytes of the body.
        bytes: usize,
        /// The most bytes.
        limit: usize,
    },
    /// The call names too many fields.
    #[error("the call names {fields} fields; limits.fields_max is {limit}, so split the call")]
    Fields {
        /// How many fields.
        fields: usize,
        /// The most fields.
        limit: usize,
    },
    /// The values of the call are too large together.
    #[error(
        "the call holds {bytes} bytes of values; limits.call_bytes_max is {limit}, so split the call"
    )]
    Call {
        /// The bytes of all values.
        bytes: usize,
        /// The most bytes.
        limit: usize,
    },
    /// The call names no field.
    #[error("the call names no field; name at least one")]
    NoFields,
}

impl LimitError {
    /// Names the source of a value's limit. It is the database if the database accepts less than
    /// the settings allow.
    #[must_use]
    pub fn named_by(self, configured: usize) -> Self {
        match self {
            Self::Value {
                field,
                bytes,
                limit,
            } if limit < configured => Self::ValueOfDatabase {
                field,
                bytes,
                limit,
            },
            other => other,
        }
    }
}

impl Limits {
    /// Checks a mutation.
    ///
    /// # Errors
    /// The mutation names no field or too many fields. Or one value, or all values together, have
    /// too many bytes.
    pub fn check(&self, mutation: &Mutation) -> Result<(), LimitError> {
        let expected: usize = mutation.parts().map(|part| part.expected.len()).sum();
        for part in mutation.parts() {
            self.check_fields(part.changes.len())?;
        }
        self.check_fields(mutation.fields() + expected)?;
        let mut total = 0_usize;
        for part in mutation.parts() {
            total = total.saturating_add(self.check_values(part)?);
        }
        if total > self.call_bytes_max {
            return Err(LimitError::Call {
                bytes: total,
                limit: self.call_bytes_max,
            });
        }
        Ok(())
    }

    /// The bytes of all values of one owner's part.
    fn check_values(&self, part: &Mutation) -> Result<usize, LimitError> {
        let mut total = 0_usize;
        for (field, change) in part.changes.iter() {
            if let Change::Set(value) = change {
                total = total.saturating_add(self.check_value(field, value)?);
            }
        }
        for (field, value) in &part.expected {
            if let Some(value) = value {
                total = total.saturating_add(self.check_value(field, value)?);
            }
        }
        let bytes = part.note.as_ref().map_or(0, Bytes::len);
        if bytes > self.value_bytes_max {
            return Err(LimitError::Note {
                bytes,
                limit: self.value_bytes_max,
            });
        }
        Ok(total.saturating_add(bytes))
    }

    /// The bytes of a value.
    fn check_value(&self, field: &Field, value: &[u8]) -> Result<usize, LimitError> {
        if value.len() > self.value_bytes_max {
            return Err(LimitError::Value {
                field: field.to_string(),
                bytes: value.len(),
                limit: self.value_bytes_max,
            });
        }
        Ok(value.len())
    }

    /// Checks how many fields a call names.
    ///
    /// # Errors
    /// The call names no field, or more than `fields_max`.
    pub fn check_fields(&self, fields: usize) -> Result<(), LimitError> {
        match fields {
            0 => Err(LimitError::NoFields),
            n if n > self.fields_max => Err(LimitError::Fields {
                fields: n,
                limit: self.fields_max,
            }),
            _ => Ok(()),
        }
    }
}
