//! One owner that Redis can't hand over: the others land and are exported, and it is named.

use anyhow::Result;
use storage_servers::{RedisOptions, RedisServer};
use storage_tests::{Stack, World, rows, stack};

use super::{program, text};

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_breaks_the_connection_is_named_and_the_others_land_and_are_exported()
-> Result<()> {
    let redis = RedisServer::start(RedisOptions::default()).await?;
    let world = World::on(&redis.url(), stack::mariadb().await?).await?;
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("storage.toml");
    std::fs::write(&config, &world.text)?;
    let stack = Stack::with(world).await?;
    for id in 0..40 {
        stack.player(&id.to_string()).update([("v", "1")]).await?;
    }
    let large = "x".repeat(900_000);
    for field in ["a", "b", "c", "d"] {
        stack
            .player("whale")
            .update([(field, large.as_str())])
            .await?;
    }
    let limit = |bytes: &str| format!("normal {bytes} {bytes} 1");
    let set = async |bytes: &str| {
        let limit = limit(bytes);
        redis
            .call(&["CONFIG", "SET", "client-output-buffer-limit", &limit])
            .await
    };
    let file = folder.path().join("all.jsonl");
    let export = async |unlanded: &[&str]| -> Result<(Option<i32>, String)> {
        let output = ["export", "--output", file.to_str().unwrap_or_default()];
        let exported = program(&config, &[&output, unlanded].concat()).await?;
        let said = text(&exported.stdout) + &text(&exported.stderr);
        Ok((exported.status.code(), said))
    };
    // Each value fits into a reply, and the whole owner does not.
    set("1000000").await?;
    for unlanded in [&[][..], &["--unlanded"]] {
        let (code, said) = export(unlanded).await?;
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("41 owners"), "{said}");
        let lines = std::fs::read_to_string(&file)?;
        assert_eq!(lines.matches(&large).count(), 4);
        std::fs::remove_file(&file)?;
    }
    // No value fits.
    set("500000").await?;
    for unlanded in [&[][..], &["--unlanded"]] {
        let (code, said) = export(unlanded).await?;
        assert_eq!(code, Some(1), "{said}");
        assert!(
            said.contains("player/whale") && said.contains("client-output-buffer-limit"),
            "{said}"
        );
        assert!(said.contains("40 owners\n1 owners are missing"), "{said}");
        assert!(!file.exists(), "it is not complete");
    }

    let drained = program(&config, &["drain"]).await?;
    let (out, said) = (text(&drained.stdout), text(&drained.stderr));
    assert_eq!(drained.status.code(), Some(1), "{out}{said}");
    assert_eq!(rows(&stack.database).await?.len(), 40, "{out}{said}");
    let listed = text(&program(&config, &["errors"]).await?.stdout);
    assert!(
        listed.contains("player/whale") && listed.contains("client-output-buffer-limit"),
        "{listed}"
    );

    set("0").await?;
    let retried = program(&config, &["errors", "--retry"]).await?;
    assert_eq!(retried.status.code(), Some(0), "{}", text(&retried.stderr));
    assert_eq!(rows(&stack.database).await?.len(), 44);

    set("500000").await?;
    let verified = program(&config, &["verify"]).await?;
    let (out, said) = (text(&verified.stdout), text(&verified.stderr));
    assert_eq!(verified.status.code(), Some(1), "{out}{said}");
    assert!(
        out.contains("player/whale: the connection breaks whenever the hash is read"),
        "{out}{said}"
    );
    Ok(())
}
