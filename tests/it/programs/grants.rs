//! The rights that `grants` prints are enough, and each of them is needed.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use storage_sdk::{Durability, Evicted, Kind, Settings, Storage};
use storage_servers::{RedisOptions, RedisServer};
use storage_tests::{Stack, World, stack, until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::{program, text};

/// Commands that the test itself sends, or that need no right.
const OWN: [&str; 3] = ["auth", "config|resetstat", "flushall"];

/// The output of `grants` for these settings.
async fn printed(config: &std::path::Path) -> Result<String> {
    let grants = program(config, &["grants"]).await?;
    ensure!(grants.status.success(), "{}", text(&grants.stderr));
    Ok(text(&grants.stdout))
}

/// Sends a line as an administrator pastes it.
async fn paste(redis: &RedisServer, line: &str) -> Result<String> {
    let mut stream = UnixStream::connect(redis.socket()).await?;
    stream.write_all(format!("{line}\r\n").as_bytes()).await?;
    let mut answer = [0; 512];
    let length = stream.read(&mut answer).await?;
    Ok(text(answer.get(..length).unwrap_or_default()))
}

/// Does all the work of game servers and workers.
async fn everything(
    settings: &Settings,
    database: &str,
    config: &std::path::Path,
    redis: &RedisServer,
) -> Result<()> {
    let stack = Stack {
        storage: Storage::open(settings.clone()).await?,
        settings: settings.clone(),
        database: database.to_owned(),
    };
    let (ann, bob) = (stack.player("ann"), stack.player("bob"));
    let timeout = Duration::from_secs(5);
    for _ in 0..3 {
        ann.update([("name", "Ann"), ("gold", "1")]).await?;
        ann.incr("level", 1).await?;
    }
    bob.update([("name", "Bob")]).if_absent().await?;
    bob.update([("gold", "1")])
        .durability(Durability::Fsynced { timeout })
        .await?;
    let alone = bob
        .update([("gold", "1")])
        .durability(Durability::Replicated {
            replicas: 1,
            timeout,
        })
        .await;
    ensure!(
        alone.is_err_and(|error| error.kind() == Kind::Durability),
        "there is no replica"
    );
    bob.remove(["name"]).await?;
    land(config).await?;
    ann.update([("gold", "2")]).await?;
    refuse(database, "ADD CONSTRAINT poison CHECK (value <> 'bad')").await?;
    bob.update([("gold", "bad")]).await?;
    let refused = program(config, &["drain"]).await?;
    ensure!(
        refused.status.code() == Some(1),
        "{}{}",
        text(&refused.stdout),
        text(&refused.stderr)
    );
    refuse(database, "DROP CONSTRAINT poison").await?;
    for command in [
        &["status"][..],
        &["errors", "--retry"],
        &["drain"],
        &["verify"],
        &["export"],
    ] {
        let ended = program(config, command).await?;
        ensure!(
            ended.status.success(),
            "{command:?}: {}{}",
            text(&ended.stdout),
            text(&ended.stderr)
        );
    }
    let worker = stack.worker();
    // The worker ends the probation. Before that, no owner leaves.
    until("ann has left", async || {
        Ok(ann.evict().await? == Evicted::Gone)
    })
    .await?;
    worker.stop().await?;
    ensure!(
        ann.get(["gold"]).await?["gold"].is_some() && ann.get_all().await?.iter().count() == 3,
        "it is loaded"
    );
    redis.call(&["FLUSHALL"]).await?;
    ensure!(
        ann.incr("level", 1).await?.value() == 4,
        "a counter goes on from its row"
    );
    land(config).await?;
    stack.storage.close(timeout).await;
    Ok(())
}

/// How often each command was called, also by scripts.
async fn stats(redis: &RedisServer) -> Result<String> {
    match redis.call(&["INFO", "commandstats"]).await? {
        storage_servers::Reply::Bytes(bytes) => Ok(text(&bytes)),
        other => anyhow::bail!("{other:?}"),
    }
}

async fn land(config: &std::path::Path) -> Result<()> {
    let drain = program(config, &["drain"]).await?;
    ensure!(
        drain.status.success(),
        "{}{}",
        text(&drain.stdout),
        text(&drain.stderr)
    );
    Ok(())
}

async fn refuse(database: &str, what: &str) -> Result<()> {
    let mut connection =
        <sqlx::mysql::MySqlConnection as sqlx::Connection>::connect(database).await?;
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!(
        "ALTER TABLE landing_rows {what}"
    )))
    .execute(&mut connection)
    .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_rights_are_enough_for_everything_and_each_is_used() -> Result<()> {
    let redis = RedisServer::start(RedisOptions {
        appendonly: true,
        ..RedisOptions::default()
    })
    .await?;
    let mariadb = stack::mariadb().await?;
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("storage.toml");
    let url = redis.url();
    let (_, server) = url.split_once("://").context("a URL")?;
    // Names with characters that a statement must escape.
    let database = mariadb.fresh_database("few_rights").await?;
    let (_, address) = database.split_once('@').context("a URL")?;
    let redis_url = format!("redis://g'a\"me:PASSWORD@{server}");
    let database_url = format!("mysql://o'neil:PASSWORD@{address}");
    let mut world = World::with_urls(&redis_url, &database_url, "a*b [c]")?;
    world.text += "probation = \"100ms\"\n";
    std::fs::write(&config, &world.text)?;
    let statements = printed(&config).await?;
    let sql: String = statements
        .lines()
        .filter(|line| line.ends_with(';'))
        .collect();
    mariadb.sql(&sql).await?;
    let acl = statements
        .lines()
        .find(|line| line.starts_with("ACL "))
        .context("a line for Redis")?;
    assert_eq!(paste(&redis, acl).await?.trim(), "+OK", "{acl}");

    paste(&redis, "CONFIG RESETSTAT").await?;
    let settings = Settings::from_toml(&world.text, "test")?;
    everything(&settings, &database, &config, &redis).await?;
    let stats = stats(&redis).await?;
    let used: BTreeSet<&str> = stats
        .lines()
        .filter_map(|line| line.strip_prefix("cmdstat_")?.split(':').next())
        .collect();
    let granted: BTreeSet<&str> = acl
        .split(' ')
        .filter_map(|word| word.strip_prefix('+'))
        .collect();
    let superfluous: Vec<_> = granted.difference(&used).collect();
    let missing: Vec<_> = used
        .iter()
        .filter(|name| !granted.contains(**name) && !OWN.contains(*name))
        .collect();
    assert_eq!((superfluous, missing), (vec![], vec![]), "{used:?}");
    Ok(())
}
