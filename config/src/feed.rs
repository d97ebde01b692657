//! The section `feed`: changes in their order, for followers.

use std::collections::BTreeSet;

use toml::Value;

use crate::section::prelude::*;

section! {
    /// Which changes the feed has, and how long it keeps them.
    FeedSettings;

    /// How long landed events stay in the database. 1 min to 10 years. Default: 7 days. A reader
    /// that is further behind has missed some.
    keep: Duration as "crate::duration" = Duration::from_hours(7 * 24), Time("1m", "3650days");
    /// Logic types of which every change leaves a note in the feed. Default: none. The writers
    /// decide, so all game servers need the same value.
    every_change: BTreeSet<String> = BTreeSet::new(), Nested(LOGIC_TYPES, are_texts);
}

/// The form of [`FeedSettings::every_change`], for messages.
const LOGIC_TYPES: &str = "an array of logic types, such as [\"player\", \"guild\"]";

fn are_texts(value: &Value) -> bool {
    value
        .as_array()
        .is_some_and(|texts| texts.iter().all(Value::is_str))
}
