//! The documents and collections that a feed describes, and its inner conditions.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use storage_tests::torture::oracle::Flaw;

use super::owned::without_id;
use super::receiver::At;
use super::told::Told;

/// A document or an item.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// The tag since the last change.
    pub tag: String,
    /// The body. `None` if it was deleted.
    pub body: Option<Map<String, Value>>,
}

/// All that a feed has told.
#[derive(Debug, Default)]
pub struct State {
    /// By path.
    pub documents: BTreeMap<String, Known>,
    /// The revision of each document and each collection.
    pub revisions: BTreeMap<String, u64>,
    /// The flaws of the feed itself.
    pub flaws: Vec<Flaw>,
    last: BTreeMap<u64, At>,
}

impl State {
    /// The state after these changes.
    #[must_use]
    pub fn of(told: &[Told]) -> Self {
        let mut state = Self::default();
        told.iter().for_each(|told| state.take(told));
        state
    }

    fn flaw(&mut self, check: &'static str, told: &Told, detail: String) {
        let detail = format!("{detail}: {told:?}");
        self.flaws.push(Flaw::new(check, &told.path, detail));
    }

    fn take(&mut self, told: &Told) {
        let Some(at) = told.at() else {
            return self.flaw("places", told, "an event without a place".to_owned());
        };
        if self.last.insert(at.0, at).is_some_and(|last| last >= at) {
            self.flaw("places", told, "an event comes twice, or late".to_owned());
        }
        let revision = self.revisions.entry(told.head().to_owned()).or_default();
        let before = std::mem::replace(revision, told.revision);
        if told.revision != before + 1 {
            self.flaw(
                "revisions",
                told,
                format!("a revision comes after {before}"),
            );
        }
        self.take_body(told);
        // The end of a collection has no count.
        let is_end = told.path.ends_with('~') && told.method == "feed:delete";
        let has_count = told.path.contains('~') && !is_end;
        let count = has_count.then(|| self.count(told.head()));
        if told.count != count {
            self.flaw("counts", told, format!("{count:?} items are there then"));
        }
    }

    fn take_body(&mut self, told: &Told) {
        if told.path.ends_with('~') {
            // A collection. Its end is the end of its items, and of their chains.
            if told.method == "feed:delete" {
                let items = format!("{}/", told.path);
                self.documents.retain(|path, _| !path.starts_with(&items));
            }
            return;
        }
        let known = self.documents.entry(told.path.clone()).or_default();
        let tag = std::mem::replace(&mut known.tag, told.etag.clone());
        let before = known.body.take();
        known.body = match (told.method.as_str(), told.body.as_object().cloned()) {
            ("feed:put", body) => body.map(without_id),
            ("feed:patch", Some(patch)) => before.map(|mut body| {
                body.extend(patch);
                without_id(body)
            }),
            _ => None,
        };
        if told.prev.clone().unwrap_or_default() != tag {
            self.flaw(
                "chains",
                told,
                format!("the change comes after the tag {tag:?}"),
            );
        }
    }

    /// The number of items of a collection.
    #[must_use]
    pub fn count(&self, collection: &str) -> u64 {
        let items = format!("{collection}/");
        let behind = self.documents.range(items.clone()..);
        let items = behind.take_while(|(path, _)| path.starts_with(&items));
        u64::try_from(items.filter(|(_, known)| known.body.is_some()).count()).unwrap_or(u64::MAX)
    }
}
