//! Messages on the wire.
//!
//! The messages are plain data here. A [`Wire`] turns them into bytes. So a service can keep a protocol of
//! its own, and no type of a gRPC library is in this interface.

use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;

use crate::proto;
use crate::{Malformed, ShardInfo, ShardRange, State};

/// The place of an event in the feed of a partition: [`Ack::position`] and the owner's partition.
///
/// [`Ack::position`]: https://docs.rs/storage-sdk
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Place {
    /// The partition.
    pub partition: u32,
    /// The epoch of the event.
    pub epoch: u64,
    /// The number of the event in its partition.
    pub number: u64,
}

impl Place {
    /// The place of an event.
    #[must_use]
    pub fn new(partition: u32, epoch: u64, number: u64) -> Self {
        Self {
            partition,
            epoch,
            number,
        }
    }
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct GetRequest {
    /// The name of the schema.
    pub schema: String,
    /// The encoded keys. Without a key the request asks for the shard alone.
    pub keys: Vec<Bytes>,
    /// How old the answer may be. None: any age. It has whole milliseconds on the wire, rounded up.
    pub max_age: Option<Duration>,
    /// Events that the answer must reflect.
    pub after: Vec<Place>,
    /// 1 for the first request of a call, 2 and more for its retries and hedges.
    pub attempt: u32,
}

impl GetRequest {
    /// A request for the shard alone.
    #[must_use]
    pub fn new(schema: impl Into<String>) -> Self {
        Self {
            schema: schema.into(),
            attempt: 1,
            ..Self::default()
        }
    }
}

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GetReply {
    /// What the server holds.
    pub shard: ShardInfo,
    /// One answer for each key, in the order of the keys. None: not every key lies in the range of the
    /// shard.
    pub answers: Option<Vec<KeyAnswer>>,
}

impl GetReply {
    /// A reply of a server.
    #[must_use]
    pub fn new(shard: ShardInfo, answers: Option<Vec<KeyAnswer>>) -> Self {
        Self { shard, answers }
    }
}

/// The answer to one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyAnswer {
    /// The encoded value.
    Value(Bytes),
    /// The key failed.
    Failed(KeyFailure),
}

/// The failure of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyFailure {
    /// What a caller can do.
    pub kind: FailureKind,
    /// For people.
    pub message: String,
}

impl KeyFailure {
    /// A failure.
    #[must_use]
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}

/// What a caller can do about a failed key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// The server can't answer now. Another one may.
    Unavailable,
    /// The time of the call was up.
    Late,
    /// No server can answer.
    Invalid,
    /// The service failed by a fault of its code.
    Panic,
    /// The reply was full. The key can be asked for again, alone.
    Full,
}

/// A method of gRPC and its messages.
///
/// [`StandardWire`] is the usual one. A service with a protocol of its own names its method and turns
/// the messages into its bytes. Its messages must be able to tell what [`GetReply`] tells.
pub trait Wire: Send + Sync + 'static {
    /// The full name of the service, such as `shard_read.v1.ShardRead`.
    const SERVICE: &'static str;
    /// The name of the method.
    const METHOD: &'static str;
    /// The compiled descriptors of the service, for reflection. Empty: the service does not tell of itself.
    const DESCRIPTORS: &'static [u8] = &[];

    /// A request as bytes.
    fn encode_request(request: &GetRequest) -> Bytes;

    /// The request of these bytes.
    ///
    /// # Errors
    /// The bytes are no request.
    fn decode_request(bytes: Bytes) -> Result<GetRequest, Malformed>;

    /// A reply as bytes.
    fn encode_reply(reply: &GetReply) -> Bytes;

    /// The reply of these bytes.
    ///
    /// # Errors
    /// The bytes are no reply.
    fn decode_reply(bytes: Bytes) -> Result<GetReply, Malformed>;
}

/// The messages of `proto/shard_read.proto`.
#[derive(Debug, Clone, Copy)]
pub struct StandardWire;

impl Wire for StandardWire {
    const SERVICE: &'static str = "shard_read.v1.ShardRead";
    const METHOD: &'static str = "Get";
    const DESCRIPTORS: &'static [u8] = proto::DESCRIPTORS;

    fn encode_request(request: &GetRequest) -> Bytes {
        let message = proto::GetRequest {
            schema: request.schema.clone(),
            keys: request.keys.clone(),
            max_age_ms: request.max_age.map_or(0, max_age_ms),
            after: request.after.iter().map(place_message).collect(),
            attempt: request.attempt,
        };
        message.encode_to_vec().into()
    }

    fn decode_request(bytes: Bytes) -> Result<GetRequest, Malformed> {
        let message = proto::GetRequest::decode(bytes)?;
        let max_age = Duration::from_millis(message.max_age_ms.into());
        Ok(GetRequest {
            schema: message.schema,
            keys: message.keys,
            max_age: (!max_age.is_zero()).then_some(max_age),
            after: message.after.iter().map(place_of).collect(),
            attempt: message.attempt,
        })
    }

    fn encode_reply(reply: &GetReply) -> Bytes {
        let answers = reply.answers.as_deref();
        let message = proto::GetReply {
            shard: Some(shard_message(&reply.shard)),
            all_matched: answers.is_some(),
            entries: answers
                .unwrap_or_default()
                .iter()
                .map(entry_message)
                .collect(),
        };
        message.encode_to_vec().into()
    }

    fn decode_reply(bytes: Bytes) -> Result<GetReply, Malformed> {
        let message = proto::GetReply::decode(bytes)?;
        let shard = message
            .shard
            .ok_or_else(|| Malformed::new("the reply has no shard"))?;
        Ok(GetReply {
            shard: shard_of(shard)?,
            answers: message
                .all_matched
                .then(|| message.entries.into_iter().map(answer_of).collect()),
        })
    }
}

/// Rounded up, so that a caller is never given an older answer than it asked for by 0, which means any age.
fn max_age_ms(age: Duration) -> u32 {
    let whole = age.as_nanos().div_ceil(1_000_000).max(1);
    u32::try_from(whole).unwrap_or(u32::MAX)
}

fn place_message(place: &Place) -> proto::Place {
    proto::Place {
        partition: place.partition,
        epoch: place.epoch,
        number: place.number,
    }
}

fn place_of(place: &proto::Place) -> Place {
    Place::new(place.partition, place.epoch, place.number)
}

fn shard_message(shard: &ShardInfo) -> proto::Shard {
    let state = match shard.state {
        State::Standby => proto::State::Standby,
        State::Loading => proto::State::Loading,
        State::Serving => proto::State::Serving,
        State::Draining => proto::State::Draining,
    };
    proto::Shard {
        range: shard.range.map(|range| proto::Range {
            begin: range.begin(),
            end: range.end().unwrap_or_default(),
        }),
        state: state.into(),
        dc: shard.dc.clone(),
        age_ms: shard.age.map(age_ms),
        plan: shard.plan,
    }
}

/// Rounded up, so that an answer never looks younger than it is.
fn age_ms(age: Duration) -> u64 {
    u64::try_from(age.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

fn shard_of(shard: proto::Shard) -> Result<ShardInfo, Malformed> {
    let range = match shard.range {
        None => None,
        Some(range) => {
            let end = Some(range.end).filter(|end| *end != 0);
            let range = ShardRange::new(range.begin, end)
                .ok_or_else(|| Malformed::new("the range of the shard is empty"))?;
            Some(range)
        }
    };
    let state = match proto::State::try_from(shard.state) {
        Ok(proto::State::Loading) => State::Loading,
        Ok(proto::State::Serving) => State::Serving,
        Ok(proto::State::Draining) => State::Draining,
        // A state of a newer release gets no keys.
        Ok(proto::State::Standby | proto::State::Unknown) | Err(_) => State::Standby,
    };
    Ok(ShardInfo {
        range,
        state,
        dc: shard.dc,
        age: shard.age_ms.map(Duration::from_millis),
        plan: shard.plan,
    })
}

fn entry_message(answer: &KeyAnswer) -> proto::Entry {
    let result = match answer {
        KeyAnswer::Value(value) => proto::entry::Result::Value(value.clone()),
        KeyAnswer::Failed(failure) => {
            let kind = match failure.kind {
                FailureKind::Unavailable => proto::failure::Kind::Unavailable,
                FailureKind::Late => proto::failure::Kind::Late,
                FailureKind::Invalid => proto::failure::Kind::Invalid,
                FailureKind::Panic => proto::failure::Kind::Panic,
                FailureKind::Full => proto::failure::Kind::Full,
            };
            proto::entry::Result::Failure(proto::Failure {
                kind: kind.into(),
                message: failure.message.clone(),
            })
        }
    };
    proto::Entry {
        result: Some(result),
    }
}

fn answer_of(entry: proto::Entry) -> KeyAnswer {
    match entry.result {
        Some(proto::entry::Result::Value(value)) => KeyAnswer::Value(value),
        Some(proto::entry::Result::Failure(failure)) => KeyAnswer::Failed(failure_of(failure)),
        None => KeyAnswer::Failed(KeyFailure::new(
            FailureKind::Unavailable,
            "the reply has an entry of an unknown kind",
        )),
    }
}

fn failure_of(failure: proto::Failure) -> KeyFailure {
    let kind = match proto::failure::Kind::try_from(failure.kind) {
        Ok(proto::failure::Kind::Late) => FailureKind::Late,
        Ok(proto::failure::Kind::Invalid) => FailureKind::Invalid,
        Ok(proto::failure::Kind::Panic) => FailureKind::Panic,
        Ok(proto::failure::Kind::Full) => FailureKind::Full,
        Ok(proto::failure::Kind::Unavailable | proto::failure::Kind::Unknown) | Err(_) => {
            FailureKind::Unavailable
        }
    };
    KeyFailure::new(kind, failure.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_the_same_behind_the_wire() {
        let request = GetRequest {
            keys: vec![Bytes::from_static(b"a"), Bytes::new()],
            max_age: Some(Duration::from_millis(20)),
            after: vec![Place::new(3, 2, u64::MAX)],
            attempt: 2,
            ..GetRequest::new("words-1")
        };
        let there = StandardWire::decode_request(StandardWire::encode_request(&request));
        assert_eq!(there, Ok(request));
    }

    #[test]
    fn a_reply_is_the_same_behind_the_wire() {
        let range = ShardRange::new(7, None).unwrap();
        let shard = ShardInfo::holding("a", State::Draining, range, 2);
        let failures = [
            FailureKind::Unavailable,
            FailureKind::Late,
            FailureKind::Invalid,
            FailureKind::Panic,
            FailureKind::Full,
        ];
        let mut answers = vec![KeyAnswer::Value(Bytes::from_static(b"1"))];
        answers.extend(failures.map(|kind| KeyAnswer::Failed(KeyFailure::new(kind, "why"))));
        let replies = [
            GetReply::new(shard.aged(Some(Duration::from_millis(5))), Some(answers)),
            GetReply::new(ShardInfo::standby("b"), None),
            GetReply::new(ShardInfo::standby("b"), Some(Vec::new())),
        ];
        for reply in replies {
            let there = StandardWire::decode_reply(StandardWire::encode_reply(&reply));
            assert_eq!(there, Ok(reply));
        }
    }

    #[test]
    fn an_age_is_never_told_too_small_and_an_asked_age_is_never_any_age() {
        assert_eq!(age_ms(Duration::from_micros(1_001)), 2);
        assert_eq!(max_age_ms(Duration::from_nanos(1)), 1);
        assert_eq!(max_age_ms(Duration::ZERO), 1);
        assert_eq!(max_age_ms(Duration::MAX), u32::MAX);
    }

    #[test]
    fn a_reply_that_no_server_of_ours_makes_is_an_error_or_of_a_server_without_keys() {
        assert!(StandardWire::decode_reply(Bytes::from_static(b"\xff\xff")).is_err());
        assert!(
            StandardWire::decode_reply(Bytes::new()).is_err(),
            "no shard"
        );
        let shard = |range, state| {
            let shard = proto::Shard {
                range: Some(range),
                state,
                ..proto::Shard::default()
            };
            shard_of(shard)
        };
        assert!(shard(proto::Range { begin: 5, end: 5 }, 3).is_err());
        let newer = shard(proto::Range { begin: 5, end: 9 }, 99).unwrap();
        assert!(!newer.answers(6));
    }
}
