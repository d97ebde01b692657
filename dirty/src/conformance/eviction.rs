//! Eviction, time to live and the memory limit (R2, R13).

use std::time::Duration;

use storage_model::{Change, Version};

use super::Life;
use super::harness::{Harness, above, all_rows, live, owner, set};
use crate::{Evicted, Filled, HotKind, Marker};

/// Landed data may go at any time.
pub async fn a_clean_hash_is_evicted_at_once_and_its_marker_stays(h: &Harness) {
    let ann = owner("ann");
    let version = h.set(&ann, "gold", "1").await;
    h.land(&ann).await;
    let evict = h.store().evict(&[ann.clone(), owner("nobody")]).await;
    assert_eq!(evict, vec![Ok(Evicted::Gone), Ok(Evicted::Gone)]);
    assert_eq!(h.read(&ann).await.header, None);
    assert_eq!(h.observe(&ann).await.marker, Marker::At(version));
}

/// Unlanded data stays until it has landed.
pub async fn a_dirty_hash_is_evicted_when_it_has_landed(h: &Harness) {
    let ann = owner("ann");
    let version = h.set(&ann, "gold", "1").await;
    h.set(&ann, "bag", "x").await;
    assert_eq!(h.store().evict(std::slice::from_ref(&ann)).await, vec![Ok(Evicted::WhenLanded)]);
    assert_eq!(h.cell(&ann, "gold").await, Some(live("1")));
    h.assert_lasting(&ann).await;
    h.land(&ann).await;
    assert_eq!(h.read(&ann).await.header, None);
    assert!(matches!(h.observe(&ann).await.marker, Marker::At(at) if at >= version));
}

/// R2.
pub async fn touch_never_gives_a_dirty_hash_a_time_to_live(h: &Harness) {
    let ann = owner("ann");
    h.set(&ann, "gold", "1").await;
    h.store().touch(&[ann.clone(), owner("nobody")]).await.unwrap();
    h.assert_lasting(&ann).await;
    assert_eq!(h.cell(&ann, "gold").await, Some(live("1")));
}

/// What is used stays.
pub async fn touch_gives_a_clean_hash_the_full_time_again(h: &Harness) {
    if !h.can("life", |can| can.life) {
        return;
    }
    let ann = owner("ann");
    h.set(&ann, "gold", "1").await;
    h.land(&ann).await;
    h.pass(Duration::from_millis(50)).await;
    let Life::Ends(before) = h.rig().life(&ann).await else { panic!("landed data ends") };
    h.store().touch(std::slice::from_ref(&ann)).await.unwrap();
    let Life::Ends(after) = h.rig().life(&ann).await else { panic!("landed data ends") };
    assert!(after > before, "{after:?} is more than {before:?}");
}

/// H11.
pub async fn a_clean_hash_ends_and_a_dirty_one_stays(h: &Harness) {
    if !h.can("advance", |can| can.advance) {
        return;
    }
    let (clean, dirty) = (owner("clean"), owner("dirty"));
    h.set(&clean, "gold", "1").await;
    h.land(&clean).await;
    h.set(&dirty, "gold", "1").await;
    h.pass(Duration::from_secs(366 * 24 * 3_600)).await;
    assert_eq!(h.read(&clean).await.header, None);
    assert!(matches!(h.observe(&clean).await.marker, Marker::At(_)));
    assert_eq!(h.cell(&dirty, "gold").await, Some(live("1")));
}

/// H2, H3, R13.
pub async fn at_the_memory_limit_writes_are_refused_and_landing_goes_on(h: &Harness) {
    if !h.can("exhaust", |can| can.exhaust) {
        return;
    }
    let ann = owner("ann");
    h.make_absent(&ann).await;
    h.apply(&ann, vec![("gold", set("1")), ("bag", set("x"))]).await;
    h.rig().exhaust().await;
    let before = h.read(&ann).await;
    for change in [set("2"), Change::Incr(1), Change::Remove] {
        let mutation = h.mutation(&ann, vec![("gold", change)]).await;
        assert_eq!(h.try_send(&mutation, None).await.unwrap_err().kind, HotKind::OutOfMemory);
        assert_eq!(h.read(&ann).await, before);
    }
    let cold = owner("cold");
    let rows = vec![("gold", live("9"), above(Version::ZERO, 5))];
    let Filled::Accepted(read) = h.fill(&all_rows(&cold, h.observe(&cold).await, rows)).await else {
        panic!("the proof is made")
    };
    assert_eq!(read.cells.len(), 1);
    h.land(&ann).await;
    assert_eq!(h.marks(&ann).await, Some(0), "the owner is landed, so that it can be evicted");
}
