//! Servers that forget scripts, restart, hang, or can't be trusted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use storage_config::Secret;
use storage_dirty::redis::{Broken, Intercept};
use storage_dirty::*;
use storage_model::*;
use storage_servers::RedisServer;

use crate::support::*;

#[tokio::test]
async fn forgotten_scripts_are_loaded_again_between_any_two_operations() {
    let server = server().await;
    let store = prepared(settings(&server.url())).await;
    let ann = owner("ann");
    for number in 0..20 {
        server.call(&["SCRIPT", "FLUSH"]).await.unwrap();
        apply(&store, &ann, &[("gold", set(&number.to_string()))]).await;
        server.call(&["SCRIPT", "FLUSH"]).await.unwrap();
        apply(&store, &ann, &[("gold", Change::Incr(1))]).await;
    }
    server.call(&["SCRIPT", "FLUSH"]).await.unwrap();
    assert_eq!(drain(&store).await, 1);
    assert_eq!(value(&store, &ann, "gold").await.as_deref(), Some("20"));
}

/// Makes the server forget its scripts before every other pipeline.
#[derive(Debug)]
struct Forgetful {
    server: Arc<RedisServer>,
    turn: AtomicBool,
}

#[async_trait]
impl Intercept for Forgetful {
    async fn before(&self, _: &[&'static str]) -> Result<(), Broken> {
        if !self.turn.fetch_xor(true, Ordering::SeqCst) {
            self.server.call(&["SCRIPT", "FLUSH"]).await.unwrap();
        }
        Ok(())
    }

    async fn after(&self, _: &[&'static str]) -> Result<(), Broken> {
        Ok(())
    }
}

/// H21: the store loads the scripts that a pipeline finds forgotten, and sends the pipeline once
/// more.
#[tokio::test]
async fn scripts_that_are_forgotten_before_any_pipeline_are_loaded_and_sent_again() {
    let server = Arc::new(server().await);
    let gate = Forgetful {
        server: Arc::clone(&server),
        turn: AtomicBool::new(false),
    };
    let store = prepared_through(settings(&server.url()), Hooks::intercept(Arc::new(gate))).await;
    let owners: Vec<Owner> = (0..10).map(|id| owner(&id.to_string())).collect();
    for round in 1..=5 {
        for ann in &owners {
            if round == 1 {
                apply_new(&store, ann, &[("gold", set("0"))]).await;
            }
            apply(&store, ann, &[("gold", Change::Incr(1)), ("bag", set("1"))]).await;
        }
        assert!(drain(&store).await >= 10);
        for evicted in store.evict(&owners[..5]).await {
            assert_eq!(evicted, Ok(Evicted::Gone));
        }
        for ann in &owners[..5] {
            let observed = store
                .observe(std::slice::from_ref(ann))
                .await
                .pop()
                .unwrap()
                .unwrap();
            let Marker::At(version) = observed.marker else {
                panic!("{observed:?}")
            };
            let rows = vec![(field("gold"), Cell::Live(round.to_string().into()), version)];
            let load = Load {
                owner: ann.clone(),
                observed,
                rows,
                complete: true,
            };
            assert!(matches!(
                store.fill(&[load]).await.pop(),
                Some(Ok(Filled::Accepted(_)))
            ));
        }
    }
    for ann in &owners {
        assert_eq!(value(&store, ann, "gold").await.as_deref(), Some("5"));
    }
}

#[tokio::test]
async fn a_restarted_server_is_not_used_before_its_partitions_are_adopted() {
    let options_of = storage_servers::RedisOptions {
        appendonly: true,
        ..Default::default()
    };
    let server = RedisServer::start(options_of).await.unwrap();
    let store = prepared(settings(&server.url())).await;
    let ann = owner("ann");
    let first = apply(&store, &ann, &[("gold", set("1"))]).await;
    let next = mutation(&store, &ann, &[("gold", set("2"))]).await;
    server.kill().unwrap();
    let error = send(&store, next.clone()).await.unwrap_err();
    assert!(
        matches!(error.kind, HotKind::Interrupted | HotKind::Unavailable),
        "{error:?}"
    );
    let error = send(&store, next.clone()).await.unwrap_err();
    assert_eq!(
        (error.kind, error.outcome),
        (HotKind::Unavailable, Outcome::NotApplied)
    );
    server.restart().await.unwrap();
    let partition = ann.partition(4);
    let unprepared = |error: HotError| assert_eq!(error.kind, HotKind::Unprepared(partition));
    unprepared(send(&store, next.clone()).await.unwrap_err());
    unprepared(
        store
            .read(&[Read {
                owner: ann.clone(),
                fields: Fields::All,
            }])
            .await
            .pop()
            .unwrap()
            .unwrap_err(),
    );
    unprepared(
        store
            .observe(std::slice::from_ref(&ann))
            .await
            .pop()
            .unwrap()
            .unwrap_err(),
    );
    unprepared(
        store
            .collect(partition, &[(ann.clone(), vec![])], None)
            .await
            .unwrap_err(),
    );
    adopt_all(&store, 2).await;
    let Mutated::Applied(applied) = send(&store, next.clone()).await.unwrap() else {
        panic!()
    };
    assert!(applied.version > first.version);
    assert_eq!(value(&store, &ann, "gold").await.as_deref(), Some("2"));
}

/// R14: connections outlive a server's time as a replica. In that time the server may have lost
/// data that they saw.
#[tokio::test]
async fn a_server_that_was_a_replica_meanwhile_is_not_used_as_the_one_it_was() {
    let (server, other) = (server().await, server().await);
    // Before the server is used: a master that gets its first replica becomes another incarnation.
    other.follow(&server).await.unwrap();
    let (reader, writer) = (
        prepared(settings(&server.url())).await,
        open_redis(settings(&server.url())).await.unwrap(),
    );
    let ann = owner("ann");
    apply(&writer, &ann, &[("gold", set("1"))]).await;
    other.caught_up(&server).await.unwrap();
    other.promote().await.unwrap();
    apply(&reader, &ann, &[("gold", set("2"))]).await;
    let next = mutation(&writer, &ann, &[("gold", set("3"))]).await;
    server.follow(&other).await.unwrap();
    server.caught_up(&other).await.unwrap();
    server.promote().await.unwrap();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(1)).await; // the connections were idle
    tokio::time::resume();

    let unprepared =
        |error: HotError| assert_eq!(error.kind, HotKind::Unprepared(ann.partition(4)));
    unprepared(
        reader
            .read(&[Read {
                owner: ann.clone(),
                fields: Fields::All,
            }])
            .await
            .pop()
            .unwrap()
            .unwrap_err(),
    );
    unprepared(send(&writer, next.clone()).await.unwrap_err());
    adopt_all(&reader, 2).await;
    assert_eq!(value(&reader, &ann, "gold").await.as_deref(), Some("1"));
    assert!(matches!(send(&writer, next).await, Ok(Mutated::Applied(_))));
}

/// Makes the server a replica, and a master again, while the next write is on its way.
#[derive(Debug)]
struct Meanwhile {
    server: Arc<RedisServer>,
    other: RedisServer,
    armed: AtomicBool,
}

#[async_trait]
impl Intercept for Meanwhile {
    async fn before(&self, commands: &[&'static str]) -> Result<(), Broken> {
        if commands
            .iter()
            .any(|name| matches!(*name, "update" | "transact"))
            && self.armed.swap(false, Ordering::SeqCst)
        {
            self.server.follow(&self.other).await.unwrap();
            self.server.promote().await.unwrap();
        }
        Ok(())
    }

    async fn after(&self, _: &[&'static str]) -> Result<(), Broken> {
        Ok(())
    }
}

/// R14: a write that was sent before is not applied either.
#[tokio::test]
async fn a_write_that_is_on_its_way_while_its_server_is_a_replica_for_a_while_is_not_applied() {
    let (server, other) = (Arc::new(server().await), server().await);
    other.follow(&server).await.unwrap();
    other.caught_up(&server).await.unwrap();
    let gate = Arc::new(Meanwhile {
        server: server.clone(),
        other,
        armed: AtomicBool::new(false),
    });
    let store = prepared_through(settings(&server.url()), Hooks::intercept(gate.clone())).await;
    let ann = owner("ann");
    apply(&store, &ann, &[("gold", set("1"))]).await;
    gate.other.caught_up(&server).await.unwrap();
    gate.other.promote().await.unwrap();
    for (epoch, change) in [(2, set("2")), (3, Change::Remove)] {
        let next = mutation(&store, &ann, &[("gold", change)]).await;
        gate.armed.store(true, Ordering::SeqCst);
        let refused = send(&store, next.clone()).await.unwrap_err();
        assert_eq!(
            (refused.kind, refused.outcome),
            (HotKind::Unprepared(ann.partition(4)), Outcome::NotApplied)
        );
        assert!(!gate.armed.load(Ordering::SeqCst));
        adopt_all(&store, epoch).await;
        assert_eq!(value(&store, &ann, "gold").await.as_deref(), Some("1"));
    }
    apply(&store, &ann, &[("gold", set("3"))]).await;
}

/// A connection that broke while it was idle costs no write its answer.
#[tokio::test]
async fn connections_that_the_server_closed_while_they_were_idle_are_opened_again_unnoticed() {
    let server = server().await;
    let store = prepared(settings(&server.url())).await;
    let ann = owner("ann");
    for number in 1..10 {
        apply(&store, &ann, &[("gold", set(&number.to_string()))]).await;
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(1)).await;
        tokio::time::resume();
        server
            .call(&["CLIENT", "KILL", "TYPE", "NORMAL"])
            .await
            .unwrap();
    }
    assert_eq!(value(&store, &ann, "gold").await.as_deref(), Some("9"));
}

#[tokio::test]
async fn an_eviction_policy_that_loses_data_stops_writes_until_it_is_right_again() {
    let server = server().await;
    let store = prepared(settings(&server.url())).await;
    let ann = owner("ann");
    apply(&store, &ann, &[("gold", set("1"))]).await;
    server
        .call(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"])
        .await
        .unwrap();
    assert_eq!(store.check().await.unwrap_err().kind, HotKind::Policy);
    let error = mutate(&store, &ann, &[("gold", set("2"))])
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind, error.outcome),
        (HotKind::Policy, Outcome::NotApplied)
    );
    assert_eq!(value(&store, &ann, "gold").await.as_deref(), Some("1"));
    // A worker that starts now lands the data in danger. Only a check like that of game servers
    // refuses.
    let worker = open_redis(settings(&server.url())).await.unwrap();
    assert_eq!(worker.check().await.unwrap_err().kind, HotKind::Policy);
    assert_eq!(drain(&worker).await, 1);
    server
        .call(&["CONFIG", "SET", "maxmemory-policy", "volatile-lru"])
        .await
        .unwrap();
    store.check().await.unwrap();
    apply(&store, &ann, &[("gold", set("2"))]).await;
}

#[tokio::test]
async fn a_lost_answer_leaves_the_outcome_unknown_and_a_repeat_applies_once() {
    let server = server().await;
    let counter = Arc::new(Counter::default());
    let store = prepared_through(
        settings(&server.url()).with(|redis| redis.connections = 1),
        Hooks::intercept(counter.clone()),
    )
    .await;
    let ann = owner("ann");
    apply_new(&store, &ann, &[("gold", set("0"))]).await;
    for round in 0..20 {
        let (first, retry) = match round % 2 {
            0 => (Attempt::First, Attempt::Retry),
            _ => (Attempt::Named, Attempt::Named),
        };
        let incr = mutation(&store, &ann, &[("gold", Change::Incr(1))]).await;
        counter.lose_next.store(1, Ordering::SeqCst);
        let error = send(&store, incr.clone().as_attempt(first))
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind, error.outcome),
            (HotKind::Interrupted, Outcome::Unknown)
        );
        assert!(matches!(
            send(&store, incr.as_attempt(retry)).await,
            Ok(Mutated::Applied(_))
        ));
    }
    assert_eq!(value(&store, &ann, "gold").await.as_deref(), Some("20"));
}

#[tokio::test]
async fn a_hung_server_costs_no_more_than_the_time_limits_and_is_used_again_when_it_wakes() {
    let server = server().await;
    let limit = Duration::from_millis(200);
    let store = prepared(settings(&server.url()).with(|redis| {
        redis.response_timeout = limit;
        redis.connect_timeout = limit;
        redis.wait_timeout = limit;
    }))
    .await;
    let ann = owner("ann");
    apply(&store, &ann, &[("gold", set("1"))]).await;
    let late = mutation(&store, &ann, &[("gold", set("2"))]).await;
    server.pause().unwrap();
    // Many callers at once share the wait for a connection instead of queueing for it.
    let all = futures::future::join_all((0..200).map(|_| send(&store, late.clone())));
    let all = tokio::time::timeout(Duration::from_secs(10), all)
        .await
        .unwrap();
    assert!(all.iter().all(Result::is_err));
    server.resume().unwrap();
    while store.time().await.is_err() {}
    apply(&store, &ann, &[("gold", set("3"))]).await;
    assert_eq!(value(&store, &ann, "gold").await.as_deref(), Some("3"));
}

#[tokio::test]
async fn wrong_passwords_and_servers_that_are_not_there_are_told_apart_and_tls_works() {
    let locked = RedisServer::start(storage_servers::RedisOptions {
        password: Some("s3cret".into()),
        ..Default::default()
    });
    let locked = locked.await.unwrap();
    let bare = format!("redis://127.0.0.1:{}", locked.port());
    for (url, password) in [
        (bare.as_str(), None),
        (bare.as_str(), Some(Secret::new("wr0ng"))),
    ] {
        let error = open_redis(settings(url).with(|redis| redis.password = password))
            .await
            .unwrap_err();
        assert_eq!(error.kind, HotKind::Denied, "{error}");
        assert!(!error.to_string().contains("wr0ng"));
    }
    prepared(settings(&bare).with(|redis| redis.password = Some(Secret::new("s3cret")))).await;
    open_redis(settings(&format!(
        "redis+unix://{}?pass=s3cret",
        locked.socket().display()
    )))
    .await
    .unwrap();
    locked.kill().unwrap();
    assert_eq!(
        open_redis(settings(&bare)).await.unwrap_err().kind,
        HotKind::Unavailable
    );

    let secured = RedisServer::start(storage_servers::RedisOptions {
        tls: true,
        ..Default::default()
    })
    .await
    .unwrap();
    let tls_ca_file = secured.ca_pem().map(std::path::Path::to_path_buf);
    let store =
        prepared(settings(&secured.url()).with(|redis| redis.tls_ca_file = tls_ca_file)).await;
    apply(&store, &owner("ann"), &[("gold", set("1"))]).await;
    // A certificate without a trusted issuer will never become valid.
    assert_eq!(
        open_redis(settings(&secured.url())).await.unwrap_err().kind,
        HotKind::Denied
    );
}

/// Redis asks clients for a certificate by default.
#[tokio::test]
async fn a_server_that_asks_for_a_certificate_gets_the_one_of_the_settings() {
    let secured = RedisServer::start(storage_servers::RedisOptions {
        tls: true,
        args: vec!["--tls-auth-clients".into(), "yes".into()],
        ..Default::default()
    })
    .await
    .unwrap();
    let ca = secured.ca_pem().unwrap().to_path_buf();
    let file = |name: &str| Some(ca.with_file_name(name));
    let without = settings(&secured.url()).with(|redis| redis.tls_ca_file = Some(ca.clone()));
    let error = open_redis(without.clone()).await.unwrap_err();
    assert!(error.message.contains("redis.tls_cert_file"), "{error}");
    let store = prepared(without.with(|redis| {
        redis.tls_cert_file = file("server.pem");
        redis.tls_key_file = file("server.key");
    }))
    .await;
    apply(&store, &owner("ann"), &[("gold", set("1"))]).await;
}

/// The store looks at a partition before it sends anything to a server that this process does not
/// know yet.
#[tokio::test]
async fn a_write_before_which_the_look_at_its_partition_failed_was_surely_not_applied() {
    let server = server().await;
    drop(prepared(settings(&server.url())).await);
    let counter = Arc::new(Counter::default());
    let store = open_through(settings(&server.url()), Hooks::intercept(counter.clone()))
        .await
        .unwrap();
    let ann = owner("ann");
    let write = mutation(&store, &ann, &[("gold", set("1"))]).await;
    counter.lose_next.store(1, Ordering::SeqCst);
    let error = send(&store, write.clone()).await.unwrap_err();
    assert_eq!(
        (&error.kind, error.outcome),
        (&HotKind::Unavailable, Outcome::NotApplied),
        "{error}"
    );
    assert!(matches!(send(&store, write).await, Ok(Mutated::Applied(_))));
}
