//! The section `feed`: changes in their order, for followers.

use std::collections::BTreeSet;
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use crate::entry::{Entry, Section, between, matching};
use crate::value::{Raw, Unread, Value};

/// Which changes the feed has, and how long it keeps them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedSettings {
    /// How long landed events stay in the database. 1 min to 10 years. Default: 7 days. A reader
    /// that is further behind has missed some.
    pub keep: Duration,
    /// Logic types of which every change leaves a note in the feed. Default: none. The writers
    /// decide, so all game servers need the same value.
    pub every_change: BTreeSet<String>,
}

impl Default for FeedSettings {
    fn default() -> Self {
        Self {
            keep: Duration::from_hours(7 * 24),
            every_change: BTreeSet::new(),
        }
    }
}

impl Section for FeedSettings {
    fn entries(&mut self) -> Vec<Entry<'_>> {
        let years = Duration::from_hours(10 * 365 * 24);
        vec![
            Entry::new(
                "keep",
                &mut self.keep,
                between(Duration::from_mins(1), years),
            ),
            Entry::new(
                "every_change",
                &mut self.every_change,
                matching(BTreeSet::KIND, |_| true),
            ),
        ]
    }
}

/// An array in a file. In a variable it is the same array as text.
impl Value for BTreeSet<String> {
    const KIND: &'static str = "an array of logic types, such as [\"player\", \"guild\"]";

    fn read(raw: &Raw<'_>) -> Result<Self, Unread> {
        match raw {
            Raw::Toml(value) => of_array(value).ok_or(Unread::Other),
            Raw::Variable(text) => {
                let text = format!("array = {text}");
                let root = DeTable::parse(&text).map_err(|_| Unread::Other)?;
                let values: Vec<_> = root.get_ref().iter().collect();
                match values.as_slice() {
                    [(_, value)] => of_array(value.get_ref()).ok_or(Unread::Other),
                    _ => Err(Unread::Other),
                }
            }
        }
    }

    fn show(&self) -> String {
        let names: Vec<_> = self.iter().map(|name| format!("{name:?}")).collect();
        format!("[{}]", names.join(", "))
    }

    fn redact(text: &str) -> String {
        text.to_owned()
    }
}

fn of_array(value: &DeValue<'_>) -> Option<BTreeSet<String>> {
    let names = value.as_array()?.iter();
    let names = names.map(|name| name.get_ref().as_str().map(str::to_owned));
    names.collect()
}
