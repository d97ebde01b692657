//! The exit codes of commands, in one table.

use std::path::Path;
use std::process::{Output, Stdio};

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};
use storage_tests::stack::bounded;
use storage_tests::{Stack, World, stack, until};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

use super::{config, program, text};

/// Commands that ask a tier, except the one that waits without limit.
const ASKING: [&[&str]; 9] = [
    &["status"],
    &["errors"],
    &["errors", "--retry"],
    &["verify"],
    &["export"],
    &["hooks"],
    &["migrate"],
    &["drain"],
    &["import", "/dev/null"],
];

/// Whether the command asks the database alone.
fn is_of_the_database(args: &[&str]) -> bool {
    matches!(args, ["migrate" | "hooks"])
}

fn write(folder: &Path, redis: &str, database: &str, prefix: &str) -> Result<std::path::PathBuf> {
    let path = folder.join("storage.toml");
    std::fs::write(&path, World::with_urls(redis, database, prefix)?.text)?;
    Ok(path)
}

/// The line with the error.
fn error(output: &Output) -> String {
    text(&output.stderr)
        .lines()
        .filter(|line| line.starts_with("error: "))
        .collect::<Vec<_>>()
        .join("\n")
}

async fn ends(config: &Path, args: &[&str]) -> Result<Output> {
    bounded("the command ends", program(config, args))
        .await
        .with_context(|| args.join(" "))
}

fn signal(child: &Child, signal: Signal) -> Result<()> {
    let id = i32::try_from(child.id().unwrap_or_default())?;
    Ok(kill_process(Pid::from_raw(id).context("an id")?, signal)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_and_files_that_can_not_be_read_or_written_end_with_2() -> Result<()> {
    let (_folder, config, _world) = config().await?;
    let wrong: [&[&str]; 6] = [
        &["status", "--colour"],
        &["nonsense"],
        &["verify", "--one-in", "0"],
        &["status", "--deadline", "soon"],
        &["import", "no/such/file"],
        &["export", "--output", "/no/such/folder/file"],
    ];
    for args in wrong {
        let ended = ends(&config, args).await?;
        assert_eq!(
            ended.status.code(),
            Some(2),
            "{args:?}: {}",
            text(&ended.stderr)
        );
        assert_eq!(
            text(&ended.stderr).matches("No such file").count(),
            usize::from(args.join(" ").contains("no/such"))
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_can_never_be_right_end_each_command_at_once_with_3_also_the_service()
-> Result<()> {
    let folder = tempfile::tempdir()?;
    let missing = folder.path().join("no.toml");
    let ended = ends(&missing, &["status"]).await?;
    assert_eq!(ended.status.code(), Some(3), "{}", text(&ended.stderr));
    assert_eq!(
        text(&ended.stderr).matches("No such file").count(),
        1,
        "{}",
        text(&ended.stderr)
    );

    let (_folder, _config, world) = config().await?;
    let (redis, prefix) = (
        stack::redis().await?.url(),
        world.settings.redis.prefix.clone(),
    );
    let unknown = world
        .database
        .rsplit_once('/')
        .map(|(server, _)| format!("{server}/nosuchdatabase"))
        .context("a URL")?;
    let stranger = redis.replace("redis://", "redis://stranger:wrong@");
    let all = || ASKING.into_iter().chain([&["run"][..]]);
    for args in all().filter(|args| !is_of_the_database(args)) {
        let config = write(folder.path(), &stranger, &world.database, &prefix)?;
        let ended = ends(&config, args).await?;
        assert_eq!(
            ended.status.code(),
            Some(3),
            "{args:?}: {}",
            text(&ended.stderr)
        );
        assert!(
            !text(&ended.stderr).contains("wrong"),
            "no password: {}",
            text(&ended.stderr)
        );
    }
    for args in all().filter(|args| !matches!(args, ["status"] | ["errors"])) {
        let config = write(folder.path(), &redis, &unknown, &prefix)?;
        let ended = ends(&config, args).await?;
        assert_eq!(
            ended.status.code(),
            Some(3),
            "{args:?}: {}",
            text(&ended.stderr)
        );
        assert!(
            error(&ended).contains("nosuchdatabase"),
            "{}",
            text(&ended.stderr)
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tier_that_is_away_ends_each_command_but_the_service_and_is_named() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (_folder, _config, world) = config().await?;
    let (redis, nobody) = (stack::redis().await?.url(), "127.0.0.1:1");
    let prefix = &world.settings.redis.prefix;
    let waiting = |args: &[&'static str]| {
        let patience: &[&str] = if matches!(args, ["drain"] | ["import", _]) {
            &["--deadline", "1s"]
        } else {
            &[]
        };
        [args, patience].concat()
    };
    for args in ASKING.into_iter().filter(|args| !is_of_the_database(args)) {
        let config = write(
            folder.path(),
            &format!("redis://{nobody}/0"),
            &world.database,
            prefix,
        )?;
        let ended = ends(&config, &waiting(args)).await?;
        assert_eq!(
            ended.status.code(),
            Some(4),
            "{args:?}: {}",
            text(&ended.stderr)
        );
        assert!(
            error(&ended).contains(nobody),
            "{args:?}: {}",
            text(&ended.stderr)
        );
    }
    for args in ASKING
        .into_iter()
        .filter(|args| !matches!(args, ["status"] | ["errors"]))
    {
        let config = write(
            folder.path(),
            &redis,
            &format!("mysql://game@{nobody}/game"),
            prefix,
        )?;
        let ended = ends(&config, &waiting(args)).await?;
        assert_eq!(
            ended.status.code(),
            Some(5),
            "{args:?}: {}",
            text(&ended.stderr)
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn another_number_of_partitions_is_refused_for_safety_with_6() -> Result<()> {
    let (folder, _config, world) = config().await?;
    let _stack = Stack::with(world.clone()).await?;
    let other = folder.path().join("other.toml");
    std::fs::write(
        &other,
        world.text.replace("partitions = 8", "partitions = 9"),
    )?;
    for args in [
        &["status"][..],
        &["verify"],
        &["drain"],
        &["run"],
        &["import", "/dev/null"],
    ] {
        let ended = ends(&other, args).await?;
        assert_eq!(
            ended.status.code(),
            Some(6),
            "{args:?}: {}",
            text(&ended.stderr)
        );
        assert!(
            error(&ended).contains('8') && error(&ended).contains('9'),
            "{}",
            text(&ended.stderr)
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_passes_ends_each_command_with_7() -> Result<()> {
    let folder = tempfile::tempdir()?;
    // Servers that accept connections and never answer.
    let hung = TcpListener::bind("127.0.0.1:0").await?;
    let address = hung.local_addr()?;
    let (redis, database) = (
        format!("redis://{address}/0"),
        format!("mysql://game@{address}/game"),
    );
    let config = write(folder.path(), &redis, &database, "hung")?;
    for args in ASKING {
        let ended = ends(&config, &[args, &["--deadline", "1ns"]].concat()).await?;
        assert_eq!(
            ended.status.code(),
            Some(7),
            "{args:?}: {}",
            text(&ended.stderr)
        );
        assert!(
            error(&ended).contains("--deadline"),
            "{args:?}: {}",
            text(&ended.stderr)
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_whose_deadline_passes_with_marks_left_ends_with_7_and_a_list() -> Result<()> {
    let (_folder, config, world) = config().await?;
    let stack = Stack::with(world).await?;
    stack.player("ann").update([("v", "1")]).await?;
    let mut connection =
        <sqlx::mysql::MySqlConnection as sqlx::Connection>::connect(&stack.database).await?;
    sqlx::raw_sql("LOCK TABLES landing_rows READ")
        .execute(&mut connection)
        .await?;
    let drain = ends(&config, &["drain", "--deadline", "1s"]).await?;
    assert_eq!(
        drain.status.code(),
        Some(7),
        "{}{}",
        text(&drain.stdout),
        text(&drain.stderr)
    );
    assert!(
        text(&drain.stdout).contains(": 1 unlanded, 0 rejected"),
        "{}",
        text(&drain.stdout)
    );
    sqlx::raw_sql("UNLOCK TABLES")
        .execute(&mut connection)
        .await?;
    let drain = ends(&config, &["drain"]).await?;
    assert_eq!(
        drain.status.code(),
        Some(0),
        "{}{}",
        text(&drain.stdout),
        text(&drain.stderr)
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_a_command_that_waits_with_130() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let hung = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("redis://{}/0", hung.local_addr()?);
    let config = write(folder.path(), &url, "mysql://game@127.0.0.1:1/game", "hung")?;
    let commands = ASKING.into_iter().filter(|args| !is_of_the_database(args));
    for (args, by) in commands.zip([Signal::TERM, Signal::INT, Signal::HUP].into_iter().cycle()) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_worker"));
        let (name, rest) = args.split_first().context("a command")?;
        let command = command
            .arg(name)
            .arg("--config")
            .arg(&config)
            .args(rest)
            .kill_on_drop(true);
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let _held = bounded("it asks", async { Ok(hung.accept().await?) }).await?;
        signal(&child, by)?;
        let ended = bounded("it ends", async { Ok(child.wait_with_output().await?) }).await?;
        assert_eq!(
            ended.status.code(),
            Some(130),
            "{args:?}: {}",
            text(&ended.stderr)
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_that_a_signal_ends_leaves_no_file_of_its_own() -> Result<()> {
    let (folder, config, world) = config().await?;
    let stack = Stack::with(world).await?;
    stack.player("ann").update([("v", "1")]).await?;
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    let files = folder.path().join("files");
    std::fs::create_dir(&files)?;
    // The list of owners waits for the table.
    let mut connection =
        <sqlx::mysql::MySqlConnection as sqlx::Connection>::connect(&stack.database).await?;
    sqlx::raw_sql("LOCK TABLES landing_rows WRITE")
        .execute(&mut connection)
        .await?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_worker"));
    command
        .args(["export", "--config"])
        .arg(&config)
        .arg("--output")
        .arg(files.join("lines"))
        .kill_on_drop(true);
    let mut child = command.stderr(Stdio::null()).spawn()?;
    until("the file is begun", async || {
        Ok(std::fs::read_dir(&files)?.count() == 1)
    })
    .await?;
    signal(&child, Signal::HUP)?;
    let ended = bounded("it ends", async { Ok(child.wait().await?) }).await?;
    assert_eq!(
        (ended.code(), std::fs::read_dir(&files)?.count()),
        (Some(130), 0)
    );
    Ok(())
}

/// Without threads a runtime would panic, and a command would hang.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_gets_too_few_threads_or_files_names_the_limit_and_ends() -> Result<()> {
    let (_folder, config, world) = config().await?;
    let _stack = Stack::with(world).await?;
    let limited = async |limit: &str, stack: &str| {
        let mut command = Command::new("prlimit");
        command
            .args([limit, env!("CARGO_BIN_EXE_worker"), "status", "--config"])
            .env("RUST_MIN_STACK", stack);
        let run = async { Ok(command.arg(&config).output().await?) };
        bounded("the command ends", run).await
    };
    // A limit of processes does not hold for root. No thread has room for such a stack.
    let threads = limited("--nofile=1024", "281474976710656").await?;
    let said = text(&threads.stderr);
    assert_eq!(threads.status.code(), Some(3), "{said}");
    assert!(
        said.contains("TasksMax") && !said.contains("panicked"),
        "{said}"
    );
    let files = limited("--nofile=10:10", "2097152").await?;
    let said = text(&files.stderr);
    assert!(
        matches!(files.status.code(), Some(3..=5)) && said.contains("ulimit -n"),
        "{:?} {said}",
        files.status
    );
    assert!(!said.contains("panicked"), "{said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_shows_its_deadline_and_the_exit_codes() -> Result<()> {
    let help = async |args: &[&str]| -> Result<String> {
        let output = Command::new(env!("CARGO_BIN_EXE_worker"))
            .args(args)
            .arg("--help")
            .output()
            .await?;
        assert!(output.status.success());
        Ok(text(&output.stdout))
    };
    let all = help(&[]).await?;
    let commands = all
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty());
    let commands: Vec<&str> = commands
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(commands.len() >= 10 && all.contains("Exit codes:"), "{all}");
    for command in commands {
        let help = help(&[command]).await?;
        assert!(help.contains("Exit codes:"), "{help}");
        let ends_by_itself = match command {
            "run" => help.contains("has no deadline"),
            "grants" => help.contains("Contacts no server"),
            _ => help.contains("--deadline"),
        };
        assert!(ends_by_itself, "{help}");
    }
    Ok(())
}
