//! The embedded mode as a process lives with it: a second run, a second program, an end without a
//! close, and copies.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use storage_sdk::feed::Cursor;
use storage_sdk::{
    ByteOwner, ByteSession, ColdUrl, Kind, Outcome, Retry, SessionOptions, Settings, Storage,
};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

const LONG: Duration = Duration::from_secs(60);

fn runtime() -> Runtime {
    Builder::new_multi_thread().enable_all().build().unwrap()
}

fn file() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("game.db");
    (folder, path)
}

fn owner(storage: &Storage, id: u64) -> ByteOwner {
    let world = storage.world("game", "eu").unwrap();
    world.bytes().owner("player", id).unwrap()
}

async fn gold(storage: &Storage, id: u64) -> Option<String> {
    let record = owner(storage, id).get(["gold"]).await.unwrap();
    record["gold"]
        .as_deref()
        .map(|gold| String::from_utf8_lossy(gold).into_owned())
}

fn log(file: &Path) -> PathBuf {
    PathBuf::from(format!("{}-wal", file.display()))
}

/// Set for a process that a test starts and kills: the file to open.
const CHILD: &str = "STORAGE_TEST_CHILD";

/// This test, as a process of its own, which has said that it is ready.
fn child(test: &str, path: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("ready") {
        line.clear();
        let read = output.read_line(&mut line).unwrap();
        assert_ne!(read, 0, "the process ended before it was ready");
    }
    child.stdout = Some(output.into_inner());
    child
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Tells the test that the work is done, and waits for its end.
fn ready() -> ! {
    println!("ready");
    loop {
        std::thread::park();
    }
}

/// Opens the file, lands a write, and holds a session.
async fn play(path: &Path) -> (Storage, ByteSession) {
    let storage = Storage::embedded(path).await.unwrap();
    let ann = owner(&storage, 1);
    ann.update([("gold", "1")]).await.unwrap();
    ann.flush(LONG).await.unwrap();
    let session = session(&storage, 2).await;
    session.set("gold", "2").unwrap();
    session.save().await.unwrap();
    (storage, session)
}

/// A session, which starts in far less than a lease.
async fn session(storage: &Storage, id: u64) -> ByteSession {
    let options = SessionOptions::default().within(Duration::from_secs(5));
    owner(storage, id).session(options).await.unwrap()
}

#[test]
fn the_second_run_on_a_file_starts_a_session_at_once_also_after_a_kill() {
    if let Some(path) = std::env::var_os(CHILD) {
        runtime().block_on(async {
            let held = play(Path::new(&path)).await;
            std::mem::forget(held);
            ready()
        });
    }
    let (_folder, path) = file();
    kill(child(
        "the_second_run_on_a_file_starts_a_session_at_once_also_after_a_kill",
        &path,
    ));
    runtime().block_on(async {
        for _ in 0..2 {
            let storage = Storage::embedded(&path).await.unwrap();
            let held = session(&storage, 1).await;
            assert_eq!(held.get("gold").as_deref(), Some(&b"1"[..]));
            held.end().await.unwrap();
            assert_eq!(storage.close(LONG).await.left(), 0);
        }
    });
}

#[test]
fn a_second_program_on_a_file_is_refused_while_the_first_lives() {
    if let Some(path) = std::env::var_os(CHILD) {
        runtime().block_on(async {
            let held = play(Path::new(&path)).await;
            std::mem::forget(held);
            ready()
        });
    }
    let (_folder, path) = file();
    let first = child(
        "a_second_program_on_a_file_is_refused_while_the_first_lives",
        &path,
    );
    runtime().block_on(async {
        let refused = Storage::embedded(&path).await.unwrap_err();
        assert_eq!(
            (refused.kind(), refused.outcome()),
            (Kind::Denied, Outcome::NotApplied)
        );
        let said = refused.to_string();
        assert!(said.contains(&format!("process {}", first.id())), "{said}");
        assert!(!said.contains("adopt"), "{said}");
        // Whoever only looks may look.
        let looks = Storage::builder(Settings::embedded(&path)).read_only();
        assert_eq!(
            gold(&looks.open().await.unwrap(), 1).await.as_deref(),
            Some("1")
        );
        kill(first);
        let storage = Storage::embedded(&path).await.unwrap();
        assert_eq!(gold(&storage, 1).await.as_deref(), Some("1"));
        // Also from this program, until it closes the file.
        let twice = Storage::embedded(&path).await.unwrap_err();
        assert!(
            twice
                .to_string()
                .contains("this program has it open already"),
            "{twice}"
        );
        storage.close(LONG).await;
        Storage::embedded(&path).await.unwrap();
    });
}

#[test]
fn a_program_that_asks_to_takes_over_and_the_first_one_is_cut_off_in_words_of_the_embedded_mode() {
    let (_folder, path) = file();
    runtime().block_on(async {
        let first = Storage::embedded(&path).await.unwrap();
        owner(&first, 1).update([("gold", "1")]).await.unwrap();
        owner(&first, 1).flush(LONG).await.unwrap();
        let takes = Storage::builder(Settings::embedded(&path)).take_over();
        let second = takes.open().await.unwrap();
        let until = Instant::now() + LONG;
        let refused = loop {
            match owner(&first, 1).update([("gold", "2")]).await {
                Err(refused) => break refused,
                Ok(_) if Instant::now() > until => panic!("the first program still writes"),
                Ok(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        assert_eq!(refused.kind(), Kind::Unpaired);
        let said = refused.to_string();
        assert!(
            said.contains("took over") && said.contains("game.db"),
            "{said}"
        );
        assert!(
            !said.contains("adopt") && !said.contains("redis."),
            "{said}"
        );
        assert_eq!(gold(&second, 1).await.as_deref(), Some("1"));
        second.close(LONG).await;
        std::mem::forget(first);
    });
}

/// Writes, and ends early with a plain write and an edit that were never landed.
async fn ends_early(path: &Path) -> Result<(), std::num::ParseIntError> {
    let storage = Storage::embedded(path).await.unwrap();
    owner(&storage, 1).update([("gold", "1")]).await.unwrap();
    let held = session(&storage, 2).await;
    held.set("gold", "2").unwrap();
    "no number".parse::<u64>()?;
    storage.close(LONG).await;
    Ok(())
}

async fn has_both(path: &Path) {
    let storage = Storage::embedded(path).await.unwrap();
    let found = (gold(&storage, 1).await, gold(&storage, 2).await);
    assert_eq!(found, (Some("1".to_owned()), Some("2".to_owned())));
    storage.close(LONG).await;
    assert!(!log(path).exists(), "a closed file has no log");
}

#[test]
fn a_storage_without_a_close_lands_what_is_left_when_its_last_handle_goes() {
    let single = || Builder::new_current_thread().enable_all().build().unwrap();
    // In async code, on both kinds of runtime, and in a panic.
    for runtime in [runtime(), single()] {
        let (_folder, path) = file();
        runtime.block_on(async {
            ends_early(&path).await.unwrap_err();
            has_both(&path).await;
        });
        let (_folder, path) = file();
        let panics = std::panic::AssertUnwindSafe(|| {
            runtime.block_on(async { ends_early(&path).await.unwrap() });
        });
        assert!(std::panic::catch_unwind(panics).is_err());
        runtime.block_on(has_both(&path));
    }
    // Outside every runtime, by another handle than the storage.
    let (_folder, path) = file();
    let runtime = runtime();
    let (held, ann) = runtime.block_on(async {
        let storage = Storage::embedded(&path).await.unwrap();
        let ann = owner(&storage, 1);
        ann.update([("gold", "1")]).await.unwrap();
        let held = session(&storage, 2).await;
        held.set("gold", "2").unwrap();
        (held, ann)
    });
    drop(ann);
    drop(runtime);
    drop(held);
    self::runtime().block_on(has_both(&path));
}

#[test]
fn a_program_that_ends_without_a_close_has_landed_everything() {
    if let Some(path) = std::env::var_os(CHILD) {
        runtime()
            .block_on(ends_early(Path::new(&path)))
            .unwrap_err();
        println!("ready");
        return;
    }
    let (_folder, path) = file();
    let mut ended = child(
        "a_program_that_ends_without_a_close_has_landed_everything",
        &path,
    );
    assert!(ended.wait().unwrap().success());
    runtime().block_on(has_both(&path));
}

/// A game with many writers. Every write changes two fields together.
async fn writes(storage: Storage, id: u64, acknowledged: Arc<AtomicU64>) {
    let player = owner(&storage, id);
    for number in 1_u64.. {
        let text = number.to_string();
        let written = player
            .update([("gold", text.clone()), ("bank", text)])
            .await;
        if written.is_err() {
            return;
        }
        acknowledged.store(number, Ordering::SeqCst);
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_backup_of_a_running_game_has_every_write_that_was_acknowledged_before_it() {
    const PLAYERS: u64 = 16;
    let (folder, path) = file();
    runtime().block_on(async {
        let storage = Storage::embedded(&path).await.unwrap();
        let acknowledged: Vec<Arc<AtomicU64>> = (0..PLAYERS).map(|_| Arc::default()).collect();
        let mut games = tokio::task::JoinSet::new();
        for (id, acknowledged) in (0..PLAYERS).zip(&acknowledged) {
            games.spawn(writes(storage.clone(), id, Arc::clone(acknowledged)));
        }
        for round in 0..3 {
            let copy = folder.path().join(format!("copy-{round}.db"));
            let before: Vec<u64> = acknowledged
                .iter()
                .map(|number| number.load(Ordering::SeqCst))
                .collect();
            let made = storage.backup(&copy, LONG).await.unwrap();
            assert_eq!(made.errors, 0);
            assert!(!log(&copy).exists(), "a copy is one file");
            let opened = Storage::embedded(&copy).await.unwrap();
            for (id, before) in (0..PLAYERS).zip(before) {
                let record = owner(&opened, id).get(["gold", "bank"]).await.unwrap();
                assert_eq!(record["gold"], record["bank"], "a write is whole");
                let text = record["gold"].as_deref().unwrap_or(b"0");
                let number: u64 = std::str::from_utf8(text).unwrap().parse().unwrap();
                assert!(number >= before, "player {id}: {number} of {before}");
            }
            // The copy is a database of its own.
            owner(&opened, 0).update([("gold", "copy")]).await.unwrap();
            opened.close(LONG).await;
        }
        storage.close(LONG).await;
        games.join_all().await;
        assert_ne!(
            gold(&Storage::embedded(&path).await.unwrap(), 0)
                .await
                .as_deref(),
            Some("copy")
        );
    });
    let left: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter(|name| name.ends_with(".part"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn a_backup_overwrites_nothing_and_says_why_it_is_not_made() {
    let (folder, path) = file();
    let copy = folder.path().join("copy.db");
    runtime().block_on(async {
        let storage = Storage::embedded(&path).await.unwrap();
        owner(&storage, 1).update([("gold", "1")]).await.unwrap();
        let refused = async |to: &Path, deadline, kind, word: &str| {
            let error = storage.backup(to, deadline).await.unwrap_err();
            assert_eq!(
                (error.kind(), error.outcome()),
                (kind, Outcome::NotApplied),
                "{error}"
            );
            assert!(error.to_string().contains(word), "{error}");
        };
        std::fs::write(&copy, "precious").unwrap();
        refused(&copy, LONG, Kind::Invalid, "overwrites nothing").await;
        assert_eq!(std::fs::read_to_string(&copy).unwrap(), "precious");
        refused(&path, LONG, Kind::Invalid, "overwrites nothing").await;
        refused(folder.path(), LONG, Kind::Invalid, "overwrites nothing").await;
        refused(
            &folder.path().join("no/copy.db"),
            LONG,
            Kind::Invalid,
            "folder does not exist",
        )
        .await;
        let late = folder.path().join("late.db");
        refused(&late, Duration::ZERO, Kind::Timeout, "within").await;
        assert!(!late.exists());
        storage.close(LONG).await;
        refused(&late, LONG, Kind::Closed, "closed").await;

        let mut settings = Settings::embedded(&path);
        settings.sql.url = ColdUrl::SqliteMemory;
        let in_memory = Storage::open(settings).await.unwrap();
        let error = in_memory.backup(&late, LONG).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
        assert!(!late.exists());
    });
}

/// Lands notes in one partition, and returns the cursor behind them.
async fn noted(storage: &Storage, cursor: Cursor, notes: u64) -> Cursor {
    let ann = owner(storage, 1);
    for _ in 0..notes {
        ann.incr("gold", 1).note("a note").await.unwrap();
    }
    ann.flush(LONG).await.unwrap();
    let (mut changes, mut read) = (storage.changes(cursor), 0);
    while read < notes {
        let next = tokio::time::timeout(LONG, changes.next()).await;
        read += u64::try_from(next.unwrap().unwrap().len()).unwrap();
    }
    changes.cursor().clone()
}

async fn refused(storage: &Storage, cursor: &Cursor) -> String {
    let error = storage
        .changes(cursor.clone())
        .try_next()
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.retry()),
        (Kind::CursorForeign, Retry::Reread),
        "{error}"
    );
    error.to_string()
}

#[test]
fn a_cursor_of_another_database_is_refused() {
    let (_one, one) = file();
    let (_other, other) = file();
    runtime().block_on(async {
        let storage = Storage::embedded(&one).await.unwrap();
        let begins = storage.feed_end().await.unwrap();
        let cursor = noted(&storage, begins, 3).await;
        // As a reader keeps it.
        let cursor: Cursor = cursor.to_string().parse().unwrap();
        assert!(
            storage
                .changes(cursor.clone())
                .try_next()
                .await
                .unwrap()
                .is_empty()
        );
        let live = storage
            .live([owner(&storage, 1).partition()])
            .await
            .unwrap();
        assert_eq!(live.cursor().database(), cursor.database());

        let another = Storage::embedded(&other).await.unwrap();
        noted(&another, Cursor::default(), 9).await;
        let said = refused(&another, &cursor).await;
        assert!(said.contains("read the data again"), "{said}");
        refused(&another, &storage.feed_end().await.unwrap()).await;
    });
}

#[test]
fn a_reader_is_told_that_an_older_copy_of_its_database_was_restored() {
    let (folder, path) = file();
    let old = folder.path().join("old.db");
    let backup = folder.path().join("backup.db");
    runtime().block_on(async {
        let storage = Storage::embedded(&path).await.unwrap();
        let cursor = noted(&storage, Cursor::default(), 3).await;
        storage.backup(&backup, LONG).await.unwrap();
        storage.close(LONG).await;
        std::fs::copy(&path, &old).unwrap();
        let storage = Storage::embedded(&path).await.unwrap();
        let cursor = noted(&storage, cursor, 5).await;
        storage.close(LONG).await;

        // A copy of the closed file is the same database, and its feed ends before the cursor.
        std::fs::copy(&old, &path).unwrap();
        let storage = Storage::embedded(&path).await.unwrap();
        let said = refused(&storage, &cursor).await;
        assert!(said.contains("the feed ends at"), "{said}");
        storage.close(LONG).await;

        // A backup is another database, wherever its feed ends.
        std::fs::copy(&backup, &path).unwrap();
        let storage = Storage::embedded(&path).await.unwrap();
        noted(&storage, Cursor::default(), 9).await;
        refused(&storage, &cursor).await;
    });
}

#[test]
fn a_cursor_of_notes_that_have_not_landed_is_waited_for() {
    let (_folder, path) = file();
    runtime().block_on(async {
        let mut settings = Settings::embedded(&path);
        settings.landing.interval = LONG;
        let storage = Storage::open(settings).await.unwrap();
        let ann = owner(&storage, 1);
        ann.incr("gold", 1).note("a note").await.unwrap();
        let ahead = storage.live([ann.partition()]).await.unwrap().cursor();
        assert!(ahead.of(ann.partition()).is_some_and(|at| at.number == 1));
        assert!(storage.changes(ahead).try_next().await.unwrap().is_empty());
    });
}

#[test]
fn the_last_handle_does_not_wait_for_a_long_landing_interval() {
    let (_folder, path) = file();
    runtime().block_on(async {
        let mut settings = Settings::embedded(&path);
        settings.landing.interval = Duration::from_hours(1);
        let storage = Storage::open(settings).await.unwrap();
        owner(&storage, 1).update([("gold", "1")]).await.unwrap();
        drop(storage);
        let storage = Storage::embedded(&path).await.unwrap();
        assert_eq!(gold(&storage, 1).await.as_deref(), Some("1"));
    });
}
