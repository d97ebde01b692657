//! Conditions. A rejected write changes nothing (R10).

use storage_model::{Change, Condition, Version};

use super::field;
use super::harness::{Harness, LONG_AGO, above, applied, live, owner, set};
use crate::{Mutated, Refusal};

/// The versions are equal, or the write is rejected.
pub async fn a_version_condition_holds_on_a_hot_owner(h: &Harness) {
    let ann = owner("ann");
    let first = h.set(&ann, "gold", "1").await;
    for wrong in [
        Version::ZERO,
        above(first, 1),
        Version::new(first.get() - 1).unwrap(),
        Version::MAX,
    ] {
        let mutated = h
            .change_when(&ann, vec![("gold", set("2"))], Condition::Version(wrong))
            .await;
        assert_eq!(mutated, Mutated::Refused(Refusal::Version(first)));
    }
    assert_eq!(h.cell(&ann, "gold").await, Some(live("1")));
    let second = applied(
        h.change_when(&ann, vec![("gold", set("2"))], Condition::Version(first))
            .await,
    )
    .version;
    let stale = h
        .change_when(&ann, vec![("gold", set("3"))], Condition::Version(first))
        .await;
    assert_eq!(stale, Mutated::Refused(Refusal::Version(second)));
}

/// A marker may be from before a rewind. So only the rows tell the version of a cold owner (R14).
pub async fn a_version_condition_on_an_evicted_owner_needs_a_load(h: &Harness) {
    let (ann, version) = h.cold("ann").await;
    let mutated = h
        .change_when(&ann, vec![("gold", set("2"))], Condition::Version(version))
        .await;
    assert_eq!(mutated, Mutated::Load(h.observe(&ann).await));
    assert_eq!(h.read(&ann).await.header, None);
}

/// Unknown is not absent (R8).
pub async fn a_version_condition_on_an_unknown_owner_needs_a_load(h: &Harness) {
    let ann = owner("ann");
    let mutated = h
        .change_when(
            &ann,
            vec![("gold", set("2"))],
            Condition::Version(Version::ZERO),
        )
        .await;
    assert_eq!(mutated, Mutated::Load(h.observe(&ann).await));
    assert_eq!(h.read(&ann).await.header, None);
}

/// Absent is version 0.
pub async fn a_version_condition_on_an_absent_owner_means_zero(h: &Harness) {
    let ann = owner("ann");
    h.make_absent(&ann).await;
    let wrong = Condition::Version(Version::new(7).unwrap());
    let mutated = h.change_when(&ann, vec![("gold", set("2"))], wrong).await;
    assert_eq!(mutated, Mutated::Refused(Refusal::Version(Version::ZERO)));
    assert!(h.observe(&ann).await.marker.is_absent());
    applied(
        h.change_when(
            &ann,
            vec![("gold", set("2"))],
            Condition::Version(Version::ZERO),
        )
        .await,
    );
}

/// Create, once.
pub async fn an_absent_condition_refuses_live_fields_and_accepts_tombstones(h: &Harness) {
    let ann = owner("ann");
    h.make_absent(&ann).await;
    let create = |value: &'static str| vec![("data", set(value)), ("more", set(value))];
    applied(h.change_when(&ann, create("1"), Condition::Absent).await);
    let again = h
        .change_when(
            &ann,
            vec![("aaa", set("2")), ("more", set("2"))],
            Condition::Absent,
        )
        .await;
    assert_eq!(again, Mutated::Refused(Refusal::Exists(field("more"))));
    assert_eq!(
        (h.cell(&ann, "aaa").await, h.cell(&ann, "more").await),
        (None, Some(live("1")))
    );
    h.apply(
        &ann,
        vec![("data", Change::Remove), ("more", Change::Remove)],
    )
    .await;
    applied(h.change_when(&ann, create("3"), Condition::Absent).await);
    assert_eq!(h.cell(&ann, "data").await, Some(live("3")));
}

/// A field that the hash does not hold may have a row.
pub async fn an_absent_condition_on_an_unknown_field_needs_a_load(h: &Harness) {
    let (cold, _) = h.cold("cold").await;
    let partial = owner("partial");
    h.set(&partial, "other", "1").await;
    for owner in [&cold, &partial, &owner("unknown")] {
        let mutated = h
            .change_when(owner, vec![("data", set("1"))], Condition::Absent)
            .await;
        assert_eq!(mutated, Mutated::Load(h.observe(owner).await));
    }
    let both = h
        .change_when(
            &partial,
            vec![("other", set("1")), ("zzz", set("1"))],
            Condition::Absent,
        )
        .await;
    assert_eq!(
        both,
        Mutated::Load(h.observe(&partial).await),
        "missing fields are loaded before anything is judged"
    );
}

/// Each kind of rejection, in the first, a middle and the last field.
pub async fn every_refusal_at_every_position_changes_nothing(h: &Harness) {
    let ann = owner("ann");
    h.make_absent(&ann).await;
    let max = i64::MAX.to_string();
    let held = ["a", "j", "z"].map(|name| (name, set("text")));
    let full = ["b", "k", "zz"].map(|name| (name, set(&max)));
    h.apply(&ann, held.into_iter().chain(full).collect()).await;
    h.apply(&ann, vec![("gone", set("1"))]).await;
    h.apply(&ann, vec![("gone", Change::Remove)]).await;
    let before = (h.read(&ann).await, h.observe(&ann).await);
    let around = || {
        vec![
            ("c", set("new")),
            ("m", Change::Incr(1)),
            ("y", set("new")),
            ("gone", Change::Restore),
        ]
    };
    let mut refused = Vec::new();
    for name in ["a", "j", "z"] {
        let changes = around()
            .into_iter()
            .chain([(name, Change::Incr(1))])
            .collect();
        refused.push((
            h.mutation(&ann, changes).await,
            Refusal::NotInteger(field(name)),
        ));
        let changes = around().into_iter().chain([(name, set("new"))]).collect();
        refused.push((
            h.mutation(&ann, changes).await.when(Condition::Absent),
            Refusal::Exists(field(name)),
        ));
    }
    for name in ["b", "k", "zz"] {
        let changes = around()
            .into_iter()
            .chain([(name, Change::Incr(1))])
            .collect();
        refused.push((
            h.mutation(&ann, changes).await,
            Refusal::Overflow(field(name)),
        ));
    }
    for name in ["bb", "gone", "zzz"] {
        let changes = vec![("c", set("new")), ("x", set("new")), (name, Change::Purge)];
        refused.push((h.mutation(&ann, changes).await, Refusal::NotLanded));
    }
    let wrong = Condition::Version(Version::new(1).unwrap());
    let version = before.0.header.unwrap().version;
    refused.push((
        h.mutation(&ann, around()).await.when(wrong),
        Refusal::Version(version),
    ));
    let mut late = h.mutation(&ann, around()).await;
    late.deadline = LONG_AGO;
    refused.push((late, Refusal::Expired));
    for (mutation, refusal) in refused {
        assert_eq!(h.send(&mutation, None).await, Mutated::Refused(refusal));
        assert_eq!(
            (h.read(&ann).await, h.observe(&ann).await),
            before,
            "{mutation:?}"
        );
    }
    let source = h.record(h.partition(&ann)).await.source;
    assert_eq!(source, version, "no version was used up");
}
