//! The conditions on all that hear of changes: followers of the live feed, a reader of the landed
//! feed, and a sink.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use storage_tests::torture::oracle::Flaw;

use super::follower::{Heard, changes};
use super::order::judge_order;
use super::receiver::At;
use super::told::Told;

/// The place of each tag of a path.
type Chains<'a> = BTreeMap<&'a str, HashMap<&'a str, usize>>;

fn chains(told: &[Told]) -> Chains<'_> {
    let mut chains = Chains::new();
    for told in told {
        let tags = chains.entry(&told.path).or_default();
        let at = tags.len();
        tags.insert(&told.etag, at);
    }
    chains
}

/// Whether a follower that heard this much knows the last change of each path of which it knows
/// any.
#[must_use]
pub fn is_up_to_date(heard: &[Heard], told: &[Told]) -> bool {
    let chains = chains(told);
    let (known, _) = follow(heard, &chains);
    let is_last =
        |(path, at): (&&str, &usize)| chains.get(path).is_some_and(|tags| at + 1 == tags.len());
    known.iter().all(is_last)
}

/// The flaws of what a follower heard: a change that never landed, one that is missing between two
/// others without a word that it should read again, a last one that is missing, and a wrong order. A
/// follower that heard no change was none.
#[must_use]
pub fn judge_follower(heard: &[Heard], told: &[Told]) -> Vec<Flaw> {
    let mut flaws = follow(heard, &chains(told)).1;
    flaws.extend(judge_order(heard));
    if changes(heard) == 0 {
        flaws.push(Flaw::new("live", "", "a follower heard no change"));
    }
    if !is_up_to_date(heard, told) {
        let detail = "a follower has not heard the last change of a path that it knows";
        flaws.push(Flaw::new("live", "", detail));
    }
    flaws
}

type Places<'a> = BTreeMap<&'a str, usize>;

fn follow<'a>(heard: &'a [Heard], chains: &Chains<'_>) -> (Places<'a>, Vec<Flaw>) {
    let (mut known, mut flaws) = (Places::new(), Vec::new());
    for heard in heard {
        let told = match heard {
            Heard::Change(told) => told,
            Heard::First | Heard::Reset => {
                known.clear();
                continue;
            }
            Heard::Back | Heard::Begin | Heard::Id(_) => continue,
        };
        let tags = chains.get(told.path.as_str());
        let Some(at) = tags.and_then(|tags| tags.get(told.etag.as_str()).copied()) else {
            let detail = format!("a change was told that never landed: {told:?}");
            flaws.push(Flaw::new("live", &told.path, detail));
            continue;
        };
        let before = known.get(told.path.as_str()).copied();
        if before.is_some_and(|before| at > before + 1) {
            let detail = format!("the change {at} was told after {before:?}: {told:?}");
            flaws.push(Flaw::new("live", &told.path, detail));
        }
        known.insert(&told.path, before.map_or(at, |before| before.max(at)));
    }
    (known, flaws)
}

/// The feed that was read along is the feed that is read at the end: each change once, none taken
/// back.
#[must_use]
pub fn judge_reader(along: &[Told], whole: &[Told]) -> Option<Flaw> {
    let by_partition = |told: &[Told]| {
        let mut told = told.to_vec();
        told.sort_by_key(|told| told.at().map(|at| at.0));
        told
    };
    let (along, whole) = (by_partition(along), by_partition(whole));
    let differs = along
        .iter()
        .zip(&whole)
        .find(|(along, whole)| along != whole);
    let detail = match differs {
        Some((along, whole)) => format!("{along:?} was read along, and {whole:?} at the end"),
        None if along.len() != whole.len() => {
            format!(
                "{} changes were read along, and {} at the end",
                along.len(),
                whole.len()
            )
        }
        None => return None,
    };
    Some(Flaw::new("changes", "", detail))
}

/// The flaws of what a sink got: an event that is missing, that never landed, or that came first
/// before an earlier one.
#[must_use]
pub fn judge_sink(got: &[At], told: &[Told]) -> Vec<Flaw> {
    let landed: BTreeSet<At> = told.iter().filter_map(Told::at).collect();
    let (mut last, mut seen): (BTreeMap<u64, At>, BTreeSet<At>) = Default::default();
    let mut flaws = Vec::new();
    for at in got {
        let is_new = seen.insert(*at);
        let is_late = last.get(&at.0).is_some_and(|last| last > at);
        if is_new && is_late {
            let detail = format!("{at:?} came first after {last:?}");
            flaws.push(Flaw::new("sink", "", detail));
        }
        last.entry(at.0)
            .and_modify(|last| *last = (*last).max(*at))
            .or_insert(*at);
    }
    for (what, at) in [
        ("never came", landed.difference(&seen).next()),
        ("never landed", seen.difference(&landed).next()),
    ] {
        flaws.extend(at.map(|at| Flaw::new("sink", "", format!("{at:?} {what}"))));
    }
    flaws
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::told::tests::told;

    /// What a follower hears that comes back before each of these parts.
    fn heard(parts: &[&[&Told]]) -> Vec<Heard> {
        let mut heard = vec![Heard::First];
        for part in parts {
            heard.push(Heard::Begin);
            heard.extend(part.iter().map(|told| Heard::Change((*told).clone())));
            heard.push(Heard::Back);
        }
        heard
    }

    fn details(flaws: &[Flaw]) -> String {
        let details = flaws.iter().map(|flaw| flaw.detail.as_str());
        details.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn a_follower_may_hear_twice_or_begin_anew_but_miss_nothing() {
        let all = [told(1, "a", "1"), told(2, "a", "2"), told(3, "a", "3")];
        let [one, two, three] = &all;
        let reset = |rest: &[&Told]| {
            let mut heard = heard(&[&[one]]);
            heard.extend([Heard::Begin, Heard::Reset]);
            heard.extend(rest.iter().map(|told| Heard::Change((*told).clone())));
            heard
        };
        for good in [
            heard(&[&[one, two, three]]),
            heard(&[&[two, three]]),
            heard(&[&[one, two], &[one, two, three]]),
            reset(&[three]),
        ] {
            let flaws = judge_follower(&good, &all);
            assert!(flaws.is_empty(), "{flaws:?} in {good:?}");
        }
        let (never, before) = (told(4, "a", "4"), "was told after Some");
        for (bad, words) in [
            (heard(&[&[one, three]]), before),
            (heard(&[&[one], &[three]]), before),
            (heard(&[&[one, two]]), "has not heard the last change"),
            (reset(&[two]), "has not heard the last change"),
            (heard(&[&[one, two, three, &never]]), "never landed"),
            (heard(&[&[]]), "heard no change"),
            (heard(&[&[one, two, three, two]]), "again, or late"),
        ] {
            let flaws = judge_follower(&bad, &all);
            assert!(details(&flaws).contains(words), "{flaws:?} in {bad:?}");
            assert_eq!(flaws.len(), 1, "{flaws:?} in {bad:?}");
        }
    }

    #[test]
    fn a_follower_is_up_to_date_once_it_knows_the_last_change_of_each_path_that_it_knows() {
        let all = [told(1, "a", "1"), told(2, "b", "2"), told(3, "a", "3")];
        let [one, two, three] = &all;
        assert!(is_up_to_date(&heard(&[&[two]]), &all));
        assert!(is_up_to_date(&heard(&[&[one, two, three]]), &all));
        assert!(!is_up_to_date(&heard(&[&[one, two]]), &all));
    }

    #[test]
    fn a_reader_reads_each_change_once_and_none_is_taken_back() {
        let mut other = told(1, "b", "1");
        other.id = "1.1.1".to_owned();
        let (one, two) = (told(1, "a", "1"), told(2, "a", "2"));
        let whole = [one.clone(), two.clone(), other.clone()];
        // Partitions may come in any order.
        let along = [other.clone(), one.clone(), two.clone()];
        assert!(judge_reader(&along, &whole).is_none());
        for bad in [
            vec![one.clone(), two.clone()],
            vec![one.clone(), other.clone()],
            vec![one.clone(), one.clone(), two.clone(), other.clone()],
            vec![two.clone(), one.clone(), other.clone()],
            vec![one, told(2, "a", "9"), other],
        ] {
            assert!(judge_reader(&bad, &whole).is_some(), "{bad:?}");
            assert!(judge_reader(&whole, &bad).is_some(), "{bad:?}");
        }
    }

    #[test]
    fn a_sink_gets_each_event_in_order_and_maybe_twice() {
        let all = [told(1, "a", "1"), told(2, "a", "2")];
        let (one, two) = ((0, 1, 1), (0, 1, 2));
        assert!(judge_sink(&[one, two, one, two], &all).is_empty());
        for (bad, words) in [
            (vec![one], "never came"),
            (vec![two, one], "came first after"),
            (vec![one, two, (0, 1, 3)], "never landed"),
        ] {
            let flaws = judge_sink(&bad, &all);
            assert!(details(&flaws).contains(words), "{flaws:?}");
            assert_eq!(flaws.len(), 1, "{bad:?}");
        }
    }
}
