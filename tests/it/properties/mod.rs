//! Random histories that shrink: two engines of one contract answer alike, and the SDK is a map.
//!
//! `PROPTEST_CASES` sets how many histories each test takes.

mod cold;
mod sdk;

use proptest::prelude::*;
use storage_model::Bytes;
use tokio::runtime::Runtime;

/// So many histories, or as many as the environment says. A failing one is shrunk and printed, step by step.
fn histories(cases: u32) -> ProptestConfig {
    let given = std::env::var_os("PROPTEST_CASES").map(|_| ProptestConfig::default().cases);
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(given.unwrap_or(cases)) }
}

#[expect(clippy::expect_used, reason = "a test that can't go on fails")]
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Few owners and fields, so that steps meet.
const OWNERS: u8 = 3;
const FIELDS: &[&str] = &["bag", "gold", ":v"];

fn value() -> impl Strategy<Value = Bytes> {
    let values = ["", "1", "-7", "9223372036854775807", "01", "text", "\u{0}"];
    prop::sample::select(values.to_vec()).prop_map(|text| Bytes::from_static(text.as_bytes()))
}

fn by() -> impl Strategy<Value = i64> {
    prop_oneof![4 => -3..10_i64, 1 => prop::sample::select(vec![i64::MAX, i64::MIN])]
}
