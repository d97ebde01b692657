//! Hostile settings and stored objects cause an error that names the fault, never a panic.
//!
//! `PROPTEST_CASES` sets the number of inputs for each test.

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use storage_config::Settings;
use storage_sdk::codec;

/// This number of inputs, unless the environment sets another.
fn inputs(cases: u32) -> ProptestConfig {
    let given = std::env::var_os("PROPTEST_CASES").map(|_| ProptestConfig::default().cases);
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(given.unwrap_or(cases))
    }
}

const SECTIONS: &[&str] = &["redis", "sql", "hot", "landing", "limits", "odd"];
const KEYS: &[&str] = &[
    "url",
    "user",
    "password",
    "database",
    "prefix",
    "partitions",
    "connections",
    "clean_ttl",
    "refresh_interval",
    "interval",
    "batch_rows",
    "lock_ttl",
    "backoff_max",
    "value_bytes_max",
    "tls",
    "tls_ca_file",
    "tls_cert_file",
    "tls_key_file",
    "proxy",
    "odd",
];
const VALUES: &[&str] = &[
    "memory:",
    "redis://u:hunter2@h:1/2",
    "redis://",
    "redis-cluster://a,b:99999",
    "redis-sentinel://",
    "redis+unix://",
    "sqlite:",
    "sqlite::memory:",
    "mysql://u:hunter2@h/db",
    "mysql://h",
    "mysql://%zz@h/d",
    "0",
    "1",
    "-1",
    "5s",
    "10ms",
    "99999999999999999999y",
    "1h 1h",
    "true",
    "{",
    "\u{0}",
    "%",
    "",
    "é",
];

fn one_of(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop_oneof![9 => prop::sample::select(words).prop_map(str::to_owned), 1 => ".{0,12}"]
}

/// A file that resembles a settings file: sections, keys and values in any order, with numbers and
/// lists in place of text.
fn file() -> impl Strategy<Value = String> {
    let value = prop_oneof![
        6 => one_of(VALUES).prop_map(|text| format!("{text:?}")),
        1 => any::<i64>().prop_map(|number| number.to_string()),
        1 => prop::sample::select(vec!["[]", "{}", "1.5", "nan", "1979-05-27", "'", "\"\"\"", "[1,"]).prop_map(str::to_owned),
    ];
    let line = prop_oneof![
        3 => one_of(SECTIONS).prop_map(|section| format!("[{section}]")),
        6 => (one_of(KEYS), value).prop_map(|(key, value)| format!("{key} = {value}")),
        1 => ".{0,20}",
    ];
    prop::collection::vec(line, 0..10).prop_map(|lines| lines.join("\n"))
}

fn variable() -> impl Strategy<Value = (String, String)> {
    let name = (one_of(SECTIONS), one_of(KEYS))
        .prop_map(|(section, key)| format!("STORAGE__{section}__{key}").to_uppercase());
    (prop_oneof![9 => name, 1 => ".{0,20}"], one_of(VALUES))
}

fn is_clear(error: &storage_config::ConfigError) -> bool {
    let text = error.to_string();
    !text.is_empty() && !text.contains("hunter2")
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Player {
    name: String,
    level: u32,
    gold: i64,
    bag: Vec<(u8, Option<String>)>,
    blob: Vec<u8>,
    ratio: f32,
    guild: Option<Box<Player>>,
}

fn player() -> impl Strategy<Value = Player> {
    let bag = prop::collection::vec((any::<u8>(), prop::option::of(".{0,4}")), 0..4);
    let blob = prop::collection::vec(any::<u8>(), 0..20);
    let own = (
        ".{0,8}",
        any::<u32>(),
        any::<i64>(),
        bag,
        blob,
        -1e9_f32..1e9,
    );
    let own = own.prop_map(|(name, level, gold, bag, blob, ratio)| Player {
        name,
        level,
        gold,
        bag,
        blob,
        ratio,
        guild: None,
    });
    own.prop_recursive(3, 4, 1, |inner| {
        inner.prop_map(|inner| Player {
            guild: Some(Box::new(inner)),
            ..empty()
        })
    })
}

fn empty() -> Player {
    Player {
        name: String::new(),
        level: 0,
        gold: 0,
        bag: Vec::new(),
        blob: Vec::new(),
        ratio: 0.0,
        guild: None,
    }
}

proptest! {
    #![proptest_config(inputs(2_000))]

    #[test]
    fn any_file_is_settings_or_a_clear_error(text in file()) {
        if let Err(error) = Settings::from_toml(&text, "hostile.toml") {
            prop_assert!(is_clear(&error), "{}", error);
        }
    }

    #[test]
    fn any_variables_are_settings_or_a_clear_error(variables in prop::collection::vec(variable(), 0..5)) {
        let file = "redis.url = \"memory:\"\nsql.url = \"sqlite:game.db\"";
        match Settings::from_sources(file, "fine.toml", variables) {
            Ok(settings) => prop_assert!(settings.validate().is_ok()),
            Err(error) => prop_assert!(is_clear(&error), "{}", error),
        }
    }

    #[test]
    fn any_object_comes_back_and_no_object_that_was_altered_does(player in player(), schema: u32, at: prop::sample::Index, bit in 0..8_u8) {
        let stored = codec::encode(&player, schema).unwrap();
        prop_assert_eq!(&codec::decode::<Player>(&stored, schema).unwrap(), &player);
        let mut altered = stored.to_vec();
        let at = at.index(altered.len());
        altered[at] ^= 1 << bit;
        prop_assert!(codec::decode::<Player>(&altered, schema).is_err(), "byte {}", at);
        prop_assert!(codec::decode::<Player>(&stored[..at], schema).is_err(), "cut at {}", at);
    }

    #[test]
    fn no_bytes_behind_a_good_header_make_the_decoder_panic(payload in prop::collection::vec(any::<u8>(), 0..60), schema: u32) {
        // A good checksum, so that the bytes reach the decoder.
        let mut object = vec![0xc1, b'S', b'O', 1];
        let mut checked = vec![1, 0];
        checked.extend(schema.to_be_bytes());
        checked.extend(&payload);
        object.extend(xxhash_rust::xxh3::xxh3_64(&checked).to_be_bytes());
        object.extend(&checked);
        if let Ok(player) = codec::decode::<Player>(&object, schema) {
            prop_assert!(codec::encode(&player, schema).is_ok());
        }
        let _ = codec::decode::<Player>(&payload, schema);
    }
}
