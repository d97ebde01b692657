//! `run --http`: metrics and health, while tiers come and go.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result};
use storage_metrics::names;
use storage_tests::stack::bounded;
use storage_tests::{Stack, World, stack, until};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStderr, Command};

use super::config;

type Log = Lines<BufReader<ChildStderr>>;

/// Starts a worker that serves at an address.
fn run(config: &Path, address: &str) -> Result<(Child, Log)> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_worker"))
        .args(["run", "--http", address, "--config"])
        .arg(config)
        .env("NO_COLOR", "1")
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let log = BufReader::new(child.stderr.take().context("its log")?).lines();
    Ok((child, log))
}

/// The next line of a log that contains these words.
async fn said(log: &mut Log, words: &str) -> Result<String> {
    bounded(words, async {
        while let Some(line) = log.next_line().await? {
            if line.contains(words) {
                return Ok(line);
            }
        }
        anyhow::bail!("it ended")
    })
    .await
}

/// A worker that serves, and its address.
struct Served {
    _child: Child,
    address: String,
}

impl Served {
    async fn start(config: &Path) -> Result<Self> {
        let (child, mut log) = run(config, "127.0.0.1:0")?;
        let line = said(&mut log, "serving /metrics").await?;
        let (_, address) = line.split_once("address=").context("an address")?;
        Ok(Self::new(child, log, address))
    }

    fn new(child: Child, mut log: Log, address: &str) -> Self {
        // Its log must go on being read.
        tokio::spawn(async move { while let Ok(Some(_)) = log.next_line().await {} });
        Self {
            _child: child,
            address: address.to_owned(),
        }
    }

    /// The status and the body of an answer.
    async fn get(&self, path: &str) -> Result<(u16, String)> {
        let mut stream = TcpStream::connect(&self.address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").context("a head")?;
        let status = head.split(' ').nth(1).context("a status")?.parse()?;
        Ok((status, body.to_owned()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_serves_every_figure_of_its_table_and_says_that_it_is_well() -> Result<()> {
    let (_folder, config, world) = config().await?;
    let stack = Stack::with(world).await?;
    stack.player("ann").update([("gold", "1")]).await?;
    let served = Served::start(&config).await?;
    until("it is well", async || {
        Ok(served.get("/healthz").await? == (200, "ok\n".to_owned()))
    })
    .await?;
    stack.landed().await?;
    let (status, page) = served.get("/metrics").await?;
    assert_eq!(status, 200);
    assert!(page.contains("storage_landed_rows_total 1\n"), "{page}");
    assert!(page.contains("storage_dirty_owners 0"), "{page}");
    let own = stack.storage.metrics().await?;
    // Every name of the table is a figure of the worker, of the SDK, or of both. Those of layers have
    // tests of their own.
    let ours = names::ALL.iter().filter(|name| {
        !["document_", "shard_"]
            .iter()
            .any(|layer| name.name.starts_with(layer))
    });
    for name in ours {
        let line = format!("# TYPE storage_{} ", name.name);
        assert!(
            page.contains(&line) || own.contains(&line),
            "nobody measures {}",
            name.name
        );
    }
    assert_eq!(served.get("/").await?.0, 404);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_tier_is_away_says_which() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("storage.toml");
    let database = World::fresh().await?.database;
    std::fs::write(
        &config,
        World::with_urls("redis://127.0.0.1:1", &database, "away")?.text,
    )?;
    let served = Served::start(&config).await?;
    let (status, why) = served.get("/healthz").await?;
    assert_eq!(
        (status, why.as_str()),
        (503, "the tiers are not open yet\n")
    );
    assert_eq!(served.get("/metrics").await?.0, 503);

    let redis =
        storage_servers::RedisServer::start(storage_servers::RedisOptions::default()).await?;
    let world = World::on(&redis.url(), stack::mariadb().await?).await?;
    std::fs::write(&config, &world.text)?;
    let served = Served::start(&config).await?;
    until("it is well", async || {
        Ok(served.get("/healthz").await?.0 == 200)
    })
    .await?;
    drop(redis);
    until("it names the hot tier", async || {
        let (status, why) = served.get("/healthz").await?;
        Ok(status == 503 && why.starts_with("the hot tier"))
    })
    .await?;
    let (status, page) = served.get("/metrics").await?;
    assert_eq!(status, 200);
    assert!(page.contains("storage_unreachable_partitions 8"), "{page}");
    assert!(page.contains("storage_landed_rows_total 0"), "{page}");
    Ok(())
}

/// A supervisor that restarts on `/livez` restarts nothing in an outage.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_alive_while_a_tier_is_away_and_ready_only_if_it_can_land() -> Result<()> {
    let redis =
        storage_servers::RedisServer::start(storage_servers::RedisOptions::default()).await?;
    let world = World::on(&redis.url(), stack::mariadb().await?).await?;
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("storage.toml");
    std::fs::write(&config, &world.text)?;
    let database = world.database.clone();
    let served = Served::start(&config).await?;
    until("it is ready", async || {
        Ok(served.get("/readyz").await? == (200, "ok\n".to_owned()))
    })
    .await?;
    assert_eq!(served.get("/livez").await?, (200, "ok\n".to_owned()));
    // A hook that this program lacks: both tiers answer, and the worker lands nothing.
    crate::landing::sql(
        &database,
        "INSERT INTO landing_hook (name, definitions, is_needed) VALUES ('foreign', 1, 1)"
            .to_owned(),
    )
    .await?;
    until("it lacks a hook", async || {
        let (status, why) = served.get("/readyz").await?;
        Ok(status == 503 && why.contains("foreign"))
    })
    .await?;
    assert_eq!(served.get("/healthz").await?.0, 200);
    drop(redis);
    until("it is not ready", async || {
        let (status, why) = served.get("/readyz").await?;
        Ok(status == 503 && why.starts_with("the hot tier"))
    })
    .await?;
    assert_eq!(served.get("/livez").await?.0, 200);
    Ok(())
}

/// Landing keeps the files that it needs, and the pages are served again once the others are gone.
#[tokio::test(flavor = "multi_thread")]
async fn sixty_idle_connections_leave_landing_its_files() -> Result<()> {
    let (_folder, config, world) = config().await?;
    let stack = Stack::with(world).await?;
    let mut child = Command::new("prlimit")
        .args(["--nofile=64:64", env!("CARGO_BIN_EXE_worker")])
        .args(["run", "--http", "127.0.0.1:0", "--config"])
        .arg(&config)
        .env("NO_COLOR", "1")
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut log = BufReader::new(child.stderr.take().context("its log")?).lines();
    let line = said(&mut log, "serving /metrics").await?;
    let (_, address) = line.split_once("address=").context("an address")?;
    let mut idle = Vec::new();
    for _ in 0..60 {
        idle.push(TcpStream::connect(address).await?);
    }
    let served = Served::new(child, log, address);
    for round in 0..5 {
        let ann = stack.player("ann");
        ann.update([("gold", round.to_string())]).await?;
        stack.landed().await?;
    }
    // The idle ones lose their places, though their clients keep them open.
    let page = bounded("the page comes", served.get("/livez")).await?;
    assert_eq!(page.0, 200);
    drop(idle);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_lands_while_another_process_has_its_address_and_takes_it_later() -> Result<()> {
    let (_folder, config, world) = config().await?;
    let stack = Stack::with(world).await?;
    let taken = TcpListener::bind("127.0.0.1:0").await?;
    let address = taken.local_addr()?.to_string();
    let (child, mut log) = run(&config, &address)?;
    said(&mut log, "another process has the address").await?;
    stack.player("ann").update([("gold", "1")]).await?;
    stack.landed().await?;
    drop(taken);
    said(&mut log, "serving /metrics").await?;
    let served = Served::new(child, log, &address);
    until("it is well", async || {
        Ok(served.get("/healthz").await?.0 == 200)
    })
    .await
}
