//! Restarts, rewinds, failovers there and back and slots that move there and back go on by themselves
//! (R14). No two servers take turns.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use storage_model::Partition;
use storage_servers::{RedisCluster, RedisSentinel, SentinelOptions};
use storage_tests::{Stack, World, stack, until};
use storage_tiers::SILENCE;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::copies::{PLAYERS, blank, copy, landed, moved, places, play, refused};
use super::own_redis;

/// Adds 1 to each player, and repeats what failed while servers change.
async fn play_on(stack: &Stack, added: &mut u64) -> Result<Duration> {
    let begun = Instant::now();
    for id in 0..PLAYERS {
        until("a player plays on", async || {
            Ok(stack.player(&id.to_string()).incr("gold", 1).await.is_ok())
        })
        .await?;
        *added += 1;
    }
    Ok(begun.elapsed())
}

/// The highest epoch of a partition.
async fn last_epoch(stack: &Stack) -> Result<u64> {
    let places = places(stack).await?;
    let epochs = places.values().map(|(_, epoch)| epoch.0);
    epochs.max().context("no partition")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_with_its_data_waits_for_nobody_and_a_rewound_redis_goes_on_by_itself()
-> Result<()> {
    let (kept, stack) = own_redis(true).await?;
    let worker = stack.worker();
    let mut added = 0;
    play_on(&stack, &mut added).await?;
    for restarts in 1..=3 {
        stack.landed().await?;
        kept.kill()?;
        kept.restart().await?;
        let took = play_on(&stack, &mut added).await?;
        ensure!(took < SILENCE, "restart {restarts} took {took:?}");
    }
    // One for each restart, and another one if a program did not see the raise of the other in time.
    assert!((4..=7).contains(&last_epoch(&stack).await?));
    worker.stop().await?;

    let (rewound, stack) = own_redis(false).await?;
    let worker = stack.worker();
    play_on(&stack, &mut added).await?;
    rewound.call(&["SAVE"]).await?;
    play_on(&stack, &mut added).await?;
    stack.landed().await?;
    rewound.kill()?;
    rewound.restart().await?;
    // It lacks data that has landed, and looks like a copy beside its original.
    let took = play_on(&stack, &mut added).await?;
    ensure!(took < 2 * SILENCE, "it took {took:?}");
    assert!((2..=3).contains(&last_epoch(&stack).await?));
    worker.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_that_split_leave_one_lander() -> Result<()> {
    let sentinel = RedisSentinel::start(SentinelOptions::default()).await?;
    let world = World::on(&sentinel.url(), stack::mariadb().await?).await?;
    let master = sentinel.server(0)?;
    let early = Stack::with(world.clone()).await?;
    // A program that does not know of Sentinels.
    let alone = Stack::with(moved(&early, master)?).await?;
    let (mut added, mut on_old) = (0, 0);
    let (early_worker, old_worker) = (early.worker(), alone.worker());
    play_on(&early, &mut added).await?;
    early.landed().await?;
    sentinel.caught_up().await?;

    // Sentinels can't make the old master a replica, and programs that reach it do not notice.
    master
        .call(&["ACL", "SETUSER", "default", "-replicaof", "-slaveof"])
        .await?;
    let new = sentinel.fail_over().await?;
    let late = Stack::with(world).await?;
    play_on(&late, &mut added).await?;
    refused(&alone, &mut on_old).await?;
    let incarnation = async |stack: &Stack| -> Result<String> {
        Ok(stack
            .storage
            .tiers()
            .hot()
            .tier
            .pairing()
            .await?
            .incarnation)
    };
    let now = incarnation(&late).await?;
    until("a program that is refused asks Sentinels", async || {
        Ok(incarnation(&early).await.is_ok_and(|at| at == now))
    })
    .await?;
    play_on(&early, &mut added).await?;

    let taken = places(&late).await?;
    until("the old worker knows that it was replaced", async || {
        play_on(&late, &mut added).await?;
        Ok(old_worker.counts().replaced)
    })
    .await?;
    play_on(&late, &mut added).await?;
    assert_eq!(places(&late).await?, taken, "they take no turns");
    old_worker.stop().await?;
    drop(alone);

    // And back.
    master.call(&["ACL", "SETUSER", "default", "+@all"]).await?;
    sentinel.settled().await?;
    let epoch = last_epoch(&late).await?;
    let next = sentinel.fail_over().await?;
    assert_ne!(next, new);
    // Until Sentinels have demoted the server before, it takes writes.
    until("the place has changed", async || {
        play_on(&late, &mut added).await?;
        Ok(last_epoch(&late).await? > epoch)
    })
    .await?;
    early_worker.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_fails_over_and_back_and_moves_slots_and_goes_on() -> Result<()> {
    let cluster = RedisCluster::start(3, 1).await?;
    let stack = Stack::with(World::on(&cluster.url(), stack::mariadb().await?).await?).await?;
    let worker = stack.worker();
    let mut added = 0;
    play_on(&stack, &mut added).await?;
    let slot = crate::cluster::slot_of(&format!("{{{}}}", Partition(0)));
    let home = cluster.owner_of(slot).await?;
    let mut steps = Vec::new();
    for to in [(home + 1) % 3, home] {
        cluster.move_slot(slot, to).await?;
        steps.push(play_on(&stack, &mut added).await?);
    }
    for next in [home + 3, home] {
        until("the other server is the master", async || {
            // It is refused while the replica still copies.
            let _ = cluster.node(next)?.call(&["CLUSTER", "FAILOVER"]).await;
            Ok(cluster.owner_of(slot).await.is_ok_and(|now| now == next))
        })
        .await?;
        cluster.settled().await?;
        steps.push(play_on(&stack, &mut added).await?);
    }
    // Nobody waits for silence.
    ensure!(steps.iter().all(|took| *took < SILENCE), "{steps:?}");
    stack.landed().await?;
    assert_eq!(landed(&stack).await?, added);
    worker.stop().await
}

/// A name that leads to one server or the other, by turns.
struct Name {
    port: u16,
    task: JoinHandle<()>,
}

impl Drop for Name {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Name {
    async fn of(ports: [u16; 2]) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let task = tokio::spawn(async move {
            for to in ports.into_iter().cycle() {
                let Ok((mut client, _)) = listener.accept().await else {
                    return;
                };
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(("127.0.0.1", to)).await?;
                    tokio::io::copy_bidirectional(&mut client, &mut server).await
                });
            }
        });
        Ok(Self { port, task })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_behind_one_name_do_not_take_turns() -> Result<()> {
    let (first, second) = (blank().await?, blank().await?);
    let before = Stack::with(World::on(&first.url(), stack::mariadb().await?).await?).await?;
    let (worker, mut added) = (before.worker(), 0);
    play_on(&before, &mut added).await?;
    before.landed().await?;
    worker.stop().await?;
    before.storage.close(Duration::from_secs(5)).await;
    copy(&first, &second).await?;

    let name = Name::of([first.port(), second.port()]).await?;
    let url = format!("redis://127.0.0.1:{}/0", name.port);
    let world = World::with_urls(&url, &before.database, &before.settings.redis.prefix)?;
    let mut both = None;
    until("the storage opens", async || {
        both = Stack::with(world.clone()).await.ok();
        Ok(both.is_some())
    })
    .await?;
    let both = both.context("no storage")?;
    let worker = both.worker();
    let (begun, mut tried) = (Instant::now(), 0);
    // Some comparisons of it, which lead to one server or the other.
    while begun.elapsed() < Duration::from_secs(7) {
        let _ = play(&both, &mut tried).await;
    }
    let epoch = last_epoch(&both).await?;
    ensure!(epoch <= 3, "they took turns: epoch {epoch}");
    worker.stop().await
}
