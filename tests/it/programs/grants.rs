//! The rights that `grants` prints are enough, and none of them is superfluous.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use storage_sdk::{Durability, Settings, Storage};
use storage_servers::{RedisOptions, RedisServer};
use storage_tests::{Stack, World, stack};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::{program, text};

/// Commands that the printed rights hold for servers that can't be had here, or that are sent in vain where they are missing.
const UNSEEN: [&str; 0] = [];

/// What `grants` prints for these settings.
async fn printed(config: &std::path::Path) -> Result<String> {
    let grants = program(config, &["grants"]).await?;
    ensure!(grants.status.success(), "{}", text(&grants.stderr));
    Ok(text(&grants.stdout))
}

/// Sends a line as somebody pastes it.
async fn paste(redis: &RedisServer, line: &str) -> Result<String> {
    let mut stream = UnixStream::connect(redis.socket()).await?;
    stream.write_all(format!("{line}\r\n").as_bytes()).await?;
    let mut answer = [0; 512];
    let length = stream.read(&mut answer).await?;
    Ok(text(&answer[..length]))
}

/// Everything that game servers and workers do.
async fn everything(settings: &Settings, database: &str, config: &std::path::Path) -> Result<()> {
    let stack =
        Stack { storage: Storage::open(settings.clone()).await?, settings: settings.clone(), database: database.to_owned() };
    let (ann, bob) = (stack.player("ann"), stack.player("bob"));
    for value in 0..3 {
        ann.update([("name", "Ann"), ("gold", "1")]).await?;
        ann.incr("level", value).await?;
    }
    bob.update([("name", "Bob")]).if_absent().await?;
    bob.update([("gold", "1")]).durability(Durability::Fsynced { timeout: Duration::from_secs(5) }).await?;
    bob.remove(["name"]).await?;
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    for command in [&["status"][..], &["errors", "--retry"], &["verify"], &["drain"], &["export"]] {
        let ended = program(config, command).await?;
        ensure!(ended.status.success(), "{command:?}: {}{}", text(&ended.stdout), text(&ended.stderr));
    }
    ann.unload(Duration::from_secs(10)).await?;
    ensure!(ann.get(["gold"]).await?["gold"].is_some() && ann.get_all().await?.len() == 3, "it is loaded");
    stack.storage.close(Duration::from_secs(10)).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_rights_are_enough_for_everything_and_each_is_used() -> Result<()> {
    let redis = RedisServer::start(RedisOptions { appendonly: true, ..RedisOptions::default() }).await?;
    let mariadb = stack::mariadb().await?;
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("storage.toml");
    let url = redis.url();
    let (_, server) = url.split_once("://").context("a URL")?;
    // Names with characters that a statement has to escape.
    let database = mariadb.fresh_database("few_rights").await?;
    let (_, address) = database.split_once('@').context("a URL")?;
    let redis_url = format!("redis://g'a\"me:PASSWORD@{server}");
    let database_url = format!("mysql://o'neil:PASSWORD@{address}");
    let mut world = World::with_urls(&redis_url, &database_url, "a*b [c]")?;
    world.text += "probation = \"100ms\"\n";
    std::fs::write(&config, &world.text)?;
    let statements = printed(&config).await?;
    let sql: String = statements.lines().filter(|line| line.ends_with(';')).collect();
    mariadb.sql(&sql).await?;
    let acl = statements.lines().find(|line| line.starts_with("ACL ")).context("a line for Redis")?;
    assert_eq!(paste(&redis, acl).await?.trim(), "+OK", "{acl}");

    paste(&redis, "CONFIG RESETSTAT").await?;
    let settings = Settings::from_toml(&world.text, "test")?;
    everything(&settings, &database, &config).await?;
    let stats = String::from_utf8(match redis.call(&["INFO", "commandstats"]).await? {
        storage_servers::Reply::Bytes(bytes) => bytes,
        other => anyhow::bail!("{other:?}"),
    })?;
    let used: BTreeSet<&str> = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split(':').next()).collect();
    let granted: BTreeSet<&str> = acl.split(' ').filter_map(|word| word.strip_prefix('+')).collect();
    let superfluous: Vec<_> = granted.iter().filter(|right| !used.contains(**right) && !UNSEEN.contains(*right)).collect();
    let missing: Vec<_> = used.iter().filter(|name| !granted.contains(**name)).collect();
    assert_eq!((superfluous, missing), (vec![], vec![]), "{used:?}");
    Ok(())
}
