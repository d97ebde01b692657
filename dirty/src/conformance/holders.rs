//! Holders: their sessions, the asks of other servers, and the sessions of holders that are gone
//! (S5, S6).

use storage_model::{Condition, Epoch, Fence, OpId, Outcome, Owner, Version};

use super::harness::{Harness, applied, owner, set};
use super::sessions::{
    ASK, HOLDER, Held, OTHER, is_fenced, is_held, open, opening, session_of, take,
};
use crate::{Adoption, Asked, Claimed, HotError, HotKind};

/// The sessions that a holder has in the partition of an owner, according to the hot tier.
async fn held_by(h: &Harness, owner: &Owner, holder: OpId) -> Vec<(Owner, Fence)> {
    let mut held = h
        .store()
        .holders
        .held_by(h.partition(owner), holder)
        .await
        .unwrap();
    held.sort();
    held
}

async fn lapsed(h: &Harness, owner: &Owner) -> Vec<(Owner, Fence)> {
    let mut lapsed = h.store().holders.lapsed(h.partition(owner)).await.unwrap();
    lapsed.sort();
    lapsed
}

fn named(sessions: &[&Held]) -> Vec<(Owner, Fence)> {
    let mut named: Vec<_> = sessions
        .iter()
        .map(|held| (held.owner.clone(), held.fence))
        .collect();
    named.sort();
    named
}

/// A holder uses this to find sessions that it does not know.
pub async fn a_holder_is_told_of_its_sessions_and_of_no_others(h: &Harness) {
    let [ann, bob, cat] = <[Owner; 3]>::try_from(h.owners_of_one_partition(3)).unwrap();
    assert_eq!(held_by(h, &ann, HOLDER).await, []);
    let (anns, bobs, cats) = (
        open(h, &ann).await,
        open(h, &bob).await,
        take(h, &cat, OTHER, None).await,
    );
    assert_eq!(held_by(h, &ann, HOLDER).await, named(&[&anns, &bobs]));
    assert_eq!(held_by(h, &ann, OTHER).await, named(&[&cats]));
    let stolen = take(h, &bob, OTHER, Some(bobs.fence)).await;
    assert_eq!(held_by(h, &ann, HOLDER).await, named(&[&anns]));
    assert!(
        h.store()
            .sessions
            .close_session(&cat, cats.fence)
            .await
            .unwrap()
    );
    assert_eq!(held_by(h, &ann, OTHER).await, named(&[&stolen]));
    assert_eq!(
        h.store()
            .holders
            .lapse(h.partition(&ann), HOLDER, 0)
            .await
            .unwrap(),
        1
    );
    assert_eq!(
        (held_by(h, &ann, HOLDER).await, lapsed(h, &ann).await),
        (vec![], named(&[&anns]))
    );
    for elsewhere in h
        .partitions()
        .into_iter()
        .filter(|partition| *partition != h.partition(&ann))
    {
        assert_eq!(
            h.store().holders.held_by(elsewhere, OTHER).await,
            Ok(vec![])
        );
        assert_eq!(h.store().holders.lapsed(elsewhere).await, Ok(vec![]));
    }
}

/// They are read and changed in parts.
pub async fn more_sessions_than_one_call_takes_are_listed_lapse_and_are_forgotten(h: &Harness) {
    let owners = h.owners_of_one_partition(450);
    let (mut sessions, partition) = (Vec::new(), h.partition(&owners[0]));
    for owner in &owners {
        sessions.push(open(h, owner).await);
    }
    let all = named(&sessions.iter().collect::<Vec<_>>());
    h.store()
        .holders
        .beat(&[partition], Some((HOLDER, 1)))
        .await
        .remove(0)
        .unwrap();
    assert_eq!(held_by(h, &owners[0], HOLDER).await, all);
    assert_eq!(h.store().holders.lapse(partition, HOLDER, 1).await, Ok(450));
    assert_eq!(
        h.store()
            .holders
            .beat(&[partition], None)
            .await
            .remove(0)
            .unwrap()
            .beats,
        [],
        "its beat goes with its last session"
    );
    assert_eq!(
        (
            held_by(h, &owners[0], HOLDER).await,
            lapsed(h, &owners[0]).await
        ),
        (vec![], all.clone())
    );
    assert_eq!(
        h.store().holders.forget_lapsed(partition, &all).await,
        Ok(450)
    );
    assert_eq!(lapsed(h, &owners[0]).await, []);
}

/// Otherwise it would be kept for ever.
pub async fn a_lapsed_session_that_is_forgotten_is_lost_for_good(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    let held = open(h, &ann).await;
    let version = applied(h.send(&held.save(h, "1").await, None).await).version;
    h.store().holders.lapse(partition, HOLDER, 0).await.unwrap();
    let all = lapsed(h, &ann).await;
    assert_eq!(
        h.store().holders.forget_lapsed(partition, &all).await,
        Ok(1)
    );
    assert_eq!(
        h.store().holders.forget_lapsed(partition, &all).await,
        Ok(0),
        "it is forgotten already"
    );
    assert_eq!(
        (lapsed(h, &ann).await, session_of(h, &ann).await),
        (vec![], None)
    );
    for save in [
        held.save(h, "2").await,
        held.save(h, "2").await.when(Condition::Version(version)),
    ] {
        assert!(is_fenced(&h.send(&save, None).await));
    }
    assert_eq!(held.claim(h).await, Claimed::No(None));
    assert!(
        !h.store()
            .sessions
            .close_session(&ann, held.fence)
            .await
            .unwrap()
    );
    h.set(&ann, "gold", "3").await;
}

/// A caller forgets sessions that it has looked up before.
pub async fn a_session_that_went_on_or_was_taken_is_not_forgotten(h: &Harness) {
    let [ann, bob, cat] = <[Owner; 3]>::try_from(h.owners_of_one_partition(3)).unwrap();
    let partition = h.partition(&ann);
    let (anns, bobs, cats) = (
        open(h, &ann).await,
        open(h, &bob).await,
        open(h, &cat).await,
    );
    let version = applied(h.send(&anns.save(h, "1").await, None).await).version;
    h.store().holders.lapse(partition, HOLDER, 0).await.unwrap();
    let seen = lapsed(h, &ann).await;
    assert_eq!(seen, named(&[&anns, &bobs, &cats]));
    applied(
        h.send(
            &anns.save(h, "2").await.when(Condition::Version(version)),
            None,
        )
        .await,
    );
    let taken = take(h, &bob, OTHER, None).await;
    let another = take(h, &cat, OTHER, None).await;
    h.store().holders.lapse(partition, OTHER, 0).await.unwrap();
    let again = take(h, &bob, OTHER, None).await;
    assert!(again.fence > taken.fence);
    assert_eq!(
        h.store().holders.forget_lapsed(partition, &seen).await,
        Ok(0)
    );
    assert_eq!(
        lapsed(h, &ann).await,
        named(&[&another]),
        "a later one of the same owner, which has lapsed as well"
    );
    for (owner, fence) in [(&ann, anns.fence), (&bob, again.fence)] {
        let session = session_of(h, owner).await.unwrap();
        assert_eq!((session.fence, session.is_lapsed()), (fence, false));
    }
    applied(h.send(&anns.save(h, "3").await, None).await);
}

/// A game server without sessions looks, too.
pub async fn who_looks_at_beats_changes_none(h: &Harness) {
    let partition = h.partition(&owner("ann"));
    let look = async || {
        h.store()
            .holders
            .beat(&[partition], None)
            .await
            .remove(0)
            .unwrap()
    };
    assert_eq!(look().await.beats, []);
    for beat in [3, 4] {
        let raised = h
            .store()
            .holders
            .beat(&[partition], Some((HOLDER, beat)))
            .await
            .remove(0)
            .unwrap();
        for _ in 0..2 {
            assert_eq!(look().await, raised);
        }
        assert_eq!(raised.beats, [(HOLDER, beat)]);
    }
    assert_eq!(
        (look().await.adoption.epoch, look().await.graced),
        (Epoch(1), true)
    );
    h.store()
        .holders
        .beat(&[partition], Some((OTHER, 1)))
        .await
        .remove(0)
        .unwrap();
    let mut beats = look().await.beats;
    beats.sort();
    assert_eq!(beats, [(HOLDER, 4), (OTHER, 1)]);
}

/// Otherwise a process that looked before and after it would take the holder for silent, although
/// the holder has beaten in between.
pub async fn a_late_copy_of_a_beat_lowers_nothing(h: &Harness) {
    let partition = h.partition(&owner("ann"));
    let beat = async |raised| {
        h.store()
            .holders
            .beat(&[partition], raised)
            .await
            .remove(0)
            .unwrap()
            .beats
    };
    for (raised, last) in [(3, 3), (4, 4), (3, 4), (5, 5)] {
        assert_eq!(beat(Some((HOLDER, raised))).await, [(HOLDER, last)]);
        // The beats of an answer are those of before the call. So it takes another look.
        assert_eq!(beat(None).await, [(HOLDER, last)]);
    }
}

/// Its session came after its last beat had gone.
pub async fn a_holder_that_never_beat_is_missed(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    let beats = async || {
        h.store()
            .holders
            .beat(&[partition], None)
            .await
            .remove(0)
            .unwrap()
            .beats
    };
    let held = open(h, &ann).await;
    let version = applied(h.send(&held.save(h, "1").await, None).await).version;
    assert_eq!(beats().await, [(HOLDER, 0)]);
    assert_eq!(h.store().holders.lapse(partition, HOLDER, 0).await, Ok(1));
    assert_eq!(beats().await, []);
    // The session goes on.
    applied(
        h.send(
            &held.save(h, "2").await.when(Condition::Version(version)),
            None,
        )
        .await,
    );
    assert_eq!(beats().await, [(HOLDER, 0)]);
}

/// The hot tier had forgotten the beat, and the holder dies before it beats again.
pub async fn a_holder_whose_beat_was_forgotten_is_missed(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    let held = open(h, &ann).await;
    h.rig().wipe().await;
    assert!(h.adopt(partition, 5, Version::ZERO).await);
    assert!(matches!(held.claim(h).await, Claimed::Yes { .. }));
    let beats = h
        .store()
        .holders
        .beat(&[partition], None)
        .await
        .remove(0)
        .unwrap();
    assert_eq!(beats.beats, [(HOLDER, 0)]);
    assert_eq!(h.store().holders.lapse(partition, HOLDER, 0).await, Ok(1));
}

/// No holder is left to answer.
pub async fn nobody_is_asked_for_a_session_that_lapsed(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    let held = open(h, &ann).await;
    let version = applied(h.send(&held.save(h, "1").await, None).await).version;
    assert!(
        h.store()
            .sessions
            .ask_session(&ann, held.fence, ASK, "game 2")
            .await
            .unwrap()
    );
    h.store().holders.lapse(partition, HOLDER, 0).await.unwrap();
    let before = session_of(h, &ann).await;
    assert!(
        !h.store()
            .sessions
            .ask_session(&ann, held.fence, ASK, "game 3")
            .await
            .unwrap()
    );
    assert_eq!(session_of(h, &ann).await, before);
    assert_eq!(
        before.unwrap().asked,
        None,
        "the ask from before the lapse is forgotten"
    );
    applied(
        h.send(
            &held.save(h, "2").await.when(Condition::Version(version)),
            None,
        )
        .await,
    );
    assert_eq!(session_of(h, &ann).await.unwrap().asked, None);
    assert_eq!(
        h.store().holders.asked(&[partition], HOLDER).await,
        [Ok(vec![])]
    );
}

/// The word that stands for nobody is not a name.
pub async fn who_asks_has_a_name(h: &Harness) {
    let ann = owner("ann");
    let mut opening = opening(h, &ann, HOLDER, None).await;
    opening.name = "-".to_owned();
    h.make_absent(&ann).await;
    let crate::Opened::Open { fence, .. } =
        h.store().sessions.open_session(&opening).await.unwrap()
    else {
        panic!()
    };
    assert_eq!(session_of(h, &ann).await.unwrap().name, "_");
    for (name, word) in [
        ("-", "_"),
        ("", "_"),
        ("- -", "__-"),
        ("--x", "_-x"),
        ("x-", "x-"),
        ("\u{a0}-", "_-"),
        ("a\tb", "a_b"),
    ] {
        assert!(
            h.store()
                .sessions
                .ask_session(&ann, fence, ASK, name)
                .await
                .unwrap()
        );
        assert_eq!(
            session_of(h, &ann).await.unwrap().asked.as_deref(),
            Some(word),
            "{name:?}"
        );
        let heard = Asked {
            owner: ann.clone(),
            fence,
            ask: ASK,
            by: word.to_owned(),
        };
        assert_eq!(
            h.store().holders.asked(&[h.partition(&ann)], HOLDER).await,
            [Ok(vec![heard])]
        );
    }
}

/// Otherwise its holder would see the ask, and give away an owner of another session.
pub async fn who_asked_for_a_session_is_forgotten_with_it(h: &Harness) {
    let ann = owner("ann");
    let first = open(h, &ann).await;
    h.rig().save().await;
    let second = take(h, &ann, OTHER, Some(first.fence)).await;
    h.rig().rewind().await;
    for partition in h.partitions() {
        assert!(h.adopt(partition, 2, Version::ZERO).await);
    }
    assert!(
        h.store()
            .sessions
            .ask_session(&ann, first.fence, ASK, "game 3")
            .await
            .unwrap()
    );
    assert!(matches!(second.claim(h).await, Claimed::Yes { .. }));
    assert_eq!(session_of(h, &ann).await.unwrap().asked, None);
    assert_eq!(
        h.store().holders.asked(&[h.partition(&ann)], HOLDER).await,
        [Ok(vec![])]
    );
}

/// R14: the sessions of another incarnation may be older.
pub async fn another_incarnation_changes_no_session(h: &Harness) {
    let [ann, bob] = <[Owner; 2]>::try_from(h.owners_of_one_partition(2)).unwrap();
    let partition = h.partition(&ann);
    let held = open(h, &ann).await;
    let open = opening(h, &bob, HOLDER, None).await;
    let before = session_of(h, &ann).await;
    let claim = crate::ClaimSession {
        owner: ann.clone(),
        fence: held.fence,
        holder: HOLDER,
        name: "game 1".to_owned(),
        epoch: held.epoch,
        acked: held.fence.version,
    };
    let store = h.store();
    h.rig().reincarnate().await;
    let errors: [(&str, Option<HotError>); 8] = [
        (
            "close",
            store.sessions.close_session(&ann, held.fence).await.err(),
        ),
        (
            "ask",
            store
                .sessions
                .ask_session(&ann, held.fence, ASK, "game 2")
                .await
                .err(),
        ),
        (
            "lapse",
            store.holders.lapse(partition, HOLDER, 0).await.err(),
        ),
        ("open", store.sessions.open_session(&open).await.err()),
        ("claim", store.sessions.claim_session(&claim).await.err()),
        (
            "beat",
            store
                .holders
                .beat(&[partition], Some((HOLDER, 1)))
                .await
                .remove(0)
                .err(),
        ),
        (
            "forget",
            store
                .holders
                .forget_lapsed(partition, &[(ann.clone(), held.fence)])
                .await
                .err(),
        ),
        (
            "end of the grace",
            store
                .holders
                .end_grace(partition, Adoption::default())
                .await
                .err(),
        ),
    ];
    for (call, error) in errors {
        let error = error.unwrap_or_else(|| panic!("{call} is carried out"));
        assert_eq!(
            (error.kind, error.outcome),
            (HotKind::Unprepared(partition), Outcome::NotApplied),
            "{call}"
        );
    }
    assert!(h.adopt(partition, 2, Version::ZERO).await);
    assert_eq!(session_of(h, &ann).await, before);
    assert_eq!(
        h.store()
            .holders
            .beat(&[partition], None)
            .await
            .remove(0)
            .unwrap()
            .beats,
        [(HOLDER, 0)]
    );
    assert!(is_held(
        &h.change(&ann, vec![("gold", set("1"))]).await,
        held.fence
    ));
}
