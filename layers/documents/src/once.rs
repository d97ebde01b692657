//! Calls that are carried out once, however often they are sent.
//!
//! A call with a key leaves an entry beside the change, in the same step. So a repeat finds the entry
//! if and only if the change was made, even after Redis was lost or the process has ended.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use storage_sdk::{Bytes, Timestamp};

use crate::{Error, Kind, Result};

/// The most calls that a document or an item remembers. The oldest is forgotten first.
pub const REMEMBERED_MAX: usize = 16;
/// The most calls that a collection remembers.
pub const REMEMBERED_BY_COLLECTIONS_MAX: usize = 64;
/// How long a call is remembered.
pub const REMEMBERED_FOR: Duration = Duration::from_hours(24);
/// The most bytes of a key.
pub const KEY_BYTES_MAX: usize = 255;

/// The key of a call, and what the call asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Once {
    key: String,
    request: String,
}

impl Once {
    /// A key of the caller's choice, and all that the request asks for: method, path and body. The
    /// same key with another request is an error.
    ///
    /// # Errors
    /// `Key`: the key is empty or longer than 255 bytes.
    pub fn new(key: &str, request: &[&[u8]]) -> Result<Self> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            let message = format!(
                "the idempotency key has {} bytes; send 1 to {KEY_BYTES_MAX}",
                key.len()
            );
            return Err(Error::new(Kind::Key, message));
        }
        Ok(Self {
            key: digest(&[key.as_bytes()]),
            request: digest(request),
        })
    }
}

/// The first half of SHA-256 over parts, each behind its length.
fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    let hash = hash.finalize();
    let half = hash.iter().take(16);
    half.map(|byte| format!("{byte:02x}")).collect()
}

/// A call that was carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Done {
    /// The digest of the key, and that of the request.
    k: String,
    q: String,
    /// When it was carried out: milliseconds since 1970.
    t: u64,
    /// Whether it created the document.
    pub(crate) c: bool,
    /// The revision that it made, if that was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) r: Option<u64>,
    /// The id that it gave to an item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) i: Option<String>,
}

/// The calls that an owner remembers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Repeats(Vec<Done>);

impl Repeats {
    /// The calls in the value of a field.
    pub(crate) fn of(value: Option<&Bytes>) -> Result<Self> {
        let Some(value) = value else {
            return Ok(Self::default());
        };
        let calls = serde_json::from_slice(value);
        let calls = calls.map_err(|error| Error::new(Kind::Corrupt, error.to_string()))?;
        Ok(Self(calls))
    }

    /// The earlier call of this key, if there is one.
    ///
    /// # Errors
    /// `KeyReused`: the earlier call asked for something else.
    pub(crate) fn find(&self, once: &Once, now: Timestamp) -> Result<Option<&Done>> {
        let is_same = |done: &&Done| done.k == once.key && !done.is_old(now);
        let Some(done) = self.0.iter().find(is_same) else {
            return Ok(None);
        };
        if done.q == once.request {
            return Ok(Some(done));
        }
        let message = "the idempotency key was used for another request; choose a new key";
        Err(Error::new(Kind::KeyReused, message))
    }

    /// The value of the field with one more call.
    pub(crate) fn with(
        &self,
        once: &Once,
        now: Timestamp,
        created: bool,
        (revision, id): (Option<u64>, Option<&str>),
        most: usize,
    ) -> Result<Vec<u8>> {
        let mut calls: Vec<&Done> = self.0.iter().filter(|done| !done.is_old(now)).collect();
        let old = calls.len().saturating_sub(most.saturating_sub(1));
        calls.drain(..old);
        let done = Done {
            k: once.key.clone(),
            q: once.request.clone(),
            t: now.0 / 1_000,
            c: created,
            r: revision,
            i: id.map(ToOwned::to_owned),
        };
        calls.push(&done);
        serde_json::to_vec(&calls).map_err(|error| Error::new(Kind::Corrupt, error.to_string()))
    }
}

impl Done {
    fn is_old(&self, now: Timestamp) -> bool {
        let done = Timestamp(self.t.saturating_mul(1_000));
        now.since(done) > REMEMBERED_FOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn once(key: &str, request: &str) -> Once {
        Once::new(key, &[request.as_bytes()]).unwrap()
    }

    #[test]
    fn a_call_is_remembered_for_a_day_and_its_key_serves_no_other() {
        let (now, hour) = (Timestamp(1_700_000_000_000_000), Duration::from_hours(1));
        let value = Repeats::default().with(&once("a", "put"), now, true, (Some(3), None), 16);
        let calls = Repeats::of(Some(&Bytes::from(value.unwrap()))).unwrap();
        let found = calls.find(&once("a", "put"), now.plus(hour * 23)).unwrap();
        assert_eq!(found.and_then(|done| done.r), Some(3));
        assert_eq!(calls.find(&once("b", "put"), now), Ok(None));
        assert_eq!(calls.find(&once("a", "put"), now.plus(hour * 25)), Ok(None));
        let reused = calls.find(&once("a", "delete"), now).unwrap_err();
        assert_eq!(reused.kind(), &Kind::KeyReused);
    }

    #[test]
    fn an_owner_remembers_its_last_calls() {
        let (now, mut calls) = (Timestamp(1_700_000_000_000_000), Repeats::default());
        for number in 0..=REMEMBERED_MAX {
            let value = calls.with(
                &once(&number.to_string(), ""),
                now,
                false,
                (None, None),
                REMEMBERED_MAX,
            );
            calls = Repeats::of(Some(&Bytes::from(value.unwrap()))).unwrap();
        }
        let is_known = |number: usize| calls.find(&once(&number.to_string(), ""), now).unwrap();
        assert!(is_known(0).is_none() && is_known(1).is_some());
        assert!(is_known(REMEMBERED_MAX).is_some());
    }
}
