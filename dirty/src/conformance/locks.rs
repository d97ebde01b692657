//! Locks and announcements.

use std::time::Duration;

use storage_model::Partition;

use super::harness::{Harness, lock_of};
use crate::Lock;

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(20);

async fn lock(h: &Harness, lock: &Lock, ttl: Duration) -> bool {
    h.store()
        .partitions
        .lock(&[Partition(1)], lock, ttl)
        .await
        .remove(0)
        .unwrap()
}

async fn renew(h: &Harness, lock: &Lock, ttl: Duration) -> bool {
    h.store()
        .partitions
        .renew(&[Partition(1)], lock, ttl)
        .await
        .remove(0)
        .unwrap()
}

/// One holder.
pub async fn a_lock_excludes_others_until_it_is_given_back(h: &Harness) {
    let (one, other) = (lock_of("one"), lock_of("other"));
    let all = h.partitions();
    let first = h.store().partitions.lock(&all[1..3], &one, LONG).await;
    assert_eq!(first, vec![Ok(true), Ok(true)]);
    let second = h.store().partitions.lock(&all[..3], &other, LONG).await;
    assert_eq!(second, vec![Ok(true), Ok(false), Ok(false)]);
    h.unlock(Partition(1), &one).await;
    assert!(lock(h, &other, LONG).await);
}

/// A lost answer must not lock its own worker out until the lock runs out.
pub async fn a_lock_is_taken_again_by_its_own_token(h: &Harness) {
    let (one, other) = (lock_of("one"), lock_of("other"));
    assert!(lock(h, &one, LONG).await);
    assert!(lock(h, &one, LONG).await);
    assert!(!lock(h, &other, LONG).await);
    assert!(renew(h, &one, LONG).await);
}

/// By token, not by name.
pub async fn a_lock_is_only_given_back_and_renewed_by_its_token(h: &Harness) {
    let (one, namesake) = (lock_of("one"), lock_of("one"));
    assert!(!renew(h, &one, LONG).await, "a lock that was never taken");
    assert!(lock(h, &one, LONG).await);
    h.unlock(Partition(1), &namesake).await;
    assert!(!renew(h, &namesake, LONG).await);
    assert!(renew(h, &one, LONG).await);
    assert!(!lock(h, &namesake, LONG).await);
}

/// A dead worker's lock frees itself.
pub async fn a_lock_runs_out(h: &Harness) {
    let (one, other) = (lock_of("one"), lock_of("other"));
    assert!(lock(h, &one, SHORT).await);
    h.rig().advance(SHORT * 2).await;
    assert!(!renew(h, &one, LONG).await);
    assert_eq!(
        h.store()
            .partitions
            .peek(&[Partition(1)])
            .await
            .remove(0)
            .unwrap()
            .holder,
        None
    );
    assert!(lock(h, &other, LONG).await);
    h.unlock(Partition(1), &one).await;
    assert!(
        renew(h, &other, LONG).await,
        "its late holder can't return it"
    );
}

/// A living worker's lock does not run out.
pub async fn a_renewed_lock_lasts_on(h: &Harness) {
    let (one, other) = (lock_of("one"), lock_of("other"));
    assert!(lock(h, &one, LONG).await);
    assert!(renew(h, &one, LONG * 10).await);
    h.rig().advance(LONG * 2).await;
    assert!(!lock(h, &other, LONG).await);
    assert!(renew(h, &one, LONG).await);
}

/// How workers share.
pub async fn workers_are_announced_and_retired(h: &Harness) {
    assert_eq!(h.store().tier.announce("b", LONG).await.unwrap(), vec!["b"]);
    assert_eq!(
        h.store().tier.announce("a", LONG).await.unwrap(),
        vec!["a", "b"]
    );
    assert_eq!(
        h.store().tier.announce("b", LONG).await.unwrap(),
        vec!["a", "b"]
    );
    h.store().tier.retire("a").await.unwrap();
    h.store().tier.retire("nobody").await.unwrap();
    assert_eq!(
        h.store().tier.announce("c", LONG).await.unwrap(),
        vec!["b", "c"]
    );
}

/// A dead worker is forgotten.
pub async fn an_announcement_runs_out(h: &Harness) {
    h.store().tier.announce("dead", SHORT).await.unwrap();
    h.rig().advance(SHORT * 2).await;
    assert_eq!(
        h.store().tier.announce("alive", LONG).await.unwrap(),
        vec!["alive"]
    );
}
