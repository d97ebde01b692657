//! The message to a program without a `tracing` subscriber.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::process::Command;

use storage_sdk::Storage;

/// Set for the observed process.
const CHILD: &str = "STORAGE_TEST_SUBSCRIBER";

/// Runs the test of this name in a process of its own. Returns the number of times that the message
/// appeared.
fn told(subscriber: &str) -> usize {
    let program = std::env::current_exe().unwrap();
    let name = "a_program_without_a_subscriber_is_told_so_once";
    let child = Command::new(program)
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, subscriber)
        .output()
        .unwrap();
    assert!(child.status.success(), "{child:?}");
    String::from_utf8(child.stderr)
        .unwrap()
        .matches("no `tracing` subscriber is installed")
        .count()
}

fn open_twice() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.db", "b.db"] {
        runtime
            .block_on(Storage::embedded(folder.path().join(name)))
            .unwrap();
    }
}

#[test]
fn a_program_without_a_subscriber_is_told_so_once() {
    match std::env::var(CHILD).as_deref() {
        Ok("none") => open_twice(),
        Ok(_) => {
            tracing::subscriber::set_global_default(tracing::subscriber::NoSubscriber::default())
                .unwrap();
            open_twice();
        }
        Err(_) => assert_eq!((told("none"), told("silent")), (1, 0)),
    }
}
