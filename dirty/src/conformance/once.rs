//! At most once (R11, H4 to H6).

use std::time::Duration;

use storage_model::{Change, Epoch, Outcome, Owner, Version};

use super::harness::{Harness, LONG_AGO, above, applied, live, owner, removed, set};
use crate::{Mutated, Refusal};

/// A caller asks for a lost reply again.
pub async fn a_repeat_answers_what_the_first_did_after_other_writes(h: &Harness) {
    let ann = owner("ann");
    h.make_absent(&ann).await;
    let incr = h
        .named(
            &ann,
            vec![("gold", Change::Incr(5)), ("gems", Change::Incr(-1))],
        )
        .await;
    let first = h.send(&incr, None).await;
    for n in 0..50 {
        h.set(&ann, "gold", &n.to_string()).await;
    }
    let before = h.read(&ann).await;
    for _ in 0..3 {
        assert_eq!(h.send(&incr, None).await, first);
    }
    assert_eq!(h.read(&ann).await, before);
}

/// H6: ids do not live in the hash.
pub async fn a_repeat_is_recognised_after_eviction(h: &Harness) {
    let ann = owner("ann");
    let set = h.named(&ann, vec![("gold", set("1"))]).await;
    let first = h.send(&set, None).await;
    h.land(&ann).await;
    h.store()
        .owners
        .evict(std::slice::from_ref(&ann))
        .await
        .remove(0)
        .unwrap();
    assert_eq!(h.send(&set, None).await, first);
    assert_eq!(h.read(&ann).await.header, None, "nothing was written again");
}

/// H51: the hot tier may have forgotten the id, and later writes.
pub async fn a_copy_from_before_an_adoption_is_refused_unless_its_id_is_known(h: &Harness) {
    let [ann, bob] = <[Owner; 2]>::try_from(h.owners_of_one_partition(2)).unwrap();
    let partition = h.partition(&ann);
    let known = h
        .named(&ann, vec![("gold", set("1"))])
        .await
        .sent_in(Epoch(1));
    let first = h.send(&known, None).await;
    let late = [
        h.mutation(&bob, vec![("gold", set("1"))])
            .await
            .sent_in(Epoch(1)),
        h.mutation(&bob, vec![("gold", Change::Incr(1))])
            .await
            .sent_in(Epoch(1)),
    ];
    let version = applied(first.clone()).version;
    for (epoch, last_version, generation) in [(2, Version::ZERO, 1), (3, above(version, 1), 3)] {
        assert!(h.adopt(partition, epoch, last_version).await);
        let moved = Refusal::Moved {
            epoch: Epoch(epoch),
            generation: Epoch(generation),
        };
        for late in &late {
            assert_eq!(h.send(late, None).await, Mutated::Refused(moved.clone()));
            assert_eq!(h.read(&bob).await.header, None);
        }
    }
    assert_eq!(h.send(&known, None).await, first);
    let again = h
        .mutation(&bob, vec![("gold", set("2"))])
        .await
        .sent_in(Epoch(3));
    assert!(applied(h.send(&again, None).await).version > version);
}

/// H5: a delayed copy does not overtake later writes.
pub async fn a_mutation_after_its_deadline_is_refused(h: &Harness) {
    let ann = owner("ann");
    let mut late = h.mutation(&ann, vec![("gold", set("1"))]).await;
    late.deadline = LONG_AGO;
    assert_eq!(
        h.send(&late, None).await,
        Mutated::Refused(Refusal::Expired)
    );
    assert_eq!(h.read(&ann).await.header, None);
    late.deadline = h.store().tier.time().await.unwrap();
    assert_eq!(
        h.send(&late, None).await,
        Mutated::Refused(Refusal::Expired),
        "from that moment on"
    );
}

/// A later repeat would not be recognised.
pub async fn a_deadline_further_ahead_than_ids_are_kept_is_refused(h: &Harness) {
    let ann = owner("ann");
    let mut early = h.mutation(&ann, vec![("gold", set("1"))]).await;
    early.deadline = early.deadline.plus(Duration::from_secs(24 * 3_600));
    let error = h.try_send(&early, None).await.unwrap_err();
    assert_eq!(error.outcome, Outcome::NotApplied);
    assert_eq!(h.read(&ann).await.header, None);
}

/// H5: otherwise it would undo later writes.
pub async fn a_copy_that_was_held_up_changes_nothing_after_its_repeat_had_nothing_to_do(
    h: &Harness,
) {
    let ann = owner("ann");
    h.make_absent(&ann).await;
    h.set(&ann, "bag", "x").await;
    let cases = [
        ("gold", Change::Remove, set("1"), live("1")),
        ("bag", Change::Restore, Change::Remove, removed("x")),
    ];
    for (field, held_up, since, last) in cases {
        let held_up = h.named(&ann, vec![(field, held_up)]).await;
        let repeat = h.send(&held_up, None).await;
        assert_eq!(applied(repeat.clone()).changed, 0);
        let version = h.apply(&ann, vec![(field, since)]).await.version;
        assert_eq!(h.send(&held_up, None).await, repeat);
        assert_eq!(
            (
                h.read(&ann).await.header.unwrap().version,
                h.cell(&ann, field).await
            ),
            (version, Some(last))
        );
    }
}

/// A library may repeat a call on its own.
pub async fn a_repeat_in_one_batch_is_applied_once(h: &Harness) {
    let ann = owner("ann");
    h.make_absent(&ann).await;
    let incr = h.named(&ann, vec![("gold", Change::Incr(5))]).await;
    let replies = h
        .store()
        .owners
        .mutate(&[
            (incr.clone(), Vec::new()),
            (incr.clone(), Vec::new()),
            (incr, Vec::new()),
        ])
        .await;
    let first = applied(replies[0].clone().unwrap());
    for reply in replies {
        assert_eq!(applied(reply.unwrap()), first);
    }
    assert_eq!(h.cell(&ann, "gold").await, Some(live("5")));
}

/// A rejection is not remembered, since its cause may be gone.
pub async fn a_refused_mutation_may_be_sent_again(h: &Harness) {
    let ann = owner("ann");
    h.make_absent(&ann).await;
    h.set(&ann, "gold", "text").await;
    let incr = h.named(&ann, vec![("gold", Change::Incr(5))]).await;
    assert!(matches!(
        h.send(&incr, None).await,
        Mutated::Refused(Refusal::NotInteger(_))
    ));
    h.set(&ann, "gold", "1").await;
    assert_eq!(applied(h.send(&incr, None).await).counters, vec![6]);
}
