//! The conditions on what a follower of the live feed heard, and on what a sink got.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use storage_tests::torture::oracle::Flaw;

use super::follower::Heard;
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

/// The flaws of what a follower heard: a change that never landed, and one that is missing between
/// two others without a word that it should read again.
#[must_use]
pub fn judge_follower(heard: &[Heard], told: &[Told]) -> Vec<Flaw> {
    follow(heard, &chains(told)).1
}

type Places<'a> = BTreeMap<&'a str, usize>;

fn follow<'a>(heard: &'a [Heard], chains: &Chains<'_>) -> (Places<'a>, Vec<Flaw>) {
    let (mut known, mut flaws) = (Places::new(), Vec::new());
    for heard in heard {
        let Heard::Change(told) = heard else {
            known.clear();
            continue;
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
