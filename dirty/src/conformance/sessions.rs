//! The holder of an owner (S1 to S8).

use std::time::Duration;

use storage_model::{
    Change, Condition, Epoch, Fence, Ids, Mutation, OpId, Owner, RandomIds, Timestamp, Version,
};

use super::harness::{Harness, applied, live, owner, set};
use crate::{
    Asked, ClaimSession, Claimed, HotRead, Mutated, OpenSession, Opened, Refusal, Session,
};

pub(super) const HOLDER: OpId = OpId::new([7; 16]);
/// The id of a request for an owner.
pub(super) const ASK: OpId = OpId::new([2; 16]);
pub(super) const OTHER: OpId = OpId::new([8; 16]);

/// A session, as its opener knows it.
pub(super) struct Held {
    pub(super) owner: Owner,
    pub(super) fence: Fence,
    pub(super) epoch: Epoch,
    pub(super) read: HotRead,
}

pub(super) async fn opening(
    h: &Harness,
    owner: &Owner,
    holder: OpId,
    takes: Option<Fence>,
) -> OpenSession {
    let deadline = h
        .store()
        .tier
        .time()
        .await
        .unwrap()
        .plus(Duration::from_secs(30));
    let (owner, token, name) = (owner.clone(), RandomIds.next(), "game 1".to_owned());
    OpenSession {
        owner,
        token,
        holder,
        name,
        takes,
        deadline,
        load: None,
    }
}

/// Opens a session, with an empty load if it needs one.
pub(super) async fn try_open(
    h: &Harness,
    owner: &Owner,
    holder: OpId,
    takes: Option<Fence>,
) -> Opened {
    let mut open = opening(h, owner, holder, takes).await;
    match h.store().sessions.open_session(&open).await.unwrap() {
        Opened::Load(observed) => {
            open.load = Some(crate::Load {
                owner: owner.clone(),
                observed,
                rows: Vec::new(),
                complete: true,
            });
            h.store().sessions.open_session(&open).await.unwrap()
        }
        other => other,
    }
}

pub(super) async fn open(h: &Harness, owner: &Owner) -> Held {
    take(h, owner, HOLDER, None).await
}

pub(super) async fn take(h: &Harness, owner: &Owner, holder: OpId, takes: Option<Fence>) -> Held {
    match try_open(h, owner, holder, takes).await {
        Opened::Open { fence, epoch, read } => Held {
            owner: owner.clone(),
            fence,
            epoch,
            read,
        },
        other => panic!("{other:?}"),
    }
}

impl Held {
    pub(super) async fn save(&self, h: &Harness, value: &str) -> Mutation {
        h.mutation(&self.owner, vec![("gold", set(value))])
            .await
            .by(self.fence)
    }

    pub(super) async fn claim(&self, h: &Harness) -> Claimed {
        self.claim_knowing(h, self.fence.version).await
    }

    /// Claims it as a session with this version of its owner acknowledged.
    async fn claim_knowing(&self, h: &Harness, acked: Version) -> Claimed {
        let claim = ClaimSession {
            owner: self.owner.clone(),
            fence: self.fence,
            holder: HOLDER,
            name: "game 1".to_owned(),
            epoch: self.epoch,
            acked,
        };
        h.store().sessions.claim_session(&claim).await.unwrap()
    }
}

pub(super) async fn session_of(h: &Harness, owner: &Owner) -> Option<Session> {
    h.store()
        .sessions
        .sessions_of(std::slice::from_ref(owner))
        .await
        .remove(0)
        .unwrap()
}

pub(super) fn is_held(answer: &Mutated, by: Fence) -> bool {
    matches!(answer, Mutated::Refused(Refusal::Held(session)) if session.fence == by)
}

pub(super) fn is_fenced(answer: &Mutated) -> bool {
    matches!(answer, Mutated::Refused(Refusal::Fenced(_)))
}

/// A session that began with a part of the owner would save that part over the rest.
pub async fn a_session_is_opened_with_the_whole_owner_or_not_at_all(h: &Harness) {
    let ann = owner("ann");
    h.set(&ann, "gold", "1").await; // nothing is known of the other fields
    let mut first = opening(h, &ann, HOLDER, None).await;
    let Opened::Load(observed) = h.store().sessions.open_session(&first).await.unwrap() else {
        panic!()
    };
    assert_eq!(
        session_of(h, &ann).await,
        None,
        "an opening that needs a load leaves nothing behind"
    );
    let row = (super::field("bag"), live("full"), Version::new(3).unwrap());
    first.load = Some(crate::Load {
        owner: ann.clone(),
        observed,
        rows: vec![row],
        complete: true,
    });
    let Opened::Open { fence, read, .. } = h.store().sessions.open_session(&first).await.unwrap()
    else {
        panic!()
    };
    assert_eq!(
        read.cells,
        [
            (super::field("bag"), live("full")),
            (super::field("gold"), live("1"))
        ]
    );
    assert!(fence.version > read.header.unwrap().version);
    let held = session_of(h, &ann).await.unwrap();
    assert_eq!(
        (held.fence, held.holder, &*held.name, held.is_lapsed()),
        (fence, HOLDER, "game_1", false)
    );
    let bob = open(h, &owner("bob")).await;
    assert_eq!(bob.read, HotRead::default(), "a new owner is whole, too");
}

/// Otherwise nobody would know its session.
pub async fn a_lost_answer_to_an_opening_is_asked_for_again(h: &Harness) {
    let ann = owner("ann");
    h.make_absent(&ann).await;
    let open = opening(h, &ann, HOLDER, None).await;
    let first = h.store().sessions.open_session(&open).await.unwrap();
    assert_eq!(h.store().sessions.open_session(&open).await.unwrap(), first);
    let late = OpenSession {
        deadline: Timestamp(1),
        ..opening(h, &owner("bob"), HOLDER, None).await
    };
    assert_eq!(
        h.store().sessions.open_session(&late).await.unwrap(),
        Opened::Expired
    );
}

/// Its holder would not see the write, and would save over it.
pub async fn an_owner_that_is_held_takes_no_plain_write(h: &Harness) {
    let ann = owner("ann");
    let held = open(h, &ann).await;
    for changes in [
        vec![("gold", set("1"))],
        vec![("gold", Change::Incr(1))],
        vec![("gold", Change::Remove)],
    ] {
        assert!(is_held(&h.change(&ann, changes).await, held.fence));
    }
    assert_eq!(h.read(&ann).await, HotRead::default());
    let save = held.save(h, "2").await;
    assert_eq!(applied(h.send(&save, None).await).changed, 1);
    assert!(is_held(
        &h.change(&ann, vec![("gold", set("1"))]).await,
        held.fence
    ));
    assert!(
        h.store()
            .sessions
            .close_session(&ann, held.fence)
            .await
            .unwrap()
    );
    assert!(
        !h.store()
            .sessions
            .close_session(&ann, held.fence)
            .await
            .unwrap()
    );
    h.set(&ann, "gold", "3").await;
}

/// However late it wakes.
pub async fn a_former_holder_writes_nothing(h: &Harness) {
    let ann = owner("ann");
    let first = open(h, &ann).await;
    h.send(&first.save(h, "1").await, None).await;
    let second = take(h, &ann, OTHER, Some(first.fence)).await;
    assert_eq!(second.read.cells, [(super::field("gold"), live("1"))]);
    assert!(second.fence > first.fence);
    let late = first.save(h, "2").await;
    let conditional = late
        .clone()
        .when(Condition::Version(second.read.header.unwrap().version));
    for late in [late.clone(), conditional, late.closing()] {
        assert!(is_fenced(&h.send(&late, None).await));
    }
    assert!(
        !h.store()
            .sessions
            .close_session(&ann, first.fence)
            .await
            .unwrap()
    );
    assert_eq!(h.live(&ann, "gold").await.as_deref(), Some(&b"1"[..]));
    assert_eq!(
        applied(h.send(&second.save(h, "3").await, None).await).changed,
        1
    );
}

/// It does not replace another session that has come since.
pub async fn a_session_takes_the_place_of_the_one_that_it_names_alone(h: &Harness) {
    let ann = owner("ann");
    let first = open(h, &ann).await;
    let second = take(h, &ann, OTHER, Some(first.fence)).await;
    for takes in [None, Some(first.fence)] {
        assert!(
            matches!(try_open(h, &ann, HOLDER, takes).await, Opened::Held(held) if held.fence == second.fence)
        );
    }
}

/// Two histories may give the same version.
pub async fn a_fence_is_told_by_its_token_too(h: &Harness) {
    let ann = owner("ann");
    let held = open(h, &ann).await;
    let forged = Fence {
        token: OTHER,
        ..held.fence
    };
    for value in ["1", "2"] {
        let late = h
            .mutation(&ann, vec![("gold", set(value))])
            .await
            .by(forged);
        assert!(is_fenced(&h.send(&late, None).await));
        h.send(&held.save(h, "0").await, None).await;
    }
}

/// Otherwise the next session would begin without the save.
pub async fn the_last_save_ends_the_session_in_the_same_step(h: &Harness) {
    let ann = owner("ann");
    let held = open(h, &ann).await;
    let last = held.save(h, "9").await.closing();
    assert_eq!(applied(h.send(&last, None).await).changed, 1);
    assert_eq!(session_of(h, &ann).await, None);
    assert!(is_fenced(&h.send(&held.save(h, "10").await, None).await));
    let next = open(h, &ann).await;
    assert_eq!(next.read.cells, [(super::field("gold"), live("9"))]);
}

/// The holder crashed, or is cut off.
pub async fn a_holder_whose_beat_stands_still_loses_its_owners_to_whoever_comes(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    h.store()
        .holders
        .beat(&[partition], Some((HOLDER, 5)))
        .await
        .remove(0)
        .unwrap();
    let held = open(h, &ann).await;
    assert_eq!(
        h.store().holders.lapse(partition, HOLDER, 5).await.unwrap(),
        1
    );
    assert!(session_of(h, &ann).await.unwrap().is_lapsed());
    let next = take(h, &ann, OTHER, None).await;
    assert!(is_fenced(&h.send(&held.save(h, "1").await, None).await));
    assert_eq!(
        applied(h.send(&next.save(h, "2").await, None).await).changed,
        1
    );
}

/// The caller has looked at the beat before.
pub async fn a_holder_that_beats_is_not_gone(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    h.store()
        .holders
        .beat(&[partition], Some((HOLDER, 5)))
        .await
        .remove(0)
        .unwrap();
    let held = open(h, &ann).await;
    let beats = h
        .store()
        .holders
        .beat(&[partition], Some((HOLDER, 6)))
        .await
        .remove(0)
        .unwrap();
    assert_eq!(beats.beats, [(HOLDER, 6)]);
    for beat in [5, 0] {
        assert_eq!(
            h.store()
                .holders
                .lapse(partition, HOLDER, beat)
                .await
                .unwrap(),
            0
        );
    }
    assert_eq!(
        applied(h.send(&held.save(h, "1").await, None).await).changed,
        1
    );
}

/// S6: on condition of the version that its holder knows, since others may have written in between.
pub async fn a_lapsed_session_goes_on_if_nobody_came(h: &Harness) {
    for written in [false, true] {
        let ann = owner(if written { "ann" } else { "bob" });
        let held = open(h, &ann).await;
        let version = applied(h.send(&held.save(h, "1").await, None).await).version;
        h.store()
            .holders
            .lapse(h.partition(&ann), HOLDER, 0)
            .await
            .unwrap();
        if written {
            h.set(&ann, "gold", "5").await;
        }
        let next = held.save(h, "2").await;
        assert_eq!(
            h.send(&next, None).await,
            Mutated::Refused(Refusal::Unconfirmed(held.epoch))
        );
        let answer = h.send(&next.when(Condition::Version(version)), None).await;
        if written {
            assert!(matches!(answer, Mutated::Refused(Refusal::Version(_))));
        } else {
            assert_eq!(applied(answer).changed, 1);
            assert!(!session_of(h, &ann).await.unwrap().is_lapsed());
            assert!(is_held(
                &h.change(&ann, vec![("gold", set("7"))]).await,
                held.fence
            ));
        }
    }
}

/// The holder sees it at its next look.
pub async fn a_holder_hears_who_asks(h: &Harness) {
    let ann = owner("ann");
    let partition = [h.partition(&ann)];
    let held = open(h, &ann).await;
    assert!(
        h.store()
            .sessions
            .ask_session(&ann, held.fence, ASK, "game 2")
            .await
            .unwrap()
    );
    assert_eq!(
        session_of(h, &ann).await.unwrap().asked.as_deref(),
        Some("game_2")
    );
    let heard = Asked {
        owner: ann.clone(),
        fence: held.fence,
        ask: ASK,
        by: "game_2".to_owned(),
    };
    assert_eq!(
        h.store().holders.asked(&partition, HOLDER).await,
        [Ok(vec![heard])]
    );
    assert_eq!(
        h.store().holders.asked(&partition, OTHER).await,
        [Ok(vec![])]
    );
    let next = take(h, &ann, OTHER, Some(held.fence)).await;
    assert!(
        !h.store()
            .sessions
            .ask_session(&ann, held.fence, ASK, "game 3")
            .await
            .unwrap()
    );
    assert_eq!(
        h.store().holders.asked(&partition, HOLDER).await,
        [Ok(vec![])]
    );
    assert_eq!(session_of(h, &ann).await.unwrap().fence, next.fence);
}

/// A later session may have been forgotten.
pub async fn after_a_change_of_the_epoch_nothing_is_saved_or_opened_before_the_grace_ends(
    h: &Harness,
) {
    let [ann, bob] = <[Owner; 2]>::try_from(h.owners_of_one_partition(2)).unwrap();
    let partition = h.partition(&ann);
    let held = open(h, &ann).await;
    let version = applied(h.send(&held.save(h, "1").await, None).await).version;
    assert!(h.adopt(partition, 2, Version::ZERO).await);
    let next = held.save(h, "2").await;
    for save in [next.clone(), next.clone().when(Condition::Version(version))] {
        assert_eq!(
            h.send(&save, None).await,
            Mutated::Refused(Refusal::Grace(Epoch(2)))
        );
    }
    assert_eq!(
        try_open(h, &bob, OTHER, None).await,
        Opened::Grace(Epoch(2))
    );
    assert_eq!(
        try_open(h, &ann, OTHER, Some(held.fence)).await,
        Opened::Grace(Epoch(2))
    );
    let Claimed::Yes {
        epoch: Epoch(2),
        graced: false,
        begun,
    } = held.claim(h).await
    else {
        panic!("it is not claimed")
    };
    assert!(
        version <= begun,
        "{version} was given in the epoch before, and {begun} is where this one begins"
    );
    assert!(
        !h.store()
            .sessions
            .close_session(&ann, held.fence)
            .await
            .unwrap(),
        "nor is a session ended"
    );
    assert!(!h.end_grace(partition, 1).await);
    assert!(h.end_grace(partition, 2).await);
    assert_eq!(
        held.claim(h).await,
        Claimed::Yes {
            epoch: Epoch(2),
            graced: true,
            begun
        }
    );
    assert_eq!(
        h.send(&next, None).await,
        Mutated::Refused(Refusal::Unconfirmed(Epoch(2)))
    );
    let confirmed = applied(h.send(&next.when(Condition::Version(version)), None).await);
    assert_eq!(confirmed.changed, 1);
    assert!(begun < confirmed.version);
    assert_eq!(
        applied(h.send(&held.save(h, "3").await, None).await).changed,
        1
    );
}

/// In any order.
pub async fn of_two_claims_the_later_session_wins(h: &Harness) {
    for first_claims_first in [true, false] {
        let ann = owner(if first_claims_first { "ann" } else { "bob" });
        let epoch = h.record(h.partition(&ann)).await.epoch.0 + 1;
        let first = open(h, &ann).await;
        h.rig().save().await;
        let second = take(h, &ann, OTHER, Some(first.fence)).await;
        h.rig().rewind().await;
        for partition in h.partitions() {
            assert!(h.adopt(partition, epoch, Version::ZERO).await);
        }
        if first_claims_first {
            assert!(matches!(first.claim(h).await, Claimed::Yes { .. }));
        }
        assert!(matches!(second.claim(h).await, Claimed::Yes { .. }));
        assert!(
            matches!(first.claim(h).await, Claimed::No(Some(session)) if session.fence == second.fence)
        );
        for partition in h.partitions() {
            assert!(h.end_grace(partition, epoch).await);
        }
        let late = first
            .save(h, "1")
            .await
            .when(Condition::Version(Version::ZERO));
        assert!(is_fenced(&h.send(&late, None).await));
    }
}

/// S7: the session's state is newer than the state that the hot tier came back with.
pub async fn a_session_that_a_rewind_forgot_is_claimed_and_goes_on_where_it_was(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    let held = open(h, &ann).await;
    h.send(&held.save(h, "1").await, None).await;
    h.rig().wipe().await;
    for partition in h.partitions() {
        assert!(h.adopt(partition, 5, Version::ZERO).await);
    }
    assert!(
        is_fenced(&h.send(&held.save(h, "2").await, None).await),
        "it was forgotten"
    );
    assert!(matches!(
        held.claim(h).await,
        Claimed::Yes { graced: false, .. }
    ));
    assert!(matches!(
        try_open(h, &ann, OTHER, None).await,
        Opened::Held(_)
    ));
    assert!(h.end_grace(partition, 5).await);
    h.make_absent(&ann).await;
    let whole = held
        .save(h, "2")
        .await
        .when(Condition::Version(Version::ZERO));
    assert_eq!(applied(h.send(&whole, None).await).changed, 1);
    assert_eq!(h.live(&ann, "gold").await.as_deref(), Some(&b"2"[..]));
}

/// S1: also if the clock was set back.
pub async fn versions_go_on_above_those_that_a_claimed_session_knows(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    let held = open(h, &ann).await;
    let version = applied(h.send(&held.save(h, "1").await, None).await).version;
    assert!(h.adopt(partition, 2, Version::ZERO).await);
    let forgotten = version.plus(3_600_000_000);
    assert!(matches!(
        held.claim_knowing(h, forgotten).await,
        Claimed::Yes { .. }
    ));
    assert!(h.record(partition).await.source >= forgotten);
    assert!(h.end_grace(partition, 2).await);
    let confirmed = applied(
        h.send(
            &held.save(h, "2").await.when(Condition::Version(version)),
            None,
        )
        .await,
    );
    assert!(confirmed.version > forgotten);
    let next = take(h, &ann, OTHER, Some(held.fence)).await;
    assert!(next.fence.version > confirmed.version);
}

/// Another session may have come and gone since.
pub async fn once_the_grace_has_ended_a_forgotten_session_is_not_claimed(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    let held = open(h, &ann).await;
    h.rig().wipe().await;
    assert!(h.adopt(partition, 5, Version::ZERO).await);
    assert!(h.end_grace(partition, 5).await);
    let next = open(h, &ann).await;
    assert!(
        h.store()
            .sessions
            .close_session(&ann, next.fence)
            .await
            .unwrap()
    );
    assert_eq!(held.claim(h).await, Claimed::No(None));
    assert_eq!(session_of(h, &ann).await, None);
}

/// A delayed copy of a claim must not open a session that was closed.
pub async fn what_was_ended_is_not_claimed(h: &Harness) {
    let ann = owner("ann");
    let held = open(h, &ann).await;
    assert!(
        h.store()
            .sessions
            .close_session(&ann, held.fence)
            .await
            .unwrap()
    );
    assert_eq!(held.claim(h).await, Claimed::No(None));
    assert_eq!(session_of(h, &ann).await, None);
}
