//! A master that Sentinels watch.

use std::time::Duration;

use storage_dirty::*;
use storage_model::*;
use storage_servers::{RedisSentinel, RedisServer, Sentinel, SentinelOptions};

use crate::support::*;

const LIMIT: Duration = Duration::from_millis(300);

fn impatient(url: &str) -> RedisSettings {
    settings(url).with(|redis| {
        redis.response_timeout = LIMIT;
        redis.connect_timeout = LIMIT;
    })
}

async fn watched() -> RedisSentinel {
    RedisSentinel::start(SentinelOptions::default())
        .await
        .unwrap()
}

/// Repeats a mutation until another server refuses it because its partition is not adopted there.
/// Then adopts it.
async fn taken_over(store: &RedisStore, next: &Mutation, epoch: u64) {
    let unprepared = async {
        loop {
            match send(store, next.clone()).await {
                Err(HotError {
                    kind: HotKind::Unprepared(_),
                    ..
                }) => break,
                Err(HotError {
                    kind: HotKind::Interrupted | HotKind::Unavailable,
                    ..
                }) => {}
                other => panic!("{other:?}"),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), unprepared)
        .await
        .unwrap();
    adopt_all(store, epoch).await;
}

/// Like [`apply`]. Repeats the mutation under the same id while connections are cut.
async fn applied(store: &RedisStore, owner: &Owner, changes: &[(&str, Change)]) {
    let mutation = named(store, owner, changes).await;
    let applied = async {
        loop {
            match send(store, mutation.clone()).await {
                Ok(Mutated::Applied(_)) => break,
                Err(HotError {
                    kind: HotKind::Interrupted | HotKind::Unavailable,
                    ..
                }) => {}
                other => panic!("{other:?}"),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), applied)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_master_that_dies_or_hangs_is_left_for_the_one_that_sentinels_name() {
    let sentinel = watched().await;
    let store = prepared(impatient(&sentinel.url())).await;
    let ann = owner("ann");
    apply(&store, &ann, &[("gold", set("1"))]).await;
    let next = mutation(&store, &ann, &[("gold", set("2"))]).await;
    sentinel.server(0).unwrap().kill().unwrap();
    taken_over(&store, &next, 2).await;
    let second = sentinel.failed_over(0).await.unwrap();
    applied(&store, &ann, &[("gold", set("3"))]).await;
    assert_eq!(value(&store, &ann, "gold").await.as_deref(), Some("3"));

    // The old master comes back and stays a master until it is demoted. No call goes there.
    sentinel.server(0).unwrap().restart().await.unwrap();
    applied(&store, &ann, &[("gold", set("4"))]).await;
    sentinel.settled().await.unwrap();
    sentinel.caught_up().await.unwrap();
    let next = mutation(&store, &ann, &[("gold", set("5"))]).await;
    sentinel.server(second).unwrap().pause().unwrap();
    taken_over(&store, &next, 3).await;
    assert_eq!(value(&store, &ann, "gold").await.as_deref(), Some("4"));
    applied(&store, &ann, &[("gold", set("6"))]).await;
    sentinel.server(second).unwrap().resume().unwrap();
    sentinel.settled().await.unwrap();
    assert_eq!(value(&store, &ann, "gold").await.as_deref(), Some("6"));
}

#[tokio::test]
async fn a_master_that_was_demoted_is_never_read_as_a_replica() {
    let sentinel = watched().await;
    let store = prepared(impatient(&sentinel.url())).await;
    let ann = owner("ann");
    apply(&store, &ann, &[("gold", set("1"))]).await;
    let next = mutation(&store, &ann, &[("gold", set("2"))]).await;
    sentinel.caught_up().await.unwrap();
    sentinel.fail_over().await.unwrap();
    sentinel.settled().await.unwrap();
    // The connections lead to the old master. By now it is a replica and would answer reads.
    let read = Read {
        owner: ann.clone(),
        fields: Fields::All,
    };
    let refused = store
        .read(std::slice::from_ref(&read))
        .await
        .pop()
        .unwrap()
        .unwrap_err();
    assert!(
        matches!(
            refused.kind,
            HotKind::Unprepared(_) | HotKind::Interrupted | HotKind::Unavailable
        ),
        "{refused:?}"
    );
    taken_over(&store, &next, 2).await;
    assert_eq!(value(&store, &ann, "gold").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_check_finds_a_master_that_most_sentinels_have_replaced_without_its_knowing() {
    let sentinel = watched().await;
    let store = prepared(settings(&sentinel.url())).await;
    let ann = owner("ann");
    apply(&store, &ann, &[("gold", set("1"))]).await;
    sentinel.caught_up().await.unwrap();
    // Its Sentinels can't reach this master, and so can't demote it.
    let master = sentinel.server(0).unwrap();
    for other in &sentinel.servers()[1..] {
        other.call(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    }
    let port = sentinel.server(1).unwrap().port().to_string();
    for (outvoted, one) in sentinel.sentinels().iter().enumerate() {
        store.check().await.unwrap();
        if outvoted < 2 {
            apply(&store, &ann, &[("gold", set("1"))]).await;
        }
        one.call(&["SENTINEL", "REMOVE", "main"]).await.unwrap();
        one.call(&["SENTINEL", "MONITOR", "main", "127.0.0.1", &port, "2"])
            .await
            .unwrap();
    }
    store.check().await.unwrap();
    master.call(&["FLUSHALL"]).await.unwrap();
    let next = mutation(&store, &ann, &[("gold", set("2"))]).await;
    taken_over(&store, &next, 2).await;
    assert_eq!(value(&store, &ann, "gold").await.as_deref(), Some("1"));
}

/// This happens when one Sentinel is cut off from the others while another one is away.
#[tokio::test]
async fn of_two_masters_that_as_many_sentinels_name_the_known_one_is_kept_and_none_is_guessed() {
    let sentinel = watched().await;
    let [old, new] = [0, 1].map(|at| sentinel.server(at).unwrap());
    let knows_old = prepared(impatient(&sentinel.url())).await;
    let ann = owner("ann");
    apply(&knows_old, &ann, &[("gold", set("1"))]).await;
    sentinel.caught_up().await.unwrap();
    new.call(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    let [first, second, third] = [0, 1, 2].map(|at| &sentinel.sentinels()[at]);
    third.kill().unwrap();
    let names = async |sentinel: &Sentinel, server: &RedisServer| {
        sentinel
            .call(&["SENTINEL", "REMOVE", "main"])
            .await
            .unwrap();
        sentinel
            .call(&[
                "SENTINEL",
                "MONITOR",
                "main",
                "127.0.0.1",
                &server.port().to_string(),
                "2",
            ])
            .await
            .unwrap();
    };
    names(first, new).await;
    names(second, new).await;
    let knows_new = open_redis(impatient(&sentinel.url())).await.unwrap();
    names(second, old).await;
    // In one of the two stores, the known address is the greater one.
    knows_old.check().await.unwrap();
    knows_new.check().await.unwrap();
    apply(&knows_old, &ann, &[("gold", set("2"))]).await;
    let next = mutation(&knows_new, &ann, &[("gold", set("3"))]).await;
    let refused = send(&knows_new, next).await.unwrap_err();
    assert!(
        matches!(refused.kind, HotKind::Unprepared(_)),
        "it was promoted and not adopted yet: {refused:?}"
    );
    let error = open_redis(impatient(&sentinel.url())).await.unwrap_err();
    assert!(error.message.contains("equally many Sentinels"), "{error}");
}

#[tokio::test]
async fn a_wrong_name_a_refused_login_and_sentinels_that_are_away_are_told_apart_without_passwords()
{
    let redis = storage_servers::RedisOptions {
        password: Some("s3cret".to_owned()),
        ..Default::default()
    };
    let options_of = SentinelOptions {
        redis,
        sentinel_password: Some("0ther".to_owned()),
        replicas: 1,
        ..Default::default()
    };
    let sentinel = RedisSentinel::start(options_of).await.unwrap();
    let url = sentinel.url().split_once('?').unwrap().0.to_owned();
    let own = |password: &str| impatient(&format!("{url}?sentinel-pass={password}"));
    prepared(own("0ther")).await;
    // The others outvote a Sentinel that hangs.
    sentinel.sentinels()[0].pause().unwrap();
    open_redis(own("0ther")).await.unwrap();
    sentinel.sentinels()[0].resume().unwrap();

    let refused = async |settings: RedisSettings| {
        let error = open_redis(settings).await.unwrap_err();
        for secret in ["s3cret", "0ther", "wr0ng"] {
            assert!(!error.to_string().contains(secret), "{error}");
        }
        error
    };
    let other = url.replace("/main", "/mian") + "?sentinel-pass=0ther";
    let error = refused(impatient(&other)).await;
    assert_eq!(error.kind, HotKind::Settings);
    assert!(error.message.contains("\"mian\""), "{error}");
    for settings in [impatient(&url), own("wr0ng")] {
        let error = refused(settings).await;
        assert_eq!(error.kind, HotKind::Denied);
        assert!(error.message.contains("sentinel-pass"), "{error}");
    }
    let other = url.replace("s3cret", "wr0ng") + "?sentinel-pass=0ther";
    let error = refused(impatient(&other)).await;
    assert_eq!(error.kind, HotKind::Denied, "{error}");
    sentinel
        .sentinels()
        .iter()
        .for_each(|one| one.kill().unwrap());
    let error = refused(own("0ther")).await;
    assert_eq!(error.kind, HotKind::Unavailable);
    let port = sentinel.sentinels()[2].port().to_string();
    assert!(
        error.message.contains("no Sentinel answers") && error.message.contains(&port),
        "{error}"
    );
}
