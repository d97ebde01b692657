//! `backup`: the file of an embedded game, and copies that are none.

use std::path::Path;
use std::process::Output;

use anyhow::{Result, ensure};
use storage_sdk::Storage;
use tokio::process::Command;

use super::{program, text};

async fn backup(from: &Path, to: &Path) -> Result<Output> {
    Ok(Command::new(env!("CARGO_BIN_EXE_worker"))
        .args(["backup", "--file"])
        .args([from, to])
        .output()
        .await?)
}

async fn play(storage: &Storage, players: std::ops::Range<u64>) -> Result<()> {
    let bytes = storage.world("game", "eu")?.bytes();
    for id in players {
        let player = bytes.owner("player", id)?;
        player.update([("gold", id.to_string())]).await?;
        player.flush(std::time::Duration::from_secs(30)).await?;
    }
    Ok(())
}

/// The number of owners that an export finds in a file, and its log.
async fn exported(file: &Path) -> Result<(usize, String)> {
    let config = file.with_extension("toml");
    let url = format!("sqlite:{}", file.display());
    let settings = format!("[redis]\nurl = \"memory:\"\n[sql]\nurl = {url:?}\n");
    std::fs::write(&config, settings)?;
    let export = program(&config, &["export"]).await?;
    ensure!(export.status.success(), "{}", text(&export.stderr));
    Ok((text(&export.stdout).lines().count(), text(&export.stderr)))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_backup_copies_the_file_of_a_running_game() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let [game, copy] = ["game.db", "copy.db"].map(|name| folder.path().join(name));
    let storage = Storage::embedded(&game).await?;
    play(&storage, 0..20).await?;
    let made = backup(&game, &copy).await?;
    ensure!(made.status.success(), "{}", text(&made.stderr));
    play(&storage, 20..25).await?;
    let (owners, said) = exported(&copy).await?;
    assert_eq!(owners, 20);
    // The ordinary way has no warnings.
    assert_eq!(said, "20 owners\n");
    // A game that lives holds changes that nobody else sees, and an export says so.
    let (owners, said) = exported(&game).await?;
    assert_eq!(owners, 25);
    assert!(said.contains("a game has the file open"), "{said}");

    let again = backup(&game, &copy).await?;
    assert_eq!(again.status.code(), Some(3));
    assert!(text(&again.stderr).contains("overwrites nothing"));
    let missing = backup(
        &folder.path().join("none.db"),
        &folder.path().join("new.db"),
    )
    .await?;
    assert_eq!(missing.status.code(), Some(3));
    assert!(!folder.path().join("none.db").exists());
    assert!(!folder.path().join("new.db").exists());
    storage.close(std::time::Duration::from_secs(30)).await;
    let (owners, said) = exported(&game).await?;
    assert_eq!((owners, said.as_str()), (25, "25 owners\n"));
    Ok(())
}

/// What an import of one line into a file says.
async fn imported(file: &Path) -> Result<String> {
    let config = file.with_extension("toml");
    let url = format!("sqlite:{}", file.display());
    let settings = format!("[redis]\nurl = \"memory:\"\n[sql]\nurl = {url:?}\n");
    std::fs::write(&config, settings)?;
    let lines = file.with_extension("lines");
    std::fs::write(
        &lines,
        r#"{"app": "game", "region": "eu", "logic_type": "player", "owner_id": "new", "fields": {"gold": "1"}}"#,
    )?;
    let import = program(&config, &["import", &lines.display().to_string()]).await?;
    ensure!(import.status.success(), "{}", text(&import.stderr));
    Ok(text(&import.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_lacks_its_log_is_told() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name);
    let storage = Storage::embedded(path("game.db")).await?;
    play(&storage, 0..5).await?;
    // As `cp` does, without the log and with it.
    std::fs::copy(path("game.db"), path("bare.db"))?;
    std::fs::copy(path("game.db"), path("whole.db"))?;
    std::fs::copy(path("game.db-wal"), path("whole.db-wal"))?;
    let made = storage.backup(path("backup.db"), std::time::Duration::from_secs(30));
    made.await?;
    storage.close(std::time::Duration::from_secs(30)).await;
    std::fs::copy(path("game.db"), path("closed.db"))?;

    let said = imported(&path("bare.db")).await?;
    assert!(said.contains("its log (-wal) is not beside it"), "{said}");
    // Once is enough: from now on the file is what it is.
    for silent in ["bare.db", "whole.db", "backup.db", "closed.db", "game.db"] {
        let said = imported(&path(silent)).await?;
        assert_eq!(said, "", "{silent}");
    }
    assert_eq!(exported(&path("whole.db")).await?.0, 6);
    Ok(())
}
