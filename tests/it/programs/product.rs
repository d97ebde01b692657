//! The exit code of each command in each state of the tiers.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use storage_servers::{RedisOptions, RedisServer};
use storage_tests::stack::bounded;
use storage_tests::{Stack, World, stack, until};
use tokio::process::Command;

use super::{program, text};

/// How a command ends.
#[derive(Debug, Clone, Copy)]
enum End {
    /// By itself, with this code.
    With(i32),
    /// It works until a signal, and then ends with 0.
    Works,
    /// It waits until a signal, and then ends with 0.
    Waits,
}
use End::{Waits, With, Works};

/// The states, in the order of the columns.
const STATES: [State; 8] = [
    State::DatabaseAway,
    State::DatabasePassword,
    State::NoTables,
    State::NoWorker,
    State::Policy,
    State::NoWrites,
    State::RedisAway,
    State::RedisPassword,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nobody listens at the address of the database.
    DatabaseAway,
    /// The database rejects the password.
    DatabasePassword,
    /// The database is empty, and so is Redis.
    NoTables,
    /// A mark waits.
    NoWorker,
    /// Redis may evict unlanded data, and a mark waits.
    Policy,
    /// Redis rejects writes, and a mark waits.
    NoWrites,
    /// Nobody listens at the address of Redis.
    RedisAway,
    /// Redis rejects the password.
    RedisPassword,
}

/// Each command, and how it ends in each state. A command that waits for a tier has a deadline.
#[rustfmt::skip]
const TABLE: [(&[&str], [End; 8]); 15] = [
    //                                   database                             Redis                     Redis
    //                                   away     password no tables no worker policy    no writes away     password
    (&["run"],                          [Waits,   With(3), Works,   Works,    Works,    Works,    Waits,   With(3)]),
    (&["drain", "--deadline", "2s"],    [With(5), With(3), With(0), With(0),  With(0),  With(0),  With(4), With(3)]),
    (&["status"],                       [With(5), With(3), With(0), With(0),  With(0),  With(0),  With(4), With(3)]),
    (&["verify"],                       [With(5), With(3), With(6), With(0),  With(0),  With(0),  With(4), With(3)]),
    (&["errors"],                       [With(5), With(3), With(0), With(0),  With(0),  With(0),  With(4), With(3)]),
    (&["errors", "--retry"],            [With(5), With(3), With(0), With(0),  With(0),  With(0),  With(4), With(3)]),
    (&["parked"],                       [With(5), With(3), With(6), With(0),  With(0),  With(0),  With(0), With(0)]),
    (&["hooks"],                        [With(5), With(3), With(6), With(0),  With(0),  With(0),  With(0), With(0)]),
    (&["migrate"],                      [With(5), With(3), With(0), With(0),  With(0),  With(0),  With(0), With(0)]),
    (&["import", LINES, "--deadline", "2s"],
                                        [With(5), With(3), With(0), With(0),  With(6),  With(7),  With(4), With(3)]),
    (&["export"],                       [With(5), With(3), With(6), With(0),  With(0),  With(0),  With(4), With(3)]),
    (&["adopt"],                        [With(5), With(3), With(0), With(0),  With(0),  With(0),  With(4), With(3)]),
    (&["adopt", "--dry-run"],           [With(5), With(3), With(1), With(0),  With(0),  With(0),  With(4), With(3)]),
    // The settings name a server, and only a SQLite file is copied.
    (&["backup", "copy.db"],            [With(3), With(3), With(3), With(3),  With(3),  With(3),  With(3), With(3)]),
    (&["grants"],                       [With(0), With(0), With(0), With(0),  With(0),  With(0),  With(0), With(0)]),
];

/// Stands for a file with one line.
const LINES: &str = "LINES";
const LINE: &str =
    r#"{"app":"game","region":"eu","logic_type":"player","owner_id":"bob","fields":{"gold":1}}"#;

/// A world in a state, as files.
struct Place {
    folder: tempfile::TempDir,
    config: PathBuf,
    lines: String,
}

impl Place {
    fn new(world: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (config, lines) = (
            folder.path().join("storage.toml"),
            folder.path().join("lines"),
        );
        // A command about sinks asks for one.
        let events = folder.path().join("events").display().to_string();
        let sink = format!("[sinks.files]\nkind = \"file\"\ndir = {events:?}\n");
        std::fs::write(&config, format!("{world}{sink}"))?;
        std::fs::write(&lines, LINE)?;
        let lines = lines.display().to_string();
        Ok(Self {
            folder,
            config,
            lines,
        })
    }
}

/// Makes a state. `redis` is the server of the states that change one.
async fn make(state: State, redis: &RedisServer) -> Result<Place> {
    let world = match state {
        State::Policy | State::NoWrites => {
            set(redis, "maxmemory-policy", "noeviction").await?;
            set(redis, "min-replicas-to-write", "0").await?;
            World::on(&redis.url(), stack::mariadb().await?).await?
        }
        _ => World::fresh().await?,
    };
    let (text, database) = (world.text.clone(), world.database.clone());
    if state != State::NoTables {
        let stack = Stack::with(world).await?;
        stack.player("ann").update([("gold", "1")]).await?;
        stack.storage.close(std::time::Duration::from_secs(5)).await;
    }
    let (login, place) = database.split_once('@').context("a login")?;
    let here = stack::redis().await?.url();
    let wrong = match state {
        State::DatabaseAway => text.replace(place, "127.0.0.1:1/game"),
        State::DatabasePassword => text.replace(login, &format!("{login}x")),
        State::RedisAway => text.replace(&here, "redis://127.0.0.1:1/0"),
        State::RedisPassword => text.replace("redis://", "redis://stranger:secret@"),
        State::Policy => {
            set(redis, "maxmemory-policy", "allkeys-lru").await?;
            text
        }
        State::NoWrites => {
            set(redis, "min-replicas-to-write", "1").await?;
            text
        }
        State::NoTables | State::NoWorker => text,
    };
    Place::new(&wrong)
}

async fn set(redis: &RedisServer, key: &str, value: &str) -> Result<()> {
    redis.call(&["CONFIG", "SET", key, value]).await.map(drop)
}

/// Runs a command that ends by a signal alone. Returns its code and its log.
async fn until_signal(place: &Place, name: &str, says: &str) -> Result<(Option<i32>, String)> {
    let log = place.folder.path().join("log");
    let mut child = Command::new(env!("CARGO_BIN_EXE_worker"))
        .args([name, "--config"])
        .arg(&place.config)
        .stderr(std::fs::File::create(&log)?)
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let said = || std::fs::read_to_string(&log);
    until("it works or waits, or has ended", async || {
        Ok(said()?.contains(says) || child.try_wait()?.is_some())
    })
    .await?;
    if let Some(ended) = child.try_wait()? {
        bail!("{name} ended with {ended}: {}", said()?);
    }
    let id = i32::try_from(child.id().context("it runs")?)?;
    kill_process(Pid::from_raw(id).context("an id")?, Signal::TERM)?;
    let ended = bounded("it ends", async { Ok(child.wait().await?) }).await?;
    Ok((ended.code(), said()?))
}

/// Runs each command in a fresh place of this state.
async fn each_command_in(state: State) -> Result<()> {
    let redis = RedisServer::start(RedisOptions::default()).await?;
    let column = STATES
        .iter()
        .position(|other| *other == state)
        .context("a column")?;
    let mut wrong = Vec::new();
    for (words, ends) in TABLE {
        let place = make(state, &redis).await?;
        let args: Vec<&str> = words
            .iter()
            .map(|word| {
                if *word == LINES {
                    place.lines.as_str()
                } else {
                    *word
                }
            })
            .collect();
        let end = ends.get(column).context("an end")?;
        let name = words.first().context("a name")?;
        let (code, said) = match end {
            Works => until_signal(&place, name, ": landing").await?,
            Waits => until_signal(&place, name, "waiting").await?,
            With(_) => ended(&place.config, &args).await?,
        };
        let expected = match end {
            With(code) => *code,
            Works | Waits => 0,
        };
        if code != Some(expected) {
            wrong.push(format!(
                "{words:?} ends with {code:?}, not {expected}: {said}"
            ));
        }
        if said.contains("secret") {
            wrong.push(format!("{words:?} says a password: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{state:?}:\n{}", wrong.join("\n"));
    Ok(())
}

async fn ended(config: &Path, args: &[&str]) -> Result<(Option<i32>, String)> {
    let ended = bounded("the command ends", program(config, args)).await?;
    Ok((
        ended.status.code(),
        text(&ended.stdout) + &text(&ended.stderr),
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_has_a_row() -> Result<()> {
    let help = Command::new(env!("CARGO_BIN_EXE_worker"))
        .arg("--help")
        .output()
        .await?;
    let help = text(&help.stdout);
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(commands.len() >= 12, "{help}");
    for command in commands {
        assert!(
            TABLE.iter().any(|(words, _)| words[0] == command),
            "{command} has no row"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_while_the_database_is_away_end_as_the_table_says() -> Result<()> {
    each_command_in(State::DatabaseAway).await
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_with_a_wrong_password_of_the_database_end_as_the_table_says() -> Result<()> {
    each_command_in(State::DatabasePassword).await
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_on_an_empty_database_end_as_the_table_says() -> Result<()> {
    each_command_in(State::NoTables).await
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_while_no_worker_runs_end_as_the_table_says() -> Result<()> {
    each_command_in(State::NoWorker).await
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_under_an_unsafe_policy_end_as_the_table_says() -> Result<()> {
    each_command_in(State::Policy).await
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_on_a_redis_that_takes_no_writes_end_as_the_table_says() -> Result<()> {
    each_command_in(State::NoWrites).await
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_while_redis_is_away_end_as_the_table_says() -> Result<()> {
    each_command_in(State::RedisAway).await
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_with_a_wrong_password_of_redis_end_as_the_table_says() -> Result<()> {
    each_command_in(State::RedisPassword).await
}
