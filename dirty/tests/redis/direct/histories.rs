//! Writes without a script while their server is a replica for a while.

use super::*;

/// A stage whose server has a replica, which has all and is promoted.
async fn two_masters() -> (Stage, RedisServer) {
    let (server, other) = (server().await, server().await);
    other.follow(&server).await.unwrap();
    other.caught_up(&server).await.unwrap();
    let stage = Stage::on(server, Duration::from_secs(10)).await;
    stage.apply("ann", "1").await;
    stage.apply("ann", "2").await;
    other.caught_up(&stage.server).await.unwrap();
    other.promote().await.unwrap();
    (stage, other)
}

impl Stage {
    /// Its server takes over the data of another, and is promoted again.
    async fn replaced(&self, other: &RedisServer) {
        self.server.follow(other).await.unwrap();
        self.server.caught_up(other).await.unwrap();
        self.server.promote().await.unwrap();
    }
}

/// The data that come are those that went, so nothing is known to have changed; but something may be missing that was written since.
#[tokio::test]
async fn a_write_on_its_way_while_its_server_is_a_replica_for_a_while_is_not_acknowledged() {
    let (stage, other) = two_masters().await;
    let held = stage.held("ann", "3").await;
    stage.replaced(&other).await;
    stage.let_go();
    let unknown = held.await.unwrap().unwrap_err();
    assert_eq!((unknown.kind, unknown.outcome), (HotKind::Interrupted, Outcome::Unknown));
    let write = stage.write("ann", "4").await;
    let refused = send(&stage.store, write).await.unwrap_err();
    assert_eq!((refused.kind, refused.outcome), (HotKind::Unprepared(Partition(0)), Outcome::NotApplied));
}

#[tokio::test]
async fn a_write_on_its_way_while_its_server_takes_over_other_data_is_not_applied() {
    let (stage, other) = two_masters().await;
    // The other one does not know of this, so that it can't send what is missing alone: all data are replaced.
    apply(&stage.other().await, &owner("bob"), &[("gold", set("1"))]).await;
    let held = stage.held("ann", "3").await;
    stage.replaced(&other).await;
    stage.let_go();
    let refused = held.await.unwrap().unwrap_err();
    assert_eq!((refused.kind, refused.outcome), (HotKind::Unprepared(Partition(0)), Outcome::NotApplied));
    assert_eq!(value(&stage.store, &owner("bob"), "gold").await, None);
    adopt_all(&stage.store, 2).await;
    assert_eq!(value(&stage.store, &owner("ann"), "gold").await.as_deref(), Some("2"));
}
