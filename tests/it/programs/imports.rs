//! Imports: the order of lines, waiting, and an end before the file's end.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use storage_servers::{RedisOptions, RedisServer};
use storage_tests::stack::bounded;
use storage_tests::{Stack, World, stack, until};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};

use super::{config, program, text};

fn line(id: &str, fields: &serde_json::Value) -> String {
    let line = json!({"app": "game", "region": "eu", "logic_type": "player", "owner_id": id, "fields": fields});
    format!("{line}\n")
}

/// Starts an import that reads its standard input.
fn begin(config: &Path, args: &[&str]) -> Result<Child> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_worker"));
    command
        .args(["import", "--config"])
        .arg(config)
        .arg("-")
        .args(args)
        .kill_on_drop(true);
    Ok(command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?)
}

fn terminate(child: &Child) -> Result<()> {
    let id = i32::try_from(child.id().unwrap_or_default())?;
    Ok(kill_process(
        Pid::from_raw(id).context("an id")?,
        Signal::TERM,
    )?)
}

#[tokio::test(flavor = "multi_thread")]
async fn of_the_lines_of_one_owner_the_last_one_wins_however_large_the_first_is() -> Result<()> {
    let (folder, config, world) = config().await?;
    let small_calls = "[limits]\nfields_max = 2\n";
    std::fs::write(&config, format!("{}{small_calls}", world.text))?;
    let many: serde_json::Map<_, _> = (0..20)
        .map(|at| (format!("f{at:02}"), json!("old")))
        .collect();
    let mut lines = String::new();
    for id in 0..40 {
        let mut old = many.clone();
        // It is last in the line, and so in the last of the calls.
        old.insert("gold".to_owned(), json!("OLD"));
        lines += &line(&format!("large{id}"), &old.into());
        lines += &line(&format!("large{id}"), &json!({"gold": "NEW"}));
    }
    for value in 0..50 {
        for id in 0..4 {
            lines += &line(&format!("log{id}"), &json!({"gold": value, "last": value}));
        }
    }
    let file = folder.path().join("lines");
    std::fs::write(&file, &lines)?;
    let import = program(&config, &["import", file.to_str().unwrap_or_default()]).await?;
    ensure!(import.status.success(), "{}", text(&import.stderr));
    assert!(
        text(&import.stdout).starts_with("280 lines written"),
        "{}",
        text(&import.stdout)
    );
    let stack = Stack::with(world).await?;
    for id in 0..40 {
        let gold = stack.player(&format!("large{id}")).get(["gold"]).await?;
        assert_eq!(gold["gold"].as_deref(), Some(&b"NEW"[..]), "large{id}");
    }
    for id in 0..4 {
        let gold = stack.player(&format!("log{id}")).get(["gold"]).await?;
        assert_eq!(gold["gold"].as_deref(), Some(&b"49"[..]), "log{id}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_too_much_waits_for_goes_on_when_that_has_landed() -> Result<()> {
    let (folder, config, world) = config().await?;
    let watermarks = "[backpressure]\nsoft_marks = 10\nhard_marks = 20\ninterval = \"20ms\"\n";
    std::fs::write(&config, format!("{}{watermarks}", world.text))?;
    let lines = (0..400).fold(String::new(), |mut lines, id| {
        let _ = write!(lines, "{}", line(&id.to_string(), &json!({"v": id})));
        lines
    });
    let stack = Stack::with(world).await?;
    let log = folder.path().join("log");
    let mut command = Command::new(env!("CARGO_BIN_EXE_worker"));
    command
        .args(["import", "--config"])
        .arg(&config)
        .arg("/dev/stdin")
        .args(["--at-once", "8"])
        .kill_on_drop(true);
    let mut import = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(&log)?)
        .spawn()?;
    let mut input = import.stdin.take().context("an input")?;
    input.write_all(lines.as_bytes()).await?;
    drop(input);
    until("it says that it waits", async || {
        Ok(std::fs::read_to_string(&log)?.contains("the import waits"))
    })
    .await?;
    let worker = stack.worker();
    let ended = bounded("it goes on", async { Ok(import.wait_with_output().await?) }).await?;
    assert_eq!(
        text(&ended.stdout),
        "400 lines written (400 fields), 0 waiting, 0 bad\n"
    );
    assert!(ended.status.success(), "{}", std::fs::read_to_string(&log)?);
    worker.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_nothing_lands_ends_at_its_deadline_and_counts_what_waits() -> Result<()> {
    let (folder, config, world) = config().await?;
    let watermarks = "[backpressure]\nsoft_marks = 1\nhard_marks = 2\ninterval = \"20ms\"\n";
    std::fs::write(&config, format!("{}{watermarks}", world.text))?;
    let stack = Stack::with(world).await?;
    for id in 0..4 {
        stack
            .player(&format!("before{id}"))
            .update([("v", "1")])
            .await?;
    }
    let file = folder.path().join("lines");
    // Three lines of one owner. Two of them wait for the first.
    let lines = ["x", "x", "x", "y"]
        .map(|id| line(id, &json!({"v": 1})))
        .concat();
    std::fs::write(&file, format!("not json\n{lines}"))?;
    // The first look at the backlog rejects writes. One write may pass before it.
    let import = program(
        &config,
        &[
            "import",
            file.to_str().unwrap_or_default(),
            "--deadline",
            "2s",
            "--at-once",
            "4",
        ],
    )
    .await?;
    let (said, why) = (text(&import.stdout), text(&import.stderr));
    assert_eq!(import.status.code(), Some(7), "{said}{why}");
    assert!(
        why.contains("the deadline of 2s has passed") && why.contains("lines:1: "),
        "{why}"
    );
    let counts: Vec<u64> = said
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect();
    let [written, _, waiting, bad, ..] = counts.as_slice() else {
        anyhow::bail!("no counts: {said}")
    };
    assert_eq!((written + waiting, *bad), (4, 1), "{said}");
    assert!(said.contains("--from-line"), "{said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_an_import_in_order_and_the_rest_follows_from_the_line_that_it_names()
-> Result<()> {
    let (folder, config, world) = config().await?;
    let stack = Stack::with(world).await?;
    let lines: Vec<String> = (0..10)
        .map(|id| line(&id.to_string(), &json!({"v": id})))
        .collect();
    let mut import = begin(&config, &[])?;
    let mut input = import.stdin.take().context("an input")?;
    input.write_all(lines[..7].concat().as_bytes()).await?;
    // A part of the eighth line is sent.
    input.write_all(&lines[7].as_bytes()[..20]).await?;
    until("the first lines are there", async || {
        Ok(stack.backlog().await?.marks() == 7)
    })
    .await?;
    terminate(&import)?;
    let ended = bounded("it ends", async { Ok(import.wait_with_output().await?) }).await?;
    drop(input);
    assert_eq!(ended.status.code(), Some(130), "{}", text(&ended.stderr));
    let said = text(&ended.stdout);
    let wanted = "7 lines written (7 fields), 0 waiting, 0 bad\nlines 1 to 7 are written; go on with --from-line 8\n";
    assert_eq!(said, wanted);
    let file = folder.path().join("lines");
    std::fs::write(&file, lines.concat())?;
    let rest = program(
        &config,
        &[
            "import",
            file.to_str().unwrap_or_default(),
            "--from-line",
            "8",
        ],
    )
    .await?;
    assert_eq!(
        text(&rest.stdout),
        "3 lines written (3 fields), 0 waiting, 0 bad\n"
    );
    assert_eq!(stack.backlog().await?.marks(), 10);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_waits_for_a_redis_that_is_away_and_goes_on() -> Result<()> {
    let options = storage_servers::RedisOptions {
        appendonly: true,
        ..storage_servers::RedisOptions::default()
    };
    let redis = storage_servers::RedisServer::start(options).await?;
    let world = World::on(&redis.url(), stack::mariadb().await?).await?;
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("storage.toml");
    std::fs::write(&config, &world.text)?;
    let stack = Stack::with(world).await?;
    let log = folder.path().join("log");
    let mut command = Command::new(env!("CARGO_BIN_EXE_worker"));
    command
        .args(["import", "--config"])
        .arg(&config)
        .arg("/dev/stdin")
        .kill_on_drop(true);
    let mut import = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(&log)?)
        .spawn()?;
    let mut input = import.stdin.take().context("an input")?;
    input
        .write_all(line("ann", &json!({"v": 1})).as_bytes())
        .await?;
    until("the first line is there", async || {
        Ok(stack.backlog().await?.marks() == 1)
    })
    .await?;
    redis.kill()?;
    input
        .write_all(line("bob", &json!({"v": 2})).as_bytes())
        .await?;
    drop(input);
    until("it says that it waits", async || {
        Ok(std::fs::read_to_string(&log)?.contains("the import waits"))
    })
    .await?;
    redis.restart().await?;
    let ended = bounded("it goes on", async { Ok(import.wait_with_output().await?) }).await?;
    assert_eq!(
        text(&ended.stdout),
        "2 lines written (2 fields), 0 waiting, 0 bad\n",
        "{}",
        std::fs::read_to_string(&log)?
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_byte_order_mark_is_passed_over_and_another_encoding_is_refused_by_name() -> Result<()> {
    let (folder, config, world) = config().await?;
    let file = folder.path().join("lines");
    let path = file.to_str().unwrap_or_default();
    let one = line("ann", &json!({"gold": 10, "big": 1}));
    let marked = format!(
        "\u{feff}{}",
        one.replace("\"big\":1", "\"big\":123456789012345678901234567890")
    );
    std::fs::write(&file, &marked)?;
    let import = program(&config, &["import", path]).await?;
    ensure!(import.status.success(), "{}", text(&import.stderr));
    let stack = Stack::with(world).await?;
    let ann = stack.player("ann").get_all().await?;
    assert_eq!(ann["gold"].as_deref(), Some(&b"10"[..]));
    assert_eq!(
        ann["big"].as_deref(),
        Some(&b"123456789012345678901234567890"[..])
    );

    let wide: Vec<u8> = marked.encode_utf16().flat_map(u16::to_le_bytes).collect();
    std::fs::write(&file, wide)?;
    let import = program(&config, &["import", path]).await?;
    assert_eq!(import.status.code(), Some(2));
    assert!(
        text(&import.stderr).contains("is in UTF-16"),
        "{}",
        text(&import.stderr)
    );
    Ok(())
}

/// The tiers came apart during the import. No line counts as bad for this, so that the file can be
/// imported again.
#[tokio::test(flavor = "multi_thread")]
async fn an_import_whose_redis_was_replaced_ends_with_6_and_calls_no_line_bad() -> Result<()> {
    let (first, other) = (
        RedisServer::start(RedisOptions::default()).await?,
        RedisServer::start(RedisOptions::default()).await?,
    );
    let world = World::on(&first.url(), stack::mariadb().await?).await?;
    let folder = tempfile::tempdir()?;
    let written = |name: &str, text: String| -> Result<_> {
        let path = folder.path().join(name);
        std::fs::write(&path, text)?;
        Ok(path)
    };
    let config = written("first.toml", world.text.clone())?;
    let replaced = written("other.toml", world.text.replace(&first.url(), &other.url()))?;
    let mut import = begin(&config, &[])?;
    let mut lines = import.stdin.take().context("an input")?;
    lines
        .write_all(line("0", &json!({"gold": 1})).as_bytes())
        .await?;
    until("the first line is written", async || {
        let export = program(&config, &["export"]).await?;
        Ok(text(&export.stdout).contains("\"gold\""))
    })
    .await?;
    // The import uses the first one, so the other one gets the database only on purpose.
    let adopt = program(&replaced, &["adopt"]).await?;
    ensure!(adopt.status.success(), "{}", text(&adopt.stderr));
    let mut number = 0;
    until("the import ends", async || {
        number += 1;
        // The import may have ended by now.
        let _ = lines
            .write_all(line(&number.to_string(), &json!({"gold": 1})).as_bytes())
            .await;
        Ok(import.try_wait()?.is_some())
    })
    .await?;
    let ended = import.wait_with_output().await?;
    assert_eq!(
        ended.status.code(),
        Some(6),
        "{}{}",
        text(&ended.stdout),
        text(&ended.stderr)
    );
    let said = format!("{}{}", text(&ended.stdout), text(&ended.stderr));
    assert!(
        said.contains(", 0 bad") && said.contains("go on with --from-line"),
        "{said}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dash_is_standard_input_and_a_bad_line_of_it_is_named_so() -> Result<()> {
    let (_folder, config, world) = config().await?;
    let mut import = begin(&config, &[])?;
    let mut input = import.stdin.take().context("an input")?;
    let lines = format!("{}not json\n", line("ann", &json!({"gold": 10})));
    input.write_all(lines.as_bytes()).await?;
    drop(input);
    let ended = bounded("it ends", async { Ok(import.wait_with_output().await?) }).await?;
    assert_eq!(ended.status.code(), Some(1), "{}", text(&ended.stderr));
    assert!(
        text(&ended.stderr).contains("standard input:2: "),
        "{}",
        text(&ended.stderr)
    );
    assert_eq!(
        text(&ended.stdout),
        "1 lines written (1 fields), 0 waiting, 1 bad\n"
    );
    let stack = Stack::with(world).await?;
    let gold = stack.player("ann").get(["gold"]).await?;
    assert_eq!(gold["gold"].as_deref(), Some(&b"10"[..]));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_no_list_of_owners_is_refused_before_a_write_with_the_way_out() -> Result<()>
{
    let (folder, config, world) = config().await?;
    let file = folder.path().join("lines");
    let path = file.to_str().unwrap_or_default();
    let one = line("ann", &json!({"gold": 10}));
    // Each holds a line that could be written.
    let cases = [
        (
            [&b"\x1f\x8b\x08\n"[..], one.as_bytes()].concat(),
            "is compressed by gzip: unpack it by gzip -dc FILE, and pipe that to this command with -",
        ),
        (
            format!("\n[\n{one}]\n").into_bytes(),
            "line 2 begins a JSON array: convert it by jq -c '.[]' FILE, and pipe that to this command with -",
        ),
        (
            format!("{{\n{one}}}\n").into_bytes(),
            "line 1 ends in the middle of an object: convert it by jq -c . FILE, and pipe that to this command with -",
        ),
    ];
    for (bytes, way) in cases {
        std::fs::write(&file, bytes)?;
        let import = program(&config, &["import", path]).await?;
        let (said, why) = (text(&import.stdout), text(&import.stderr));
        assert_eq!(import.status.code(), Some(2), "{said}{why}");
        assert!(why.contains(way), "{why}");
        assert_eq!(said, "0 lines written (0 fields), 0 waiting, 0 bad\n");
    }
    assert_eq!(Stack::with(world).await?.backlog().await?.marks(), 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_bad_lines_the_first_are_printed_and_the_further_ones_are_counted() -> Result<()> {
    let (folder, config, _world) = config().await?;
    let file = folder.path().join("lines");
    let one = line("ann", &json!({"gold": 10}));
    std::fs::write(&file, format!("{}{one}", "not json\n".repeat(30)))?;
    let import = program(&config, &["import", file.to_str().unwrap_or_default()]).await?;
    let why = text(&import.stderr);
    assert_eq!(import.status.code(), Some(1), "{why}");
    assert!(
        why.contains("lines:20: ") && !why.contains("lines:21: "),
        "{why}"
    );
    assert!(
        why.contains("lines: 10 more lines that hold no owner are not printed\n"),
        "{why}"
    );
    assert_eq!(
        text(&import.stdout),
        "1 lines written (1 fields), 0 waiting, 30 bad\n"
    );
    Ok(())
}
