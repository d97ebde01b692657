//! Hostile names, marks and replies. Encoded data decodes to the same data, and foreign data is
//! rejected without a panic.
//!
//! `PROPTEST_CASES` sets how many inputs each test takes.

use std::collections::BTreeSet;

use proptest::prelude::*;
use storage_model::{Field, Owner, Partition};

use crate::key::{self, Keys, field_of, owner_of, owner_part, stored, tombstone};
use crate::mark;

/// This number of inputs, or as many as the environment says.
pub(crate) fn inputs(cases: u32) -> ProptestConfig {
    let given = std::env::var_os("PROPTEST_CASES").map(|_| ProptestConfig::default().cases);
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(given.unwrap_or(cases))
    }
}

/// Names of separators, escapes, reserved characters and anything else.
fn name() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        ":", "%", "%3A", "%25", "%253A", "{", "}", "{0}", ":d:", ":v", "-", "a", "b", "é", "名",
        " ", "\u{7ff}", "'",
    ]);
    prop_oneof![
        prop::collection::vec(piece, 1..6).prop_map(|pieces| pieces.concat()),
        "[^\\p{Cc}]{1,16}"
    ]
}

fn owner() -> impl Strategy<Value = Owner> {
    let fits = |(app, region, logic, id): (String, String, String, String)| {
        Owner::new(&app, &region, &logic, &id).ok()
    };
    (name(), name(), name(), name()).prop_filter_map("a name is too long", fits)
}

fn field() -> impl Strategy<Value = Field> {
    name().prop_filter_map("a name is too long", |name| Field::new(&name).ok())
}

/// Text and bytes that look like stored ones.
fn foreign() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        ":", "%", "%3A", "%25", "\u{1f}", "a", "b", "\n", "%41",
    ]);
    prop_oneof![
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..40),
    ]
}

proptest! {
    #![proptest_config(inputs(20_000))]

    /// An owner that comes back from its key shares the key with no other owner.
    #[test]
    fn every_owner_comes_back_from_its_keys(owner in owner(), partition in 0..65_536_u32) {
        let part = owner_part(&owner);
        prop_assert_eq!(owner_of(&part), Some(owner.clone()));
        let (keys, partition) = (Keys::new("slug"), Partition(partition));
        for (key, kind) in [(keys.data(partition, &owner), "data"), (keys.exist(partition, &owner), "exist")] {
            prop_assert_eq!(key, format!("slug-{kind}:{{{partition}}}:{part}"), "the first braces are the partition's");
        }
    }

    #[test]
    fn every_field_comes_back_from_its_stored_name_and_none_reaches_a_reserved_one(field in field()) {
        let name = stored(&field).into_owned();
        prop_assert!(!name.starts_with(':'), "{}", name);
        prop_assert_eq!(field_of(&name), Some(field.clone()));
        let buried = tombstone(&field);
        prop_assert_eq!(buried.strip_prefix(key::TOMBSTONE).and_then(field_of), Some(field));
    }

    #[test]
    fn every_mark_comes_back_from_its_name_and_fields(owner in owner(), fields in prop::collection::btree_set(field(), 1..5)) {
        let fields: BTreeSet<Field> = fields;
        let decoded = mark::decode(owner_part(&owner).as_bytes(), mark::fields_text(&fields).as_bytes());
        prop_assert_eq!(decoded, Some(mark::Mark { owner, fields: fields.into_iter().collect() }));
    }

    #[test]
    fn a_name_that_reads_as_an_owner_or_a_field_is_the_one_that_is_written(bytes in foreign()) {
        // No input may cause a panic.
        let _ = mark::decode(&bytes, &bytes);
        if let Ok(text) = std::str::from_utf8(&bytes) {
            prop_assert!(owner_of(text).is_none_or(|owner| owner_part(&owner) == text));
            prop_assert!(field_of(text).is_none_or(|field| stored(&field) == text));
        }
    }
}
