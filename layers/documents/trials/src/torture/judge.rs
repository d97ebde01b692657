//! The conditions on the landed feed, on the answers, and on the stored documents.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use storage_tests::torture::oracle::Flaw;

use super::history::{Asked, End, Kind};
use super::state::State;
use super::told::{Told, head};

/// A document that was read at the end.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    /// The tag. `None` of an item in a list.
    pub tag: Option<String>,
    /// The revision. `None` of an item in a list.
    pub revision: Option<u64>,
    /// The body without the member `id`.
    pub body: Map<String, Value>,
}

/// The stored data at the end.
#[derive(Debug, Default)]
pub struct Finals {
    /// Documents that are there, and items by their lists.
    pub documents: BTreeMap<String, Read>,
    /// The count and the revision of each collection that is there.
    pub collections: BTreeMap<String, (Option<u64>, Option<u64>)>,
}

/// Compares the landed feed with the answers and with the stored documents.
#[must_use]
pub fn judge(asked: &[Asked], told: &[Told], finals: &Finals) -> Vec<Flaw> {
    let state = State::of(told);
    let mut flaws = state.flaws.clone();
    flaws.extend(answers(asked, told));
    flaws.extend(deletions(asked, told));
    flaws.extend(stored(&state, finals));
    flaws
}

/// The name of each change in a feed: the token in its body, or the amount that it added.
fn tokens(told: &[Told]) -> Vec<(String, &Told)> {
    let mut counters: BTreeMap<&str, u64> = BTreeMap::new();
    let mut tokens = Vec::new();
    for told in told.iter().filter(|told| told.method != "feed:delete") {
        if let Some(token) = told.body.get("by").and_then(Value::as_str) {
            tokens.push((token.to_owned(), told));
        } else if let Some(sum) = told.body.get("n").and_then(Value::as_u64) {
            let before = counters.insert(&told.path, sum).unwrap_or_default();
            tokens.push((sum.wrapping_sub(before).to_string(), told));
        } else if !told.path.ends_with('~') {
            tokens.push((String::new(), told));
        }
    }
    tokens
}

/// Each acknowledged change is told once, as its answer says. No other change is told.
fn answers(asked: &[Asked], told: &[Told]) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    let mut by_token: BTreeMap<(String, bool), Vec<&Told>> = BTreeMap::new();
    for (token, told) in tokens(told) {
        let is_amount = told.body.get("by").is_none();
        by_token.entry((token, is_amount)).or_default().push(told);
    }
    for asked in asked.iter().filter(|asked| asked.kind != Kind::Delete) {
        let key = (asked.token.clone(), asked.kind == Kind::Increment);
        let told = by_token.remove(&key).unwrap_or_default();
        flaws.extend(answer(asked, &told));
    }
    for ((token, _), told) in by_token {
        let detail = format!("nobody asked for the change {token:?}: {told:?}");
        let path = told.first().map_or("", |told| &told.path);
        flaws.push(Flaw::new("asked", path, detail));
    }
    flaws
}

/// The flaw of the events of one change.
fn answer(asked: &Asked, told: &[&Told]) -> Option<Flaw> {
    let flaw = |what: &str| {
        let detail = format!("{what}: {asked:?} is told as {told:?}");
        Some(Flaw::new("answers", &asked.path, detail))
    };
    match (&asked.end, told) {
        (End::Acked { .. }, []) => return flaw("an acknowledged change has no event"),
        (End::NotApplied, [_, ..]) => return flaw("a change that was not made has an event"),
        (_, [_, _, ..]) => return flaw("a change has several events"),
        (_, [told]) if head(&told.path) != head(&asked.path) => {
            return flaw("a change is told elsewhere");
        }
        _ => {}
    }
    let (End::Acked { revision, first }, [told]) = (&asked.end, told) else {
        return None;
    };
    let is_item = head(&told.path) != told.path;
    // The answer to the repeat of a change of an item has the present revision of the collection.
    let revision_is_right = told.revision == *revision || (is_item && first.is_none());
    let first_is_right = first
        .as_ref()
        .is_none_or(|(tag, id)| *tag == told.etag && *id == told.id);
    if revision_is_right && first_is_right && told.path == asked.path {
        None
    } else {
        flaw("an event differs from the answer")
    }
}

/// Each acknowledged deletion is told. Those of unknown outcome explain the others.
fn deletions(asked: &[Asked], told: &[Told]) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    let mut left: BTreeMap<&str, i64> = BTreeMap::new();
    let ids: BTreeMap<&str, &Told> = told.iter().map(|told| (told.id.as_str(), told)).collect();
    for told in told.iter().filter(|told| told.method == "feed:delete") {
        *left.entry(&told.path).or_default() += 1;
    }
    let mut unknown: BTreeMap<&str, i64> = BTreeMap::new();
    for asked in asked.iter().filter(|asked| asked.kind == Kind::Delete) {
        match &asked.end {
            End::Acked { revision, first } => {
                *left.entry(&asked.path).or_default() -= 1;
                let is_told = |(tag, id): &(String, String)| {
                    ids.get(id.as_str()).is_some_and(|told| {
                        told.path == asked.path
                            && told.revision == *revision
                            && told.etag == *tag
                            && told.method == "feed:delete"
                    })
                };
                if !first.as_ref().is_none_or(is_told) {
                    let detail = format!("an acknowledged deletion has no event: {asked:?}");
                    flaws.push(Flaw::new("answers", &asked.path, detail));
                }
            }
            End::Unknown => *unknown.entry(&asked.path).or_default() += 1,
            End::NotApplied => {}
        }
    }
    for (path, left) in left {
        let most = unknown.get(path).copied().unwrap_or_default();
        if !(0..=most).contains(&left) {
            let detail = format!(
                "{left} deletions are told that were not acknowledged, and {most} have an unknown outcome"
            );
            flaws.push(Flaw::new("answers", path, detail));
        }
    }
    flaws
}

/// The stored documents are those that the feed describes.
fn stored(state: &State, finals: &Finals) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    for (path, known) in &state.documents {
        let found = finals.documents.get(path);
        let revision = state.revisions.get(path);
        let is_same = match (&known.body, found) {
            (None, None) => true,
            (Some(body), Some(found)) => {
                *body == found.body
                    && found.tag.as_ref().is_none_or(|tag| *tag == known.tag)
                    && found.revision.is_none_or(|found| revision == Some(&found))
            }
            _ => false,
        };
        if !is_same {
            let detail =
                format!("the feed ends with {known:?} at {revision:?}, and {found:?} is stored");
            flaws.push(Flaw::new("stored", path, detail));
        }
    }
    for path in finals.documents.keys() {
        if !state.documents.contains_key(path) {
            let detail = "it is stored, and the feed never told it";
            flaws.push(Flaw::new("stored", path, detail));
        }
    }
    for (path, (count, revision)) in &finals.collections {
        let told = (Some(state.count(path)), state.revisions.get(path).copied());
        if told != (*count, *revision) {
            let detail =
                format!("the feed ends with {told:?}, and the list says {count:?}, {revision:?}");
            flaws.push(Flaw::new("counts", path, detail));
        }
    }
    flaws
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(number: u64, (path, revision): (&str, u64), (prev, by): (u64, &str)) -> Told {
        let tag = |number: u64| format!("\"{number}\"");
        Told {
            id: format!("0.1.{number}"),
            method: "feed:put".to_owned(),
            path: path.to_owned(),
            revision,
            count: path.contains('~').then_some(1),
            etag: tag(number),
            prev: (prev > 0).then(|| tag(prev)),
            body: json!({ "by": by }),
        }
    }

    fn asked(told: &Told) -> Asked {
        Asked {
            path: told.path.clone(),
            kind: Kind::Put,
            token: told.body["by"].as_str().unwrap().to_owned(),
            end: End::Acked {
                revision: told.revision,
                first: Some((told.etag.clone(), told.id.clone())),
            },
        }
    }

    fn finals(told: &[Told]) -> Finals {
        let mut finals = Finals::default();
        for told in told {
            let read = Read {
                tag: Some(told.etag.clone()),
                revision: (!told.path.contains('~')).then_some(told.revision),
                body: told.body.as_object().unwrap().clone(),
            };
            finals.documents.insert(told.path.clone(), read);
            if told.path.contains('~') {
                let list = (Some(1), Some(told.revision));
                finals.collections.insert(head(&told.path).to_owned(), list);
            }
        }
        finals
    }

    fn history() -> Vec<Told> {
        vec![
            told(1, ("a", 1), (0, "x")),
            told(2, ("a", 2), (1, "y")),
            told(3, ("g~/i", 1), (0, "z")),
        ]
    }

    /// The checks that find a flaw in a feed, beside answers that the right feed gave.
    fn checks(told: &[Told]) -> Vec<&'static str> {
        let right = history();
        let asked: Vec<Asked> = right.iter().map(asked).collect();
        let flaws = judge(&asked, told, &finals(&right));
        let mut checks: Vec<_> = flaws.iter().map(|flaw| flaw.check).collect();
        checks.sort_unstable();
        checks.dedup();
        checks
    }

    fn broken(change: impl Fn(&mut Vec<Told>)) -> Vec<&'static str> {
        let mut told = history();
        change(&mut told);
        checks(&told)
    }

    #[test]
    fn each_broken_feed_is_found() {
        assert!(checks(&history()).is_empty());
        let lost = broken(|told| drop(told.remove(1)));
        assert_eq!(lost, ["answers", "stored"]);
        let twice = broken(|told| {
            let again = told[1].clone();
            told.push(again);
        });
        assert_eq!(twice, ["answers", "chains", "places", "revisions"]);
        assert_eq!(broken(|told| told[2].count = Some(2)), ["counts"]);
        assert_eq!(broken(|told| told[1].prev = None), ["chains"]);
        let nobody = broken(|told| told.push(self::told(4, ("b", 1), (0, "n"))));
        assert_eq!(nobody, ["asked", "stored"]);
        let gap = broken(|told| told[1].revision = 3);
        assert_eq!(gap, ["answers", "revisions", "stored"]);
    }

    /// The flaws that answers to the right feed have beside a broken one, in words.
    fn details(change: impl Fn(&mut Vec<Told>)) -> String {
        let right = history();
        let asked: Vec<Asked> = right.iter().map(asked).collect();
        let mut told = history();
        change(&mut told);
        let flaws = judge(&asked, &told, &finals(&right));
        let details = flaws.into_iter().map(|flaw| flaw.detail);
        details.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn each_broken_event_is_found_by_its_own_check() {
        let lost = details(|told| drop(told.pop()));
        assert!(lost.contains("change has no event"), "{lost}");
        let twice = details(|told| told.extend(told.last().cloned()));
        assert!(twice.contains("a change has several events"), "{twice}");
        assert!(twice.contains("an event comes twice, or late"), "{twice}");
        let elsewhere = details(|told| told[1].path = "b".to_owned());
        assert!(elsewhere.contains("is told elsewhere"), "{elsewhere}");
        let tag = details(|told| told[1].etag = "9".to_owned());
        assert!(tag.contains("differs from the answer"), "{tag}");
        let id = details(|told| told[1].id = "0.1.9".to_owned());
        assert!(id.contains("differs from the answer"), "{id}");
        let nowhere = details(|told| told[1].id = "9".to_owned());
        assert!(nowhere.contains("an event without a place"), "{nowhere}");
        let gap = details(|told| told[1].revision = 9);
        assert!(gap.contains("a revision comes after 1"), "{gap}");
        let nobody = details(|told| told.push(self::told(4, ("b", 1), (0, "n"))));
        assert!(nobody.contains("nobody asked for the change"), "{nobody}");
        let chain = details(|told| told[1].prev = None);
        assert!(chain.contains("comes after the tag"), "{chain}");
    }

    #[test]
    fn stored_documents_that_no_event_tells_are_found() {
        let right = history();
        let asked: Vec<Asked> = right.iter().map(asked).collect();
        let check = |change: &dyn Fn(&mut Finals)| {
            let mut finals = finals(&right);
            change(&mut finals);
            let flaws = judge(&asked, &right, &finals);
            flaws.iter().map(|flaw| flaw.check).collect::<Vec<_>>()
        };
        assert!(check(&|_| {}).is_empty());
        let more = check(&|finals| {
            let a = finals.documents["a"].clone();
            finals.documents.insert("b".to_owned(), a);
        });
        assert_eq!(more, ["stored"]);
        let fewer = check(&|finals| drop(finals.documents.remove("a")));
        assert_eq!(fewer, ["stored"]);
        let list = check(&|finals| {
            finals
                .collections
                .insert("g~".to_owned(), (Some(2), Some(1)));
        });
        assert_eq!(list, ["counts"]);
    }

    #[test]
    fn a_deletion_is_told_if_and_only_if_somebody_asked_for_it() {
        let mut right = history();
        let mut gone = told(4, ("a", 3), (2, ""));
        (gone.method, gone.body) = ("feed:delete".to_owned(), Value::Null);
        let mut all: Vec<Asked> = right.iter().map(asked).collect();
        let mut finals = finals(&right);
        finals.documents.remove("a");
        right.push(gone.clone());
        let ask = |end| Asked {
            path: "a".to_owned(),
            kind: Kind::Delete,
            token: String::new(),
            end,
        };
        let flaws = |all: &[Asked], told: &[Told]| {
            let flaws = deletions(all, told).into_iter().map(|flaw| flaw.detail);
            flaws.collect::<Vec<_>>().join("; ")
        };
        assert!(flaws(&all, &right).contains("1 deletions are told"));
        for end in [End::NotApplied, End::Unknown] {
            let is_explained = end == End::Unknown;
            all.push(ask(end));
            assert_eq!(judge(&all, &right, &finals).is_empty(), is_explained);
            all.pop();
        }
        let first = Some((gone.etag.clone(), gone.id.clone()));
        all.push(ask(End::Acked { revision: 3, first }));
        assert!(judge(&all, &right, &finals).is_empty());
        assert!(flaws(&all, &right[..3]).contains("has no event"));
        right[3].revision = 4;
        assert!(flaws(&all, &right).contains("has no event"));
    }

    #[test]
    fn an_answer_of_unknown_outcome_may_have_an_event_and_a_refused_one_may_not() {
        let right = history();
        let with = |end: &End, told: &[Told]| {
            let mut all: Vec<Asked> = right.iter().map(asked).collect();
            all[2].end = end.clone();
            judge(&all, told, &finals(told)).len()
        };
        assert_eq!(with(&End::Unknown, &right), 0);
        assert_eq!(with(&End::Unknown, &right[..2]), 0);
        assert_eq!(with(&End::NotApplied, &right[..2]), 0);
        assert_eq!(with(&End::NotApplied, &right), 1);
    }
}
