//! The `landing-worker` program as a user runs it.

mod backup;
mod exits;
mod grants;
mod hooks;
mod http;
mod imports;
mod layout;
mod lines;
mod parked;
mod product;
mod replaced;
mod starts;
mod unreadable;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::Result;
use storage_tests::{Stack, World, rows, stack, until};
use tokio::process::Command;

/// A settings file of a fresh world, and its folder.
async fn config() -> Result<(tempfile::TempDir, std::path::PathBuf, World)> {
    let world = World::fresh().await?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("storage.toml");
    std::fs::write(&path, &world.text)?;
    Ok((folder, path, world))
}

async fn program(config: &Path, args: &[&str]) -> Result<Output> {
    let (command, rest) = args
        .split_first()
        .map_or(("", args), |(command, rest)| (*command, rest));
    Ok(Command::new(env!("CARGO_BIN_EXE_worker"))
        .arg(command)
        .arg("--config")
        .arg(config)
        .args(rest)
        .output()
        .await?)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn status_counts_what_waits_and_names_who_lands_it() -> Result<()> {
    let (_folder, config, world) = config().await?;
    let stack = Stack::with(world).await?;
    for id in 0..20 {
        stack.player(&id.to_string()).update([("v", "1")]).await?;
    }
    let json = program(&config, &["status", "--json"]).await?;
    let status: serde_json::Value = serde_json::from_slice(&json.stdout)?;
    assert_eq!(
        (
            status["total"]["live"].as_u64(),
            status["total"]["errors"].as_u64()
        ),
        (Some(20), Some(0))
    );
    assert!(
        status["total"]["oldest_unlanded_seconds"]
            .as_f64()
            .is_some()
    );
    assert_eq!(status["partitions"].as_array().map(Vec::len), Some(8));
    let worker = stack.worker();
    stack.landed().await?;
    let table = text(&program(&config, &["status"]).await?.stdout);
    let names: Vec<_> = table
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(names, ["partition", "total", "8"], "{table}");
    assert!(
        table
            .lines()
            .last()
            .is_some_and(|line| line.starts_with("8 partitions are idle, held by w")),
        "{table}"
    );
    worker.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_value_is_mended_and_another_given_up_by_an_import() -> Result<()> {
    let (folder, config, world) = config().await?;
    let stack = Stack::with(world).await?;
    let (ann, bob) = (stack.player("ann"), stack.player("bob"));
    bob.update([("name", "Bob")]).await?;
    ensure_success(&program(&config, &["drain"]).await?);
    let mut connection =
        <sqlx::mysql::MySqlConnection as sqlx::Connection>::connect(&stack.database).await?;
    let short = "ALTER TABLE landing_rows ADD CONSTRAINT short CHECK (LENGTH(value) < 8)";
    sqlx::raw_sql(short).execute(&mut connection).await?;
    ann.update([("name", "Ann the long")]).await?;
    bob.update([("name", "Bob the long")]).await?;
    let log = program(&config, &["drain"]).await?;
    assert_eq!(log.status.code(), Some(1));
    assert!(
        text(&log.stderr).contains("owner=\"game/eu/player/")
            && text(&log.stderr).contains("landing-worker errors")
    );
    // A value that fits, and the value that the database has.
    let line = |id: &str, name: &str| {
        format!(
            "{{\"app\":\"game\",\"region\":\"eu\",\"logic_type\":\"player\",\"owner_id\":\"{id}\",\"fields\":{{\"name\":\"{name}\"}}}}\n"
        )
    };
    let file = folder.path().join("lines");
    std::fs::write(&file, line("ann", "Ann") + &line("bob", "Bob"))?;
    ensure_success(&program(&config, &["import", file.to_str().unwrap_or_default()]).await?);
    ensure_success(&program(&config, &["drain"]).await?);
    assert_eq!(
        text(&program(&config, &["errors"]).await?.stdout),
        "0 error marks\n"
    );
    Ok(())
}

fn ensure_success(output: &Output) {
    assert!(
        output.status.success(),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
}

/// Starts a worker as a process with this name and this log.
fn worker_called(config: &Path, name: &str, log: &Path) -> Result<tokio::process::Child> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_worker"));
    command
        .args(["run", "--config"])
        .arg(config)
        .env("STORAGE__LANDING__WORKER_NAME", name);
    let log = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)?;
    Ok(command.stderr(log).kill_on_drop(true).spawn()?)
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_live_workers_of_one_name_the_one_that_lands_nothing_says_so() -> Result<()> {
    let (folder, config, world) = config().await?;
    let stack = Stack::with(world).await?;
    let log = folder.path().join("log");
    let dead = worker_called(&config, "twin", &log)?;
    let all_held = async || {
        Ok(stack
            .backlog()
            .await?
            .partitions
            .iter()
            .all(|(_, peek)| peek.holder.is_some()))
    };
    until("the first one holds all", all_held).await?;
    // The worker was killed, and its locks run out. The next worker of the same name takes over
    // silently.
    drop(dead);
    let _first = worker_called(&config, "twin", &log)?;
    stack.player("ann").update([("v", "1")]).await?;
    stack.landed().await?;
    let said = || {
        Ok::<_, anyhow::Error>(
            std::fs::read_to_string(&log)?.contains("another live worker has this worker's name"),
        )
    };
    assert!(!said()?, "{}", std::fs::read_to_string(&log)?);
    let _second = worker_called(&config, "twin", &log)?;
    until("the second one says why it lands nothing", async || said()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_ends_with_1_and_a_list_while_the_database_refuses_something() -> Result<()> {
    let (_folder, config, world) = config().await?;
    let stack = Stack::with(world).await?;
    stack.player("good").update([("v", "1")]).await?;
    stack.player("bad").update([("v", "1")]).await?;
    let mut connection =
        <sqlx::mysql::MySqlConnection as sqlx::Connection>::connect(&stack.database).await?;
    sqlx::raw_sql("ALTER TABLE landing_rows ADD CONSTRAINT poison CHECK (owner_id <> 'bad')")
        .execute(&mut connection)
        .await?;
    let drain = program(&config, &["drain"]).await?;
    assert_eq!(drain.status.code(), Some(1), "{}", text(&drain.stderr));
    assert!(
        text(&drain.stdout).contains("0 unlanded, 1 rejected"),
        "{}",
        text(&drain.stdout)
    );
    let errors = program(&config, &["errors"]).await?;
    assert!(errors.status.success(), "a list is all that was asked for");
    let errors = text(&errors.stdout);
    assert!(
        errors.contains("game/eu/player/bad") && errors.contains("poison"),
        "{errors}"
    );
    let retry = async || program(&config, &["errors", "--retry"]).await;
    let refused = retry().await?;
    assert_eq!(refused.status.code(), Some(1), "still refused");
    assert!(
        text(&refused.stdout).contains("1 error marks\nThe values are still in Redis"),
        "{}",
        text(&refused.stdout)
    );
    assert!(
        text(&refused.stdout).contains(", 1 attempts\n"),
        "a retry by hand is no attempt of a worker: {}",
        text(&refused.stdout)
    );
    sqlx::raw_sql("ALTER TABLE landing_rows DROP CONSTRAINT poison")
        .execute(&mut connection)
        .await?;
    let retried = retry().await?;
    assert!(retried.status.success(), "nothing is refused any more");
    assert_eq!(
        text(&retried.stdout),
        "tried 1 owners again, 1 of them landed whole\n0 error marks\n"
    );
    assert_eq!(rows(&stack.database).await?.len(), 2);
    Ok(())
}

/// An operator need not wait for `landing.torn_after`.
#[tokio::test(flavor = "multi_thread")]
async fn partners_of_a_rejected_owner_land_apart_by_command() -> Result<()> {
    let (_folder, config, mut world) = config().await?;
    world.settings.landing.error_retry_max = Duration::from_millis(200);
    let stack = Stack::with(world).await?;
    let mut connection =
        <sqlx::mysql::MySqlConnection as sqlx::Connection>::connect(&stack.database).await?;
    sqlx::raw_sql("ALTER TABLE landing_rows ADD CONSTRAINT poison CHECK (owner_id <> '{g}/bad')")
        .execute(&mut connection)
        .await?;
    let (good, bad) = (stack.player("{g}/good"), stack.player("{g}/bad"));
    good.transaction(|part| part.set("v", "1"))
        .owner(&bad, |part| part.set("v", "1"))
        .await?;
    let worker = stack.worker();
    stack.landed().await?;
    assert_eq!(rows(&stack.database).await?.len(), 0, "both wait");
    let torn = program(&config, &["errors", "--retry", "--apart"]).await?;
    assert_eq!(torn.status.code(), Some(1), "one is still rejected");
    let said = text(&torn.stdout);
    assert!(
        said.contains("2 rejected owners land without their rejected fields"),
        "{said}"
    );
    until("the partner has landed", async || {
        let stored = rows(&stack.database).await?;
        Ok(stored.iter().any(|row| row.name == "player/{g}/good/v"))
    })
    .await?;
    until("the torn owners are counted", async || {
        Ok(worker.counts().torn > 0)
    })
    .await?;
    assert_eq!(rows(&stack.database).await?.len(), 1);
    worker.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_waits_for_a_tier_until_its_deadline_says_for_which() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("storage.toml");
    let (redis, nobody) = (stack::redis().await?.url(), "127.0.0.1:1");
    let urls = [
        (
            "the hot tier",
            4,
            format!("redis://{nobody}/0"),
            format!("mysql://game@{nobody}/game"),
        ),
        (
            "the cold tier",
            5,
            redis,
            format!("mysql://game@{nobody}/game"),
        ),
    ];
    for (away, code, redis, database) in urls {
        std::fs::write(&config, World::with_urls(&redis, &database, "away")?.text)?;
        let drain = program(&config, &["drain", "--deadline", "1s"]).await?;
        assert_eq!(drain.status.code(), Some(code));
        let error = text(&drain.stderr)
            .lines()
            .filter(|line| line.starts_with("error: "))
            .collect::<Vec<_>>()
            .join("\n");
        assert!(
            error.contains(away) && error.contains("--deadline"),
            "{}",
            text(&drain.stderr)
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_takes_a_deadline_that_no_clock_can_tell() -> Result<()> {
    let (_folder, config, _world) = config().await?;
    let drain = program(&config, &["drain", "--deadline", "999999999years"]).await?;
    assert!(drain.status.success(), "{}", text(&drain.stderr));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn migrate_shows_and_creates_the_schema_once() -> Result<()> {
    let (_folder, config, world) = config().await?;
    let dry = text(&program(&config, &["migrate", "--dry-run"]).await?.stdout);
    assert!(
        dry.contains("CREATE TABLE") && dry.contains("landing_rows"),
        "{dry}"
    );
    assert!(rows(&world.database).await.is_err(), "nothing was run");
    let first = program(&config, &["migrate"]).await?;
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert_eq!(rows(&world.database).await?, []);
    assert_eq!(
        text(&program(&config, &["migrate", "--dry-run"]).await?.stdout),
        ""
    );
    assert_eq!(
        text(&program(&config, &["migrate"]).await?.stdout),
        "the schema was up to date\n"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_starts_without_a_database_waits_and_says_so() -> Result<()> {
    let mariadb =
        storage_servers::MariaDbServer::start(storage_servers::MariaDbOptions::default()).await?;
    let world = World::on(&stack::redis().await?.url(), &mariadb).await?;
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("storage.toml");
    std::fs::write(&config, &world.text)?;
    let stack = Stack::with(world).await?;
    stack.player("ann").update([("v", "1")]).await?;
    mariadb.kill()?;
    let log = folder.path().join("log");
    let mut worker = Command::new(env!("CARGO_BIN_EXE_worker"))
        .args(["run", "--config"])
        .arg(&config)
        .stderr(std::fs::File::create(&log)?)
        .kill_on_drop(true)
        .spawn()?;
    until("it says that it waits", async || {
        Ok(std::fs::read_to_string(&log)?.contains("waiting"))
    })
    .await?;
    mariadb.restart().await?;
    stack.landed().await?;
    assert_eq!(rows(&stack.database).await?.len(), 1);
    let id = i32::try_from(worker.id().unwrap_or_default())?;
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(id).expect("an id"),
        rustix::process::Signal::TERM,
    )?;
    assert!(worker.wait().await?.success(), "SIGTERM ends it with 0");
    let holders: BTreeMap<_, _> = stack
        .backlog()
        .await?
        .partitions
        .into_iter()
        .map(|(p, peek)| (p.0, peek.holder))
        .collect();
    assert!(
        holders.values().all(Option::is_none),
        "locks are given back: {holders:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_variables_are_enough_to_start_and_a_wrong_one_is_named() -> Result<()> {
    let world = World::fresh().await?;
    let status = async |name: &str, value: &str| {
        Command::new(env!("CARGO_BIN_EXE_worker"))
            .arg("status")
            .env("STORAGE__REDIS__URL", stack::redis().await?.url())
            .env("STORAGE__REDIS__PREFIX", &world.settings.redis.prefix)
            .env("STORAGE__SQL__URL", &world.database)
            .env(name, value)
            .output()
            .await
            .map_err(anyhow::Error::from)
    };
    let fine = status("STORAGE__REDIS__PARTITIONS", "8").await?;
    assert!(fine.status.success(), "{}", text(&fine.stderr));
    let wrong = status("STORAGE__REDIS__PARTITIONS", "many").await?;
    assert_eq!(wrong.status.code(), Some(3));
    let error = text(&wrong.stderr);
    assert!(
        error.contains("STORAGE__REDIS__PARTITIONS") && error.contains("16384"),
        "{error}"
    );
    Ok(())
}

/// `landing-worker errors | head` does this. The program must not panic, and it reports nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_whose_output_nobody_reads_any_more_ends_quietly() -> Result<()> {
    let (_folder, config, _world) = config().await?;
    for command in ["migrate", "status", "errors", "verify", "drain"] {
        let (reader, output) = std::io::pipe()?;
        drop(reader);
        let mut program = Command::new(env!("CARGO_BIN_EXE_worker"));
        let begun = program
            .args([command, "--config"])
            .arg(&config)
            .stdout(output)
            .stderr(Stdio::piped())
            .spawn()?;
        let ended = begun.wait_with_output().await?;
        assert_eq!(
            (ended.status.code(), text(&ended.stderr).as_str()),
            (Some(141), ""),
            "{command}"
        );
    }
    Ok(())
}
