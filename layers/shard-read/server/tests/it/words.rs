//! A service that knows the length of each word.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use shard_read_server::{Call, KeyOutcome, LoadError, Moment, Shard, Unreachable};
use storage_shard_read::{
    FailureKind, KeyFailure, Malformed, Place, Schema, ShardRange, StandardWire,
};
use tokio::sync::{Notify, watch};

/// A key is a word, and its value is `server: length`.
#[derive(Debug)]
pub(crate) struct Words;

impl Schema for Words {
    type Key = String;
    type Id = String;
    type Value = String;
    type Wire = StandardWire;
    const NAME: &'static str = "words-1";

    fn sharding_key(key: &String) -> u64 {
        xxhash_rust::xxh3::xxh3_64(key.as_bytes())
    }

    fn id(key: &String) -> String {
        key.clone()
    }

    fn encode_key(key: &String) -> Bytes {
        key.clone().into()
    }

    fn decode_key(bytes: &[u8]) -> Result<String, Malformed> {
        Ok(std::str::from_utf8(bytes)?.to_owned())
    }

    fn encode_value(value: &String) -> Bytes {
        value.clone().into()
    }

    fn decode_value(bytes: &[u8]) -> Result<String, Malformed> {
        Ok(std::str::from_utf8(bytes)?.to_owned())
    }
}

/// What a test makes a server do.
#[derive(Debug, Default)]
pub(crate) struct Knobs {
    /// Loads wait for a word.
    pub(crate) loads_wait: AtomicBool,
    pub(crate) may_load: Notify,
    /// So many loads fail.
    pub(crate) failing_loads: AtomicUsize,
    /// Answers wait while it is true.
    pub(crate) waits: watch::Sender<bool>,
    pub(crate) fresh_at: watch::Sender<Option<Moment>>,
    pub(crate) answered: AtomicUsize,
    pub(crate) unloaded: AtomicUsize,
    /// The greatest number of an event that the values reflect.
    pub(crate) reached: watch::Sender<u64>,
}

/// The words of a range.
#[derive(Debug)]
pub(crate) struct Lengths {
    pub(crate) name: String,
    pub(crate) knobs: Arc<Knobs>,
    pub(crate) range: watch::Sender<Option<ShardRange>>,
}

#[async_trait]
impl Shard<Words> for Lengths {
    async fn load(&self, range: ShardRange) -> Result<(), LoadError> {
        if self.knobs.loads_wait.load(Ordering::SeqCst) {
            self.knobs.may_load.notified().await;
        }
        let fails = |left: usize| left.checked_sub(1);
        let order = (Ordering::SeqCst, Ordering::SeqCst);
        if self
            .knobs
            .failing_loads
            .fetch_update(order.0, order.1, fails)
            .is_ok()
        {
            return Err(LoadError::new("the disk is full"));
        }
        assert_eq!(
            self.range.send_replace(Some(range)),
            None,
            "the last range was unloaded"
        );
        Ok(())
    }

    async fn get(&self, _call: &Call, keys: &[String]) -> Vec<KeyOutcome<String>> {
        if keys.iter().any(|key| key != "now") {
            let mut waits = self.knobs.waits.subscribe();
            let _ = waits.wait_for(|waits| !waits).await;
        }
        self.knobs.answered.fetch_add(keys.len(), Ordering::SeqCst);
        let range = *self.range.borrow();
        let answer = |key: &String| {
            assert!(key != "panic", "a word that panics");
            let is_of_range = |range: ShardRange| range.contains(Words::sharding_key(key));
            assert!(range.is_some_and(is_of_range), "{key} is of another range");
            match key.as_str() {
                "unknown" => Err(KeyFailure::new(FailureKind::Invalid, "nobody knows it")),
                long if long.starts_with("long") => Ok("x".repeat(1 << 20)),
                _ => Ok(format!("{}: {}", self.name, key.len())),
            }
        };
        keys.iter().map(answer).collect()
    }

    async fn unload(&self, _range: ShardRange) {
        self.range.send_replace(None);
        self.knobs.unloaded.fetch_add(1, Ordering::SeqCst);
    }

    fn fresh_at(&self) -> Option<Moment> {
        *self.knobs.fresh_at.borrow()
    }

    async fn reach(&self, places: &[Place]) -> Result<(), Unreachable> {
        for place in places {
            let mut reached = self.knobs.reached.subscribe();
            let is_there = |reached: &u64| *reached >= place.number;
            reached
                .wait_for(is_there)
                .await
                .map_err(|_| Unreachable::new("it ends"))?;
        }
        Ok(())
    }
}

/// So many different words.
pub(crate) fn words(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("word-{number}")).collect()
}

/// The first word of a range.
pub(crate) fn word_of(range: ShardRange) -> String {
    let mut words = (0..).map(|number: u32| format!("word-{number}"));
    words
        .find(|word| range.contains(Words::sharding_key(word)))
        .unwrap_or_default()
}
