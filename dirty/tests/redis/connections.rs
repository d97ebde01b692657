//! The connections that calls use.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use storage_dirty::redis::{Broken, Intercept};
use storage_dirty::*;
use storage_servers::RedisServer;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::support::*;

/// The number of calls that one connection carries before another is used beside it.
const CROWD: u32 = 128;
/// So long that no answer times out and no connection is given up.
const PATIENT: Duration = Duration::from_secs(60);

/// Holds reads.
#[derive(Debug)]
struct Door {
    came: Semaphore,
    let_go: Semaphore,
}

#[async_trait]
impl Intercept for Door {
    async fn before(&self, commands: &[&'static str]) -> Result<(), Broken> {
        if commands.contains(&"read") {
            self.came.add_permits(1);
            self.let_go.acquire().await.unwrap().forget();
        }
        Ok(())
    }

    async fn after(&self, _: &[&'static str]) -> Result<(), Broken> {
        Ok(())
    }
}

/// The number of connections to a server, without that of this question, and without those of former
/// ones that the server has not closed yet.
async fn connections(server: &RedisServer) -> usize {
    let list = server
        .call(&["CLIENT", "LIST", "TYPE", "normal"])
        .await
        .unwrap();
    let clients = list.text().unwrap().lines();
    clients
        .filter(|client| !client.contains("cmd=client|list"))
        .count()
}

/// A store that has sent one request at a time so far, with its server.
async fn store(hooks: Hooks) -> (RedisServer, RedisStore) {
    let server = server().await;
    let store = prepared_through(
        settings(&server.url()).with(|redis| {
            redis.partitions = 1;
            redis.response_timeout = PATIENT;
        }),
        hooks,
    )
    .await;
    assert_eq!(connections(&server).await, 1);
    (server, store)
}

#[tokio::test]
async fn another_connection_is_used_only_while_the_first_is_crowded() {
    let door = Arc::new(Door {
        came: Semaphore::new(0),
        let_go: Semaphore::new(0),
    });
    let (server, store) = store(Hooks::intercept(door.clone())).await;
    let mut reads = JoinSet::new();
    let begin = async |reads: &mut JoinSet<HotRead>, count: u32| {
        for _ in 0..count {
            let store = store.clone();
            reads.spawn(async move { read(&store, &owner("ann")).await });
        }
        timeout(PATIENT, door.came.acquire_many(count))
            .await
            .expect("not all reads came")
            .unwrap()
            .forget();
    };
    for calls_before in [1, 2] {
        begin(&mut reads, CROWD).await;
        assert_eq!(
            connections(&server).await,
            calls_before,
            "the first has room for so many again"
        );
        begin(&mut reads, 1).await;
        assert_eq!(connections(&server).await, 2);
        door.let_go.add_permits(usize::try_from(CROWD).unwrap() + 1);
        while let Some(answered) = reads.join_next().await {
            answered.unwrap();
        }
    }
}

#[tokio::test]
async fn a_call_about_many_owners_goes_over_another_connection_than_those_about_one() {
    let (server, store) = store(Hooks::default()).await;
    let one = |id| Read {
        owner: owner(id),
        fields: Fields::All,
    };
    for answer in store.read(&[one("ann")]).await {
        answer.unwrap();
    }
    assert_eq!(connections(&server).await, 1);
    for answer in store.read(&[one("ann"), one("bob")]).await {
        answer.unwrap();
    }
    assert_eq!(connections(&server).await, 2);
}

/// The number of times that the server was sent a script.
async fn scripts_loaded(server: &RedisServer) -> u64 {
    let stats = server.call(&["INFO", "commandstats"]).await.unwrap();
    let line = stats.text().unwrap().lines().find_map(|line| {
        line.strip_prefix("cmdstat_script|load:calls=")
            .map(str::to_owned)
    });
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

#[tokio::test]
async fn a_connection_that_is_opened_again_gives_the_server_no_script_that_it_has() {
    let (server, store) = store(Hooks::default()).await;
    let loaded = scripts_loaded(&server).await;
    assert!(loaded > 0);
    for round in 0..3 {
        server
            .call(&["CLIENT", "KILL", "TYPE", "normal"])
            .await
            .unwrap();
        while store.time().await.is_err() {}
        assert_eq!(connections(&server).await, 1);
        apply_new(&store, &owner(&round.to_string()), &[("gold", set("1"))]).await;
    }
    assert_eq!(scripts_loaded(&server).await, loaded);
    server.call(&["SCRIPT", "FLUSH"]).await.unwrap();
    apply_new(&store, &owner("ann"), &[("gold", set("1"))]).await;
    assert!(scripts_loaded(&server).await > loaded);
}

#[test]
fn a_call_in_another_runtime_than_that_of_a_connection_opens_one_of_its_own_and_no_outcome_is_unknown()
 {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let (servers, opener) = (runtime(), runtime());
    let server = servers.block_on(server());
    let store = opener.block_on(prepared(settings(&server.url())));
    drop(opener);
    for number in 0..20 {
        let fresh = runtime();
        fresh.block_on(async {
            apply(&store, &owner("ann"), &[("gold", set(&number.to_string()))]).await;
            assert_eq!(
                value(&store, &owner("ann"), "gold").await,
                Some(number.to_string())
            );
            // A read of several commands goes over another connection.
            let read = |id| Read {
                owner: owner(id),
                fields: Fields::All,
            };
            for answer in store.read(&[read("ann"), read("bob")]).await {
                answer.unwrap();
            }
        });
    }
}
