//! The message to a program without a `tracing` subscriber.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::process::Command;
use std::time::{Duration, Instant};

use storage_sdk::{Settings, Storage};

/// Set for the observed process: the subscriber, and whether it has something to say.
const CHILD: &str = "STORAGE_TEST_SUBSCRIBER";

/// Runs the test of this name in a process of its own. Returns the lines of the SDK.
fn told(subscriber: &str) -> Vec<String> {
    let program = std::env::current_exe().unwrap();
    let name = "a_program_without_a_subscriber_is_told_once_and_only_with_a_warning";
    let child = Command::new(program)
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, subscriber)
        .output()
        .unwrap();
    assert!(child.status.success(), "{child:?}");
    let said = String::from_utf8(child.stderr).unwrap();
    let lines = said.lines().filter(|line| line.starts_with("storage-sdk:"));
    lines.map(str::to_owned).collect()
}

/// Opens and closes two files. With `warns`, one is taken over, so that its writes are refused.
async fn run(warns: bool) {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.db", "b.db"] {
        let path = folder.path().join(name);
        let storage = Storage::embedded(&path).await.unwrap();
        let ann = storage.world("game", "eu").unwrap().bytes();
        let ann = ann.owner("player", "ann").unwrap();
        ann.update([("gold", "1")]).await.unwrap();
        let takes = Storage::builder(Settings::embedded(&path)).take_over();
        let second = if warns {
            Some(takes.open().await.unwrap())
        } else {
            None
        };
        let until = Instant::now() + Duration::from_secs(30);
        while warns && ann.update([("gold", "2")]).await.is_ok() {
            assert!(Instant::now() < until, "the first one still writes");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if let Some(second) = second {
            second.close(Duration::from_secs(30)).await;
        }
        storage.close(Duration::from_millis(10)).await;
    }
}

#[test]
fn a_program_without_a_subscriber_is_told_once_and_only_with_a_warning() {
    let Ok(child) = std::env::var(CHILD) else {
        assert_eq!(told("none"), Vec::<String>::new());
        assert_eq!(told("silent warns"), Vec::<String>::new());
        let said = told("none warns");
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said.iter()
                .all(|line| line.contains("no `tracing` subscriber")),
            "{said:?}"
        );
        return;
    };
    if child.contains("silent") {
        let silent = tracing::subscriber::NoSubscriber::default();
        tracing::subscriber::set_global_default(silent).unwrap();
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(run(child.contains("warns")));
}
