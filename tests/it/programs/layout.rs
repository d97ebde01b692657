//! Tiers of another layout of keys (H81).

use anyhow::Result;
use storage_sdk::Storage;
use storage_tests::{Stack, stack};

use super::{config, program, text};

/// Both tiers say that they have a layout.
async fn say_layout(stack: &Stack, layout: &str) -> Result<()> {
    let meta = format!("{}-meta", stack.settings.redis.prefix);
    let redis = stack::redis().await?;
    redis.call(&["HSET", &meta, "layout", layout]).await?;
    let mut connection =
        <sqlx::mysql::MySqlConnection as sqlx::Connection>::connect(&stack.database).await?;
    let statement = "UPDATE landing_meta SET value = ? WHERE name = 'layout'";
    let update = sqlx::query(statement).bind(layout);
    assert_eq!(update.execute(&mut connection).await?.rows_affected(), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn tiers_of_another_layout_are_refused_by_name_and_stay_as_they_are() -> Result<()> {
    let (_folder, config, world) = config().await?;
    let stack = Stack::with(world).await?;
    stack.player("ann").update([("gold", "10")]).await?;
    for (layout, advice) in [
        ("1", "use the older program"),
        ("3", "use the newer program"),
    ] {
        say_layout(&stack, layout).await?;
        let refused = Storage::open(stack.settings.clone()).await.unwrap_err();
        let named = format!("layout {layout}");
        let said = refused.to_string();
        assert!(said.contains(&named) && said.contains(advice), "{said}");
        let worker = program(&config, &["drain"]).await?;
        let said = text(&worker.stderr);
        assert!(
            !worker.status.success() && said.contains(&named),
            "{worker:?}"
        );
    }
    say_layout(&stack, "2").await?;
    let storage = Storage::open(stack.settings.clone()).await?;
    let world = storage.world("game", "eu")?;
    let ann = world.bytes().owner("player", "ann")?;
    let gold = ann.get(["gold"]).await?;
    assert_eq!(gold["gold"].as_deref(), Some(&b"10"[..]));
    Ok(())
}
