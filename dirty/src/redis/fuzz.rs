//! Hostile replies. The worst outcome of any reply is an error.

use bytes::Bytes;
use proptest::prelude::*;
use redis::{RedisError, Value};
use storage_model::{Epoch, Field, Partition, Version};

use super::operations::{fill, marks, observe, partition, read, reject};
use super::{reply, writes};
use crate::fuzz::inputs;
use crate::redis::connections::server::ServerInfo;
use crate::redis::error::{Failure, hot_error};
use crate::{Fields, HotKind};

/// Pieces of real answers, so that replies get past the first checks.
const PIECES: &[&str] = &[
    ":v",
    ":b",
    ":d:gold",
    ":d:",
    "gold",
    "bag",
    "0",
    "1",
    "7",
    "-1",
    "+1",
    "9007199254740991",
    "9007199254740992",
    "18446744073709551616",
    "7 12a",
    "9007199254740991 3p",
    "7 a",
    "a",
    "p",
    "r",
    "rvalue",
    "x",
    "",
    "ok",
    "load",
    "applied",
    "refused",
    "accepted",
    "absent",
    "unlanded",
    "?",
    "7 1",
    "7 1 5 -5",
    "version",
    "expired",
    "integer",
    "overflow",
    "exists",
    "landed",
    "abc/def",
    "-",
];

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(PIECES.to_vec()).prop_map(|piece| piece.as_bytes().to_vec());
    prop_oneof![4 => piece, 1 => prop::collection::vec(any::<u8>(), 0..12)]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        8 => bytes().prop_map(Value::BulkString),
        2 => any::<i64>().prop_map(Value::Int),
        2 => (-2..5_i64).prop_map(Value::Int),
        2 => Just(Value::Nil),
        1 => Just(Value::Okay),
        1 => any::<bool>().prop_map(Value::Boolean),
        1 => any::<f64>().prop_map(Value::Double),
        1 => bytes().prop_map(|text| Value::SimpleString(String::from_utf8_lossy(&text).into_owned())),
    ];
    leaf.prop_recursive(3, 24, 8, |inner| {
        let pairs = prop::collection::vec((inner.clone(), inner.clone()), 0..4);
        prop_oneof![
            6 => prop::collection::vec(inner.clone(), 0..9).prop_map(Value::Array),
            1 => prop::collection::vec(inner, 0..4).prop_map(Value::Set),
            1 => pairs.prop_map(Value::Map),
        ]
    })
}

proptest! {
    #![proptest_config(inputs(10_000))]

    #[test]
    fn no_reply_makes_a_decoder_panic(value in value()) {
        let fields = || vec![Field::new("gold").unwrap(), Field::new("bag").unwrap()];
        for fields in [Fields::All, Fields::Names, Fields::Live(fields()), Fields::Cells(fields())] {
            if let Ok(read) = read::decode(&fields, value.clone()) {
                prop_assert!(read.header.is_none_or(|header| header.version <= Version::MAX));
            }
        }
        let _ = (writes::answers::decode(value.clone(), 1), fill::decode(value.clone()), partition::state_of(value.clone()));
        let _ = (observe::record_of(value.clone()), observe::marker_of(value.clone(), Epoch(7)));
        let _ = (marks::snapshot_of(value.clone()), marks::settled_of(value.clone()), reply::yes(value.clone()), reply::text(value.clone()));
        let _ = (reply::pairs(value.clone()), reply::number::<u16>(value.clone()), reply::array::<2>(value));
    }

    #[test]
    fn no_entry_of_a_map_makes_a_decoder_panic(name in bytes(), value in prop::collection::vec(bytes(), 0..9)) {
        let (name, value) = (Bytes::from(name), Bytes::from(value.join(&b' ')));
        prop_assert!(marks::entry_of(name.clone(), value.clone()).version <= Version::MAX);
        let lines = reject::error_entries_of(name.clone(), value.clone());
        prop_assert!(lines.iter().all(|line| line.version <= Version::MAX));
        prop_assert!(reject::refused_of(name, value).version <= Version::MAX);
    }

    #[test]
    fn no_info_makes_its_reader_panic(lines in prop::collection::vec(("(redis_version|valkey_version|role|run_id|master_replid|maxmemory_policy|x)", "(:.{0,12})?"), 0..9)) {
        let info: String = lines.into_iter().map(|(name, value)| format!("{name}{value}\r\n")).collect();
        if let Ok(info) = ServerInfo::parse(&info) {
            prop_assert!(info.incarnation.contains('/'));
        }
    }

    #[test]
    fn no_error_of_a_server_is_taken_for_a_success_or_for_another_partitions(code in "[A-Z]{0,12}", text in ".{0,20}", writes: bool) {
        let error = hot_error(Failure::server(&code, &text), "mutate", writes, Some(Partition(3)));
        prop_assert!(!matches!(error.kind, HotKind::Unprepared(partition) if partition != Partition(3)));
        prop_assert!(error.outcome != storage_model::Outcome::Applied && !error.message.contains(['\r', '\n']));
        let lost = hot_error(Failure::from(RedisError::from(std::io::Error::other(text))), "mutate", writes, None);
        prop_assert_eq!(lost.outcome == storage_model::Outcome::Unknown, writes);
    }
}
