//! Two game servers and two landing workers run as processes on real servers. A worker is killed in
//! the middle of landing. The long form plays for a minute.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use storage_landing::Backlog;
use storage_servers::{MariaDbOptions, MariaDbServer, RedisOptions, RedisServer};
use storage_tests::footprint::{Footprint, Footprints};
use storage_tests::game::Oracle;
use storage_tests::{Stack, World, rows, size, until};
use tokio::process::{Child, Command};

/// Game servers.
const GAMES: u32 = 2;
/// The time between two looks at memory and sockets.
const LOOK: Duration = Duration::from_millis(100);

/// The fewest writes of each game server.
fn writes_each() -> u64 {
    size(9_000, 68_000)
}

fn worker(config: &Path, name: &str) -> Result<Child> {
    Ok(Command::new(env!("CARGO_BIN_EXE_worker"))
        .args(["run", "--config"])
        .arg(config)
        .env("STORAGE__LANDING__WORKER_NAME", name)
        .kill_on_drop(true)
        .spawn()?)
}

fn game(config: &Path, server: u32) -> Result<Child> {
    Ok(Command::new(env!("CARGO_BIN_EXE_game"))
        .args([
            "--time",
            size("8s", "60s"),
            "--writes",
            &writes_each().to_string(),
            "--seed",
            "20261121",
            "--server",
            &server.to_string(),
            "--config",
        ])
        .arg(config)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?)
}

fn signal(child: &Child, signal: rustix::process::Signal) -> Result<()> {
    let id = i32::try_from(child.id().context("the process has ended")?)?;
    Ok(rustix::process::kill_process(
        rustix::process::Pid::from_raw(id).context("a process id")?,
        signal,
    )?)
}

/// Stops a worker that has settled a part of a snapshot, and kills it there. Returns the number of
/// marks left in that snapshot.
async fn kill_half_settled(stack: &Stack, child: &mut Child, name: &str) -> Result<u64> {
    let mut largest: BTreeMap<u32, u64> = BTreeMap::new();
    let snapshots = async || -> Result<Vec<(u32, u64)>> {
        let backlog = Backlog::read(stack.storage.tiers().hot()).await?;
        let mine = backlog
            .partitions
            .into_iter()
            .filter(|(_, peek)| peek.holder.as_deref() == Some(name));
        Ok(mine
            .map(|(partition, peek)| (partition.0, peek.snapshot))
            .collect())
    };
    for _ in 0..100_000 {
        for (partition, snapshot) in snapshots().await? {
            let most = largest.entry(partition).or_default();
            *most = if snapshot == 0 {
                0
            } else {
                snapshot.max(*most)
            };
            if snapshot == 0 || snapshot >= *most {
                continue;
            }
            // The snapshot was half settled a moment ago. Only a worker that stands still shows
            // whether it still is.
            signal(child, rustix::process::Signal::STOP)?;
            let most = *most;
            let now = snapshots()
                .await?
                .into_iter()
                .find(|(other, _)| *other == partition)
                .map_or(0, |(_, left)| left);
            if now > 0 && now < most {
                child.kill().await?;
                return Ok(now);
            }
            signal(child, rustix::process::Signal::CONT)?;
        }
    }
    anyhow::bail!("no snapshot was ever seen half settled")
}

/// Connections to Redis and to the database.
async fn connections(redis: &RedisServer, mariadb: &MariaDbServer) -> Result<[u64; 2]> {
    let clients = redis.call(&["INFO", "clients"]).await?;
    let clients = clients
        .text()?
        .lines()
        .find_map(|line| line.strip_prefix("connected_clients:"))
        .context("no clients")?
        .trim();
    let threads = mariadb
        .sql("SELECT COUNT(*) FROM information_schema.processlist WHERE user <> 'system user'")
        .await?;
    Ok([clients.parse()?, threads.trim().parse()?])
}

/// Measures memory and sockets of game servers and of a worker during the run.
async fn watch(games: Vec<(String, Option<u32>)>, worker: Option<u32>) -> Footprints {
    let mut footprints = Footprints::default();
    let is_alive = |pid: &Option<u32>| pid.is_some_and(|pid| Footprint::of(pid).is_ok());
    while games.iter().any(|(_, pid)| is_alive(pid)) {
        games
            .iter()
            .for_each(|(name, pid)| footprints.look(name, *pid));
        footprints.look("worker", worker);
        tokio::time::sleep(LOOK).await;
    }
    footprints
}

#[tokio::test(flavor = "multi_thread")]
async fn play_with_a_worker_killed_in_a_half_settled_snapshot_loses_nothing() -> Result<()> {
    let redis = RedisServer::start(RedisOptions {
        appendonly: true,
        ..RedisOptions::default()
    })
    .await?;
    let mariadb = MariaDbServer::start(MariaDbOptions::default()).await?;
    let world = World::on(&redis.url(), &mariadb).await?;
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("storage.toml");
    // Small batches, so that a snapshot takes several settles.
    std::fs::write(&config, format!("{}\nbatch_rows = 50\n", world.text))?;
    let stack = Stack::with(world).await?;

    stack.backlog().await?;
    let base = connections(&redis, &mariadb).await?;
    let mut doomed = worker(&config, "doomed")?;
    let mut survivor = worker(&config, "survivor")?;
    let games = (1..=GAMES)
        .map(|server| game(&config, server))
        .collect::<Result<Vec<_>>>()?;
    let left = kill_half_settled(&stack, &mut doomed, "doomed").await?;
    ensure!(left > 0, "the kill hit no half settled snapshot");

    let pids: Vec<(String, Option<u32>)> = games
        .iter()
        .enumerate()
        .map(|(at, game)| (format!("game server {at}"), game.id()))
        .collect();
    let looks = tokio::spawn(watch(pids, survivor.id()));
    let mut oracle = Oracle::default();
    for game in games {
        let output = game.wait_with_output().await?;
        ensure!(output.status.success(), "a game server failed");
        let played: Oracle = serde_json::from_slice(&output.stdout)?;
        oracle.acknowledged += played.acknowledged;
        oracle.fields.extend(played.fields);
    }
    println!(
        "{} writes acknowledged, {left} marks left by the killed worker",
        oracle.acknowledged
    );
    ensure!(
        oracle.acknowledged >= u64::from(GAMES) * writes_each(),
        "only {} writes were acknowledged",
        oracle.acknowledged
    );

    let drain = Command::new(env!("CARGO_BIN_EXE_worker"))
        .args(["drain", "--config"])
        .arg(&config)
        .status();
    ensure!(
        tokio::time::timeout(Duration::from_secs(120), drain)
            .await??
            .success(),
        "drain left something"
    );
    let mut footprints = looks.await?;
    footprints.look("worker", survivor.id());
    footprints.assert_steady()?;
    signal(&survivor, rustix::process::Signal::TERM)?;
    ensure!(
        survivor.wait().await?.success(),
        "SIGTERM does not end a worker with 0"
    );
    let is_base = |now: [u64; 2]| now.iter().zip(base).all(|(now, base)| *now <= base);
    until("all connections are closed", async || {
        Ok(is_base(connections(&redis, &mariadb).await?))
    })
    .await?;

    let stored: BTreeMap<String, Option<String>> = rows(&stack.database)
        .await?
        .into_iter()
        .map(|row| {
            Ok((
                row.name,
                if row.is_del == 0 {
                    Some(String::from_utf8(row.value)?)
                } else {
                    None
                },
            ))
        })
        .collect::<Result<_>>()?;
    let differing = oracle
        .fields
        .iter()
        .filter(|(name, value)| stored.get(*name).cloned().flatten() != **value);
    assert_eq!(
        differing.take(10).collect::<Vec<_>>(),
        [],
        "database and oracle differ"
    );
    assert_eq!(
        stored
            .keys()
            .filter(|name| !oracle.fields.contains_key(*name))
            .collect::<Vec<_>>(),
        Vec::<&String>::new()
    );
    Ok(())
}
