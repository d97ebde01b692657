//! The oracle: what must be true of a history and of what is stored after it.
//!
//! | module | checks |
//! | --- | --- |
//! | [`cell`] | all the states that one field may be in |
//! | [`field`] | V2, V6, V7, V9: fields with one writer, over time and in the end |
//! | [`versions`] | V1, V4: versions follow time, and no reader sees an owner go back |
//! | [`counter`] | V3: counters that many write |
//! | [`chain`] | compare-and-set by many writers: no link is lost |
//! | [`judge`](mod@judge) | all of them over a whole run |

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

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Flaw {
    /// Which check found it.
    pub check: &'static str,
    /// Where: an owner, or one of its fields.
    pub name: String,
    /// What was found, and what should have been.
    pub detail: String,
    /// Until when what was done there says most of it; the end, if that is not known.
    #[serde(skip)]
    pub at: Micros,
    /// What was done there.
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

    /// This flaw, of this moment.
    #[must_use]
    pub fn at(self, at: Micros) -> Self {
        Self { at, ..self }
    }
}

/// A hot tier that came back older: what it had not landed may be gone.
#[derive(Debug, Clone, Default)]
pub struct Rewind {
    /// When it went down.
    pub down: Micros,
    /// When it was up again.
    pub up: Micros,
    /// What had landed while it was down, by `logic_type/owner_id/field`.
    pub rows: BTreeMap<String, StoredRow>,
}

/// In which era a moment lies; none if it is while the hot tier was away.
fn era_of(rewinds: &[Rewind], begun: Micros, ended: Micros) -> Option<usize> {
    let era = rewinds.iter().filter(|rewind| rewind.up <= begun).count();
    let ends_in_time = rewinds.get(era).is_none_or(|next| ended < next.down);
    ends_in_time.then_some(era)
}
