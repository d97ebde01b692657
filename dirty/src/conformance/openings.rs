//! The basis of a session: the whole owner, from the hot tier or from a load (S2).

use storage_model::{Epoch, Owner, Version};

use super::field;
use super::harness::{Harness, above, all_rows, applied, live, owner, set};
use super::sessions::{ASK, HOLDER, OTHER, open, opening, session_of, take};
use crate::{Claimed, HotKind, HotRead, Load, Marker, Observed, OpenSession, Opened};

/// Opens with this load. The session must be open then.
async fn open_with(h: &Harness, open: &OpenSession, load: Load) -> (storage_model::Fence, HotRead) {
    match h
        .store()
        .sessions
        .open_session(&OpenSession {
            load: Some(load),
            ..open.clone()
        })
        .await
        .unwrap()
    {
        Opened::Open { fence, read, .. } => (fence, read),
        other => panic!("{other:?}"),
    }
}

async fn needs_load(h: &Harness, open: &OpenSession) -> Observed {
    match h.store().sessions.open_session(open).await.unwrap() {
        Opened::Load(observed) => observed,
        other => panic!("{other:?}"),
    }
}

/// Adopts the partition of an owner after the hot tier forgot landed data. The grace of the epoch
/// has ended.
async fn rewound(h: &Harness, owner: &Owner) {
    let partition = h.partition(owner);
    let landed = above(h.record(partition).await.source, 7);
    assert!(h.adopt(partition, 2, landed).await);
    assert!(h.end_grace(partition, 2).await);
}

/// There is nothing to load.
pub async fn an_owner_that_is_known_to_be_absent_is_opened_as_it_is(h: &Harness) {
    let ann = owner("ann");
    h.make_absent(&ann).await;
    let open = opening(h, &ann, HOLDER, None).await;
    let Opened::Open { fence, read, .. } = h.store().sessions.open_session(&open).await.unwrap()
    else {
        panic!()
    };
    assert_eq!(read, HotRead::default());
    let seen = h.observe(&ann).await;
    assert!(seen.marker.is_absent() && !seen.present, "{seen:?}");
    assert_eq!(seen.epoch, Epoch(1));
    applied(
        h.send(
            &h.mutation(&ann, vec![("gold", set("1"))]).await.by(fence),
            None,
        )
        .await,
    );
    assert!(h.read(&ann).await.header.unwrap().complete);
}

/// R14: the database may have rows by now that it lacked when the hot tier's copy was made.
pub async fn a_negative_answer_from_before_a_rewind_opens_nothing(h: &Harness) {
    let ann = owner("ann");
    h.make_absent(&ann).await;
    rewound(h, &ann).await;
    let open = opening(h, &ann, HOLDER, None).await;
    let observed = needs_load(h, &open).await;
    let seen = observed;
    assert!(seen.marker.is_unknown() && !seen.present, "{seen:?}");
    assert_eq!(seen.epoch, Epoch(2));
    let (_, read) = open_with(h, &open, all_rows(&ann, observed, vec![])).await;
    assert_eq!(read, HotRead::default());
    assert!(h.observe(&ann).await.marker.is_absent());
}

/// Otherwise each later read of the whole owner would ask the database.
pub async fn an_owner_without_rows_is_whole_from_the_first_save_on(h: &Harness) {
    let ann = owner("ann");
    let open = opening(h, &ann, HOLDER, None).await;
    let observed = needs_load(h, &open).await;
    let (fence, read) = open_with(h, &open, all_rows(&ann, observed, vec![])).await;
    assert_eq!(read, HotRead::default());
    let seen = h.observe(&ann).await;
    assert!(seen.marker.is_absent() && !seen.present, "{seen:?}");
    assert_eq!(seen.epoch, Epoch(1));
    let save = h
        .mutation(&ann, vec![("bag", set("x")), ("gold", set("1"))])
        .await
        .by(fence);
    let version = applied(h.send(&save, None).await).version;
    let header = h.read(&ann).await.header.unwrap();
    assert_eq!(
        (
            header.version,
            header.complete,
            h.observe(&ann).await.marker
        ),
        (version, true, Marker::At(version))
    );
    let last = h
        .mutation(&ann, vec![("gold", set("2"))])
        .await
        .by(fence)
        .closing();
    let version = applied(h.send(&last, None).await).version;
    h.land(&ann).await;
    h.store()
        .owners
        .evict(std::slice::from_ref(&ann))
        .await
        .remove(0)
        .unwrap();
    // The owner is cold, and all of it comes from the database.
    let open = opening(h, &ann, OTHER, None).await;
    let observed = needs_load(h, &open).await;
    let rows = vec![("bag", live("x"), version), ("gold", live("2"), version)];
    let (next, read) = open_with(h, &open, all_rows(&ann, observed, rows)).await;
    assert!(next > fence && read.header.unwrap().complete);
    assert_eq!(
        read.cells,
        [(field("bag"), live("x")), (field("gold"), live("2"))]
    );
}

/// All of its rows may have been deleted.
pub async fn an_owner_with_a_marker_and_no_row_is_opened_with_an_empty_hash(h: &Harness) {
    let (ann, version) = h.cold("ann").await;
    let open = opening(h, &ann, HOLDER, None).await;
    let observed = needs_load(h, &open).await;
    assert_eq!(observed.marker, Marker::At(version));
    let (fence, read) = open_with(h, &open, all_rows(&ann, observed, vec![])).await;
    let header = read.header.unwrap();
    assert_eq!(
        (header.version, header.complete, read.cells),
        (version, true, vec![])
    );
    h.assert_lasting(&ann).await;
    applied(
        h.send(
            &h.mutation(&ann, vec![("gold", set("5"))]).await.by(fence),
            None,
        )
        .await,
    );
    let read = h.read(&ann).await;
    assert_eq!(
        (read.header.unwrap().complete, read.cells),
        (true, vec![(field("gold"), live("5"))])
    );
}

/// It may lack landed data, and some of the rows do not tell.
pub async fn a_suspect_hash_is_whole_only_with_all_of_its_rows(h: &Harness) {
    let ann = owner("ann");
    h.make_absent(&ann).await;
    h.set(&ann, "gold", "1").await;
    rewound(h, &ann).await;
    let open = opening(h, &ann, HOLDER, None).await;
    let observed = needs_load(h, &open).await;
    let newer = h.record(h.partition(&ann)).await.landed;
    let all = all_rows(&ann, observed, vec![("gold", live("9"), newer)]);
    let part = Load {
        complete: false,
        ..all.clone()
    };
    let answer = h
        .store()
        .sessions
        .open_session(&OpenSession {
            load: Some(part),
            ..open.clone()
        })
        .await
        .unwrap();
    assert_eq!(answer, Opened::Load(observed));
    assert_eq!(session_of(h, &ann).await, None);
    let (_, read) = open_with(h, &open, all).await;
    assert_eq!(read.cells, [(field("gold"), live("9"))]);
    assert!(!read.header.unwrap().suspect);
}

/// S1: also if the hot tier knows no version that is as new.
pub async fn a_fence_is_above_the_rows_that_its_session_begins_with(h: &Harness) {
    let ann = owner("ann");
    let open = opening(h, &ann, HOLDER, None).await;
    let observed = needs_load(h, &open).await;
    let newest = above(
        Version::new(h.store().tier.time().await.unwrap().0).unwrap(),
        1_000_000_000_000,
    );
    let (fence, read) = open_with(
        h,
        &open,
        all_rows(&ann, observed, vec![("gold", live("1"), newest)]),
    )
    .await;
    assert_eq!(read.header.unwrap().version, newest);
    assert!(fence.version > newest);
    let save = h.mutation(&ann, vec![("gold", set("2"))]).await.by(fence);
    assert!(applied(h.send(&save, None).await).version > fence.version);
}

/// A login is rejected. Open sessions can still end.
pub async fn at_the_memory_limit_nothing_is_opened_and_sessions_end(h: &Harness) {
    let [ann, bob, cat] = <[Owner; 3]>::try_from(h.owners_of_one_partition(3)).unwrap();
    let partition = h.partition(&ann);
    for owner in [&ann, &bob, &cat] {
        h.make_absent(owner).await;
    }
    let (anns, bobs) = (open(h, &ann).await, take(h, &bob, OTHER, None).await);
    let cats = opening(h, &cat, HOLDER, None).await;
    h.rig().exhaust().await;
    assert_eq!(
        h.store()
            .sessions
            .open_session(&cats)
            .await
            .unwrap_err()
            .kind,
        HotKind::OutOfMemory
    );
    assert_eq!(session_of(h, &cat).await, None);
    let save = anns.save(h, "1").await;
    assert_eq!(
        h.try_send(&save, None).await.unwrap_err().kind,
        HotKind::OutOfMemory
    );
    assert!(matches!(anns.claim(h).await, Claimed::Yes { .. }));
    assert!(
        h.store()
            .sessions
            .ask_session(&ann, anns.fence, ASK, "game 2")
            .await
            .unwrap()
    );
    h.store()
        .holders
        .beat(&[partition], Some((HOLDER, 1)))
        .await
        .remove(0)
        .unwrap();
    assert_eq!(h.store().holders.lapse(partition, OTHER, 0).await, Ok(1));
    assert_eq!(
        h.store()
            .holders
            .forget_lapsed(partition, &[(bob, bobs.fence)])
            .await,
        Ok(1)
    );
    assert!(
        h.store()
            .sessions
            .close_session(&ann, anns.fence)
            .await
            .unwrap()
    );
}
