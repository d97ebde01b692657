//! The program on a Redis that another one has replaced.

use anyhow::{Context as _, Result};
use storage_model::{HotId, Partition, Stamp};
use storage_sql::Raise;
use storage_tests::{Stack, World, stack};
use storage_tiers::TierError;

use super::{program, text};
use crate::pairing::tiers;
use crate::redis_lost::copies::{blank, copy, moved, places, refused, restart};

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
    for id in ["ann", "bob", "dan", "eve"] {
        before.player(id).update([("gold", "1")]).await?;
    }
    before.landed().await?;
    worker.stop().await?;
    copy(&first, &second).await?;
    // Bob, eve and dan are written on the first one, which lands nothing of it.
    for id in ["bob", "eve"] {
        before.player(id).update([("gold", "first")]).await?;
    }
    before.player("dan").remove(["gold"]).await?;
    let world = moved(&before, &second)?;
    std::fs::write(&new, &world.text)?;
    let after = Stack::with(world).await?;
    let worker = after.worker();
    for id in ["ann", "eve"] {
        after.player(id).update([("gold", "second")]).await?;
    }
    after.landed().await?;
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
    assert!(lines.contains("{\"removed\":true}"), "{lines}");
    assert!(!lines.contains("\"ann\""), "ann has landed: {lines}");
    restart(&first).await?;
    let export = program(&old, &["export", "--unlanded", "--output", file]).await?;
    assert!(export.status.success(), "{}", text(&export.stderr));
    assert_eq!(std::fs::read_to_string(file)?, lines);

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
    assert!(after.player("dan").get(["gold"]).await?.is_empty());
    // The lines that were written before count as written again.
    let import = program(&new, &["import", file]).await?;
    let said = text(&import.stderr) + &text(&import.stdout);
    assert!(!said.contains("bob has changed"), "{said}");
    let import = program(&new, &["import", file, "--overwrite"]).await?;
    assert!(import.status.success(), "{}", text(&import.stderr));
    assert_eq!(all().await?, ["second", "first", "first"]);
    after.landed().await?;
    worker.stop().await
}

/// Two servers that Sentinels promoted can have some partitions each.
#[tokio::test(flavor = "multi_thread")]
async fn adopt_reports_and_takes_a_single_partition_that_another_redis_has() -> Result<()> {
    let redis = blank().await?;
    let world = World::on(&redis.url(), stack::mariadb().await?).await?;
    let folder = tempfile::tempdir()?;
    let settings = folder.path().join("storage.toml");
    std::fs::write(&settings, &world.text)?;
    let (other, at) = (HotId::of("another server"), Partition(1));
    {
        let before = tiers(&world.settings).await?;
        before.belong().await?;
        let all: Vec<_> = (0..before.hot().partitions.partition_count())
            .map(Partition)
            .collect();
        before.prepare(&all).await?;
        let seen = before.cold().partitions.partitions(&[at]).await?[0];
        before
            .cold()
            .hot_tiers
            .introduce(other, "another.example.com:6379")
            .await?;
        let raise = Raise {
            seen_stamp: seen.stamp,
            by: other,
            stamp: Stamp(7),
            ..Raise::by_one(at, seen.epoch)
        };
        before.cold().partitions.raise(&[raise]).await?;
    }
    restart(&redis).await?;
    let now = tiers(&world.settings).await?;
    now.prepare(&[Partition(0)]).await?;
    // That server is used, and this one has all other partitions.
    now.cold().hot_tiers.touch(&[other]).await?;
    let compared = now.compare_only().await;
    assert!(
        matches!(compared, Err(TierError::Behind(_))),
        "{compared:?}"
    );

    let adopted = program(&settings, &["adopt"]).await?;
    let said = text(&adopted.stdout) + &text(&adopted.stderr);
    assert!(adopted.status.success(), "{said}");
    for word in ["is behind", "another.example.com", "adopted"] {
        assert!(said.contains(word), "{word:?}: {said}");
    }
    let again = program(&settings, &["adopt"]).await?;
    assert!(text(&again.stdout).contains("nothing to adopt"));
    let here = HotId::of(&now.hot().tier.pairing().await?.incarnation);
    let stack = Stack::with(world).await?;
    let taken = places(&stack).await?;
    assert!(taken.values().all(|place| place.0 == here), "{taken:?}");
    Ok(())
}
