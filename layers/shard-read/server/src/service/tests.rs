//! One request, with a service that waits where a test wants it.

use async_trait::async_trait;
use bytes::Bytes;
use storage_shard_read::{Malformed, ShardRange, StandardWire, State};

use super::*;
use crate::moment::Moment;
use crate::{LoadError, Shard};

/// A key is its own sharding key, and its value is the double.
struct Doubles;

impl Schema for Doubles {
    type Key = u64;
    type Id = u64;
    type Value = u64;
    type Wire = StandardWire;
    const NAME: &'static str = "doubles-1";

    fn sharding_key(key: &u64) -> u64 {
        *key
    }

    fn id(key: &u64) -> u64 {
        *key
    }

    fn encode_key(key: &u64) -> Bytes {
        Bytes::copy_from_slice(&key.to_be_bytes())
    }

    fn decode_key(bytes: &[u8]) -> Result<u64, Malformed> {
        Ok(u64::from_be_bytes(bytes.try_into()?))
    }

    fn encode_value(value: &u64) -> Bytes {
        Bytes::copy_from_slice(&value.to_be_bytes())
    }

    fn decode_value(bytes: &[u8]) -> Result<u64, Malformed> {
        Ok(u64::from_be_bytes(bytes.try_into()?))
    }
}

/// What happens while the values are read.
#[derive(Debug)]
enum Meanwhile {
    Nothing,
    /// The server leaves its range, and holds it again.
    Moves,
    /// The service has followed its source up to this second.
    Follows(u64),
    /// The read never ends.
    Hangs,
}

struct Doubling {
    meanwhile: Meanwhile,
    tenure: watch::Sender<Tenure>,
    fresh_at: watch::Sender<Moment>,
}

#[async_trait]
impl Shard<Doubles> for Doubling {
    async fn load(&self, _range: ShardRange) -> Result<(), LoadError> {
        Ok(())
    }

    async fn get(&self, _call: &Call, keys: &[u64]) -> Vec<KeyOutcome<u64>> {
        match self.meanwhile {
            Meanwhile::Nothing => {}
            Meanwhile::Moves => {
                self.tenure.send_replace(serving(2));
            }
            Meanwhile::Follows(second) => {
                self.fresh_at.send_replace(at(second));
            }
            Meanwhile::Hangs => std::future::pending().await,
        }
        keys.iter().map(|key| Ok(key * 2)).collect()
    }

    async fn unload(&self, _range: ShardRange) {}

    fn fresh_at(&self) -> Option<Moment> {
        Some(*self.fresh_at.borrow())
    }
}

fn at(second: u64) -> Moment {
    Moment::at(Duration::from_secs(second))
}

/// The keys below 100 are served.
fn serving(number: u64) -> Tenure {
    let range = ShardRange::new(0, Some(100)).unwrap();
    Tenure::loading(number, "a", range, 1).turned(State::Serving)
}

/// It is the second 10.
#[derive(Debug)]
struct StoppedClock;

impl MomentClock for StoppedClock {
    fn now(&self) -> Moment {
        at(10)
    }
}

fn service(meanwhile: Meanwhile) -> Service<Doubles> {
    let (tenure, watched) = watch::channel(serving(1));
    let shard = Doubling {
        meanwhile,
        tenure,
        fresh_at: watch::Sender::new(at(4)),
    };
    let limits = ServiceLimits {
        keys_per_call: 100,
        keys_under_way: 100,
        reply_bytes: 1 << 20,
        call: Duration::from_secs(60),
    };
    Service::new(
        Arc::new(shard),
        watched,
        Arc::new(StoppedClock),
        limits,
        Arc::default(),
    )
}

fn request(keys: impl IntoIterator<Item = u64>) -> GetRequest {
    let mut request = GetRequest::new(Doubles::NAME);
    request.keys = keys
        .into_iter()
        .map(|key| Doubles::encode_key(&key))
        .collect();
    request
}

/// V1.
#[tokio::test]
async fn a_request_with_one_key_of_another_range_gets_no_value() {
    let service = service(Meanwhile::Nothing);
    let inside = service.get(request(0..100), None).await.unwrap();
    assert_eq!(inside.answers.map(|answers| answers.len()), Some(100));
    let one_outside = service.get(request(1..=100), None).await;
    assert_eq!(one_outside.unwrap().answers, None);
}

/// V1.
#[tokio::test]
async fn values_that_were_read_while_the_range_moved_are_no_answer() {
    let service = service(Meanwhile::Moves);
    let reply = service.get(request(0..3), None).await.unwrap();
    assert_eq!(reply.answers, None);
    assert_eq!(
        reply.shard.state,
        State::Serving,
        "it holds the range again"
    );
}

/// V6.
#[tokio::test]
async fn the_age_of_an_answer_is_that_of_before_its_values_were_read() {
    let service = service(Meanwhile::Follows(9));
    let reply = service.get(request(0..3), None).await.unwrap();
    assert_eq!(reply.shard.age, Some(Duration::from_secs(6)));
}

/// V11.
#[tokio::test(start_paused = true)]
async fn a_request_ends_with_the_time_that_its_caller_gives() {
    let service = service(Meanwhile::Hangs);
    let begun = Instant::now();
    let within = Duration::from_millis(50);
    let late = service.get(request(0..3), Some(within)).await;
    assert_eq!(late, Err(Refusal::Late));
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "by simulated time"
    );
}
