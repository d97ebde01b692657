//! Random histories that shrink. Two engines of one contract answer alike, and the SDK is a map.
//!
//! `PROPTEST_CASES` sets the number of histories of each test. `PROPTEST_RNG_SEED` chooses them.

mod cold;
mod engine;
mod hot;
mod sdk;
mod step;
mod words;

use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use storage_model::{Bytes, Change};
use tokio::runtime::Runtime;

/// This number of histories, unless the environment sets another. A failing history is shrunk and
/// printed, step by step, with its seed.
fn histories(cases: u32) -> ProptestConfig {
    let given = std::env::var_os("PROPTEST_CASES").map(|_| ProptestConfig::default().cases);
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(given.unwrap_or(cases))
    };
    static SEED: LazyLock<u64> = LazyLock::new(rand::random);
    let seed = match config.rng_seed {
        RngSeed::Random => *SEED,
        RngSeed::Fixed(seed) => seed,
    };
    println!("these histories again: PROPTEST_RNG_SEED={seed}");
    ProptestConfig {
        rng_seed: RngSeed::Fixed(seed),
        ..config
    }
}

#[expect(clippy::expect_used, reason = "a test that can't go on fails")]
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
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

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => value().prop_map(Change::Set),
        3 => by().prop_map(Change::Incr),
        2 => Just(Change::Remove),
        1 => Just(Change::Restore),
        1 => Just(Change::Purge),
    ]
}
