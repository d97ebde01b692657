//! `migrate` from the layout of keys before this one.

use anyhow::Result;
use storage_sdk::Storage;
use storage_servers::Reply;
use storage_tests::{Stack, stack};

use super::{config, program, text};

/// Restores the state that the program before left: the meta key of Redis and the meta table say
/// layout 1, and the next migration has not run.
async fn as_the_program_before_left_it(stack: &Stack) -> Result<()> {
    let meta = format!("{}-meta", stack.settings.redis.prefix);
    assert_eq!(
        stack::redis()
            .await?
            .call(&["HSET", &meta, "layout", "1"])
            .await?,
        Reply::Integer(0)
    );
    let mut connection =
        <sqlx::mysql::MySqlConnection as sqlx::Connection>::connect(&stack.database).await?;
    for statement in [
        "UPDATE landing_meta SET value = '1' WHERE name = 'layout'",
        "DELETE FROM landing_migration WHERE version = 2",
    ] {
        assert_eq!(
            sqlx::raw_sql(statement)
                .execute(&mut connection)
                .await?
                .rows_affected(),
            1,
            "{statement}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn tiers_of_the_layout_before_are_refused_by_name_and_migrated_once_they_are_drained()
-> Result<()> {
    let (_folder, config, world) = config().await?;
    let stack = Stack::with(world).await?;
    stack.player("ann").update([("gold", "10")]).await?;
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    as_the_program_before_left_it(&stack).await?;

    let refused = Storage::open(stack.settings.clone()).await.unwrap_err();
    assert!(
        refused.to_string().contains("landing-worker migrate"),
        "{refused}"
    );
    let map = format!("{}-dirty:{{3}}:error", stack.settings.redis.prefix);
    let redis = stack::redis().await?;
    redis
        .call(&[
            "HSET",
            &map,
            "game:eu:player:bob\u{1f}gold",
            "7 1 1 1 1 1406 too long",
        ])
        .await?;
    let waits = program(&config, &["migrate"]).await?;
    assert_eq!(waits.status.code(), Some(6), "{waits:?}");
    let said = text(&waits.stderr);
    assert!(
        said.contains("1 partitions")
            && said.contains("layout 1")
            && said.contains("`drain` with the older program"),
        "{said}"
    );
    assert!(
        Storage::open(stack.settings.clone()).await.is_err(),
        "nothing was changed"
    );

    redis.call(&["DEL", &map]).await?;
    for said in [
        "had layout 1, and have layout 2 now\nthe schema is up to date now\n",
        "the schema was up to date\n",
    ] {
        let migrated = program(&config, &["migrate"]).await?;
        assert!(
            migrated.status.success() && text(&migrated.stdout).ends_with(said),
            "{migrated:?}"
        );
    }
    let storage = Storage::open(stack.settings.clone()).await?;
    let ann = storage
        .world("game", "eu")?
        .bytes()
        .owner("player", "ann")?;
    assert_eq!(
        ann.get(["gold"]).await?["gold"].as_deref(),
        Some(&b"10"[..])
    );
    assert_eq!(ann.incr("gold", 5).await?.value(), 15);
    Ok(())
}
