//! The section `durability`: how safe writes are when they are acknowledged.

use std::collections::BTreeMap;

use storage_model::Durability;
use toml::Value;

use crate::section::prelude::*;

section! {
    /// How safe writes must be before they are acknowledged, unless a write says otherwise.
    DurabilitySettings;

    /// The durability of all writes. Default: `Cached`, the hot tier has the write.
    default: Durability = Durability::Cached, Text(FORMS, is_possible);
    /// The durability of writes of some logic types, by name. Default: none.
    logic_types: BTreeMap<String, Durability> = BTreeMap::new(), Nested(LOGIC_TYPES, are_possible);
}

/// The forms of a durability, for messages.
const FORMS: &str = "\"cached\", or \"replicated 2 200ms\", \"fsynced 200ms\" or \"landed 2s\" with other numbers, from 1 ms to 1 min";
/// The form of [`DurabilitySettings::logic_types`], for messages.
const LOGIC_TYPES: &str =
    "a table of logic types, such as { player = \"fsynced 200ms\", trade = \"landed 2s\" }";

fn is_possible(text: &str) -> bool {
    text.parse()
        .is_ok_and(|durability: Durability| durability.is_possible())
}

fn are_possible(value: &Value) -> bool {
    let is_one = |value: &Value| value.as_str().is_some_and(is_possible);
    value
        .as_table()
        .is_some_and(|table| table.values().all(is_one))
}
