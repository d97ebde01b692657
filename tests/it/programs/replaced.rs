//! The program on a Redis that another one has replaced.

use anyhow::{Context as _, Result};
use storage_tests::{Stack, World, stack};

use super::{program, text};
use crate::redis_lost::copies::{blank, copy, moved, refused};

/// The gold of a player.
async fn gold(stack: &Stack, id: &str) -> Result<String> {
    let read = stack.player(id).get(["gold"]).await?;
    let gold = read["gold"].as_deref().context("no gold")?;
    Ok(String::from_utf8_lossy(gold).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_redis_is_exported_and_imported() -> Result<()> {
    let (first, second) = (blank().await?, blank().await?);
    let world = World::on(&first.url(), stack::mariadb().await?).await?;
    let folder = tempfile::tempdir()?;
    let (old, new) = (
        folder.path().join("old.toml"),
        folder.path().join("new.toml"),
    );
    std::fs::write(&old, &world.text)?;
    let before = Stack::with(world).await?;
    let worker = before.worker();
    for id in ["ann", "bob", "eve"] {
        before.player(id).update([("gold", "1")]).await?;
    }
    before.landed().await?;
    worker.stop().await?;
    copy(&first, &second).await?;
    // Bob and eve are written on the first one, which lands nothing of it.
    for id in ["bob", "eve"] {
        before.player(id).update([("gold", "first")]).await?;
    }
    let world = moved(&before, &second)?;
    std::fs::write(&new, &world.text)?;
    let after = Stack::with(world).await?;
    for id in ["ann", "eve"] {
        after.player(id).update([("gold", "second")]).await?;
    }
    refused(&before, &mut 0).await?;

    let status = program(&old, &["status"]).await?;
    let (said, table) = (text(&status.stderr), text(&status.stdout));
    assert_eq!(status.status.code(), Some(6), "{said}{table}");
    assert!(said.contains("was replaced by the one at"), "{said}");
    assert!(said.contains("marks wait here"), "{said}");
    let verify = program(&old, &["verify"]).await?;
    let said = text(&verify.stderr);
    assert_eq!(verify.status.code(), Some(6), "{said}");
    assert!(said.contains("was replaced by the one at"), "{said}");

    let file = folder.path().join("unlanded.jsonl");
    let file = file.to_str().context("a name")?;
    let export = program(&old, &["export", "--unlanded", "--output", file]).await?;
    assert!(export.status.success(), "{}", text(&export.stderr));
    let lines = std::fs::read_to_string(file)?;
    assert!(
        lines.contains("\"bob\"") && lines.contains("\"eve\""),
        "{lines}"
    );
    assert!(!lines.contains("\"ann\""), "ann has landed: {lines}");

    // Eve has changed on the second one, too. Bob has not.
    let import = program(&new, &["import", file]).await?;
    let said = text(&import.stderr) + &text(&import.stdout);
    assert_eq!(import.status.code(), Some(1), "{said}");
    assert!(
        said.contains("eve has changed since") && said.contains("--overwrite"),
        "{said}"
    );
    assert!(!said.contains("bob has changed"), "{said}");
    let all = async || -> Result<[String; 3]> {
        Ok([
            gold(&after, "ann").await?,
            gold(&after, "bob").await?,
            gold(&after, "eve").await?,
        ])
    };
    assert_eq!(all().await?, ["second", "first", "second"]);
    let import = program(&new, &["import", file, "--overwrite"]).await?;
    assert!(import.status.success(), "{}", text(&import.stderr));
    assert_eq!(all().await?, ["second", "first", "first"]);
    Ok(())
}
