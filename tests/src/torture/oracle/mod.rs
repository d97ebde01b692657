//! The oracle: the conditions on a history and on the stored data after it.
//!
//! | module | checks |
//! | --- | --- |
//! | [`cell`] | all possible states of one field |
//! | [`field`] | V2, V6, V7, V9: fields with one writer, over time and in the end |
//! | [`versions`] | V1, V4: versions follow time, and no reader sees an owner go back |
//! | [`counter`] | V3: counters with many writers |
//! | [`chain`] | compare-and-set by many writers: no link is lost |
//! | [`balance`] | V10: the rows of an owner are a state that it had |
//! | [`judge`](mod@judge) | all of them over a whole run |

pub mod balance;
pub mod cell;
pub mod chain;
pub mod counter;
pub mod field;
pub mod judge;
pub mod versions;

#[cfg(test)]
mod corpus;

use std::collections::BTreeMap;

use serde::Serialize;

use super::moment::Micros;
use crate::StoredRow;

pub use judge::{Finals, Judgement, judge};

/// A violation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Flaw {
    /// The check that found it.
    pub check: &'static str,
    /// Its place: an owner, or one of its fields.
    pub name: String,
    /// The result that was found, and the one that is right.
    pub detail: String,
    /// The end of the operations that explain it best. The end of the run, if that is not known.
    #[serde(skip)]
    pub at: Micros,
    /// The operations at its place.
    pub history: Vec<String>,
}

impl Flaw {
    /// A flaw whose history is added later.
    #[must_use]
    pub fn new(check: &'static str, name: &str, detail: impl Into<String>) -> Self {
        Self {
            check,
            name: name.to_owned(),
            detail: detail.into(),
            at: Micros::MAX,
            history: Vec::new(),
        }
    }

    /// This flaw, at this moment.
    #[must_use]
    pub fn at(self, at: Micros) -> Self {
        Self { at, ..self }
    }
}

/// A hot tier that came back older. Its unlanded data may be gone.
#[derive(Debug, Clone, Default)]
pub struct Rewind {
    /// The time at which it went down.
    pub down: Micros,
    /// The time at which it was up again.
    pub up: Micros,
    /// The rows that had landed while it was down, by `logic_type/owner_id/field`.
    pub rows: BTreeMap<String, StoredRow>,
}

/// The era of a moment. None while the hot tier was away.
fn era_of(rewinds: &[Rewind], begun: Micros, ended: Micros) -> Option<usize> {
    let era = rewinds.iter().filter(|rewind| rewind.up <= begun).count();
    let ends_in_time = rewinds.get(era).is_none_or(|next| ended < next.down);
    ends_in_time.then_some(era)
}
