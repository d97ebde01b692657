//! The defects of the Java original, one test each.

use std::time::Duration;

use anyhow::Result;
use storage_model::Partition;
use storage_sdk::Kind;
use storage_tests::{Stack, World, rows, until};

async fn land_and_evict(stack: &Stack, owners: &[&storage_sdk::ByteOwner]) -> Result<()> {
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    for owner in owners {
        owner.evict().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_named_like_markers_and_values_that_look_like_flags_are_plain_data() -> Result<()> {
    let stack = Stack::open().await?;
    let owner = stack.player("ann");
    let data = [
        ("del", ":delFlag"),
        ("model:del", "x"),
        ("cachedAllKey", "1"),
        (":v", "7"),
        (":g", "9a"),
        (":d:del", "r"),
        ("%", "%"),
    ];
    owner.update(data).await?;
    for hot in [true, false] {
        let all = owner.get_all().await?;
        assert_eq!(all.len(), data.len(), "hot: {hot}");
        for (field, value) in data {
            assert_eq!(
                all[field].as_deref(),
                Some(value.as_bytes()),
                "{field}, hot: {hot}"
            );
        }
        land_and_evict(&stack, &[&owner]).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_whose_parts_join_to_the_same_text_are_different_owners() -> Result<()> {
    let stack = Stack::open().await?;
    let pairs = [
        stack.owner("a:b", "c"),
        stack.owner("a", "b:c"),
        stack.owner("x%3A", "y"),
        stack.owner("x:", "y"),
    ];
    for (at, owner) in pairs.iter().enumerate() {
        owner.update([("at", at.to_string())]).await?;
    }
    for _ in 0..2 {
        for (at, owner) in pairs.iter().enumerate() {
            assert_eq!(
                owner.get(["at"]).await?["at"].as_deref(),
                Some(at.to_string().as_bytes())
            );
        }
        land_and_evict(&stack, &pairs.iter().collect::<Vec<_>>()).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_a_collation_would_fold_stay_apart() -> Result<()> {
    let stack = Stack::open().await?;
    let names = ["Bob", "bob", "bob ", "b\u{f6}b", "bo\u{308}b"];
    let owners: Vec<_> = names.iter().map(|name| stack.player(name)).collect();
    for (owner, name) in owners.iter().zip(names) {
        owner
            .update([("name", name.to_owned()), (name, "field".to_owned())])
            .await?;
    }
    land_and_evict(&stack, &owners.iter().collect::<Vec<_>>()).await?;
    assert_eq!(rows(&stack.database).await?.len(), 2 * names.len());
    for (owner, name) in owners.iter().zip(names) {
        assert_eq!(
            owner.get(["name"]).await?["name"].as_deref(),
            Some(name.as_bytes())
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn values_over_64_kib_and_of_any_bytes_survive() -> Result<()> {
    let stack = Stack::open().await?;
    let owner = stack.player("ann");
    let large: Vec<u8> = (0..200_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let all_bytes: Vec<u8> = (0..=255).collect();
    owner
        .update([
            ("large", large.clone()),
            ("bytes", all_bytes.clone()),
            ("empty", Vec::new()),
        ])
        .await?;
    land_and_evict(&stack, &[&owner]).await?;
    let all = owner.get_all().await?;
    assert_eq!(all["large"].as_deref(), Some(&large[..]));
    assert_eq!(all["bytes"].as_deref(), Some(&all_bytes[..]));
    assert_eq!(all["empty"].as_deref(), Some(&b""[..]));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_excludes() -> Result<()> {
    let stack = Stack::open().await?;
    let hot = stack.storage.tiers().hot();
    let lock = |holder: &str| storage_dirty::Lock {
        holder: holder.into(),
        token: holder.into(),
    };
    let ttl = Duration::from_secs(60);
    let (one, other) = (lock("one"), lock("other"));
    assert_eq!(
        hot.partitions.lock(&[Partition(0)], &one, ttl).await,
        [Ok(true)]
    );
    assert_eq!(
        hot.partitions.lock(&[Partition(0)], &other, ttl).await,
        [Ok(false)]
    );
    assert!(hot.marks.snapshot(Partition(0), &other).await.is_err());
    assert_eq!(
        hot.partitions.unlock(&[Partition(0)], &other).await,
        [Ok(())]
    );
    assert_eq!(
        hot.partitions.lock(&[Partition(0)], &other, ttl).await,
        [Ok(false)],
        "only the holder gives it back"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_exist_marker_is_unknown_and_not_absent() -> Result<()> {
    let stack = Stack::open().await?;
    let owner = stack.player("ann");
    owner.update([("gold", "10")]).await?;
    land_and_evict(&stack, &[&owner]).await?;
    let partition = owner.owner().partition(8);
    let key = format!(
        "{}-exist:{{{partition}}}:game:eu:player:ann",
        stack.settings.redis.prefix
    );
    storage_tests::stack::redis()
        .await?
        .call(&["DEL", &key])
        .await?;
    assert!(owner.exists().await?);
    assert!(
        owner
            .update([("gold", "0")])
            .if_absent()
            .await
            .unwrap_err()
            .is_conflict()
    );
    assert_eq!(owner.incr("gold", 1).await?.value(), 11);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn unlanded_data_outlives_the_time_to_live_of_landed_data() -> Result<()> {
    let mut world = World::fresh().await?;
    world.settings.hot.clean_ttl = Duration::from_secs(1);
    world.settings.hot.refresh_interval = Duration::from_millis(500);
    let stack = Stack::with(world).await?;
    let (dirty, clean) = (stack.player("dirty"), stack.player("clean"));
    clean.update([("v", "1")]).await?;
    land_and_evict(&stack, &[]).await?;
    dirty.update([("v", "1")]).await?;
    let redis = storage_tests::stack::redis().await?;
    let exists = async |owner: &storage_sdk::ByteOwner| -> Result<bool> {
        let partition = owner.owner().partition(8);
        let key = format!(
            "{}-data:{{{partition}}}:game:eu:player:{}",
            stack.settings.redis.prefix,
            owner.owner().id()
        );
        Ok(redis.call(&["EXISTS", &key]).await? == storage_servers::Reply::Integer(1))
    };
    until("the clean one has expired", async || {
        Ok(!exists(&clean).await?)
    })
    .await?;
    assert!(exists(&dirty).await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incr_that_fails_on_its_second_field_changes_nothing() -> Result<()> {
    let stack = Stack::open().await?;
    let owner = stack.player("ann");
    owner
        .update([("a", "1"), ("b", "text"), ("c", "9223372036854775807")])
        .await?;
    let error = owner.incr_many([("a", 1), ("b", 1)]).await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotInteger);
    assert!(error.to_string().contains("\"b\""), "{error}");
    assert_eq!(
        owner
            .incr_many([("a", 1), ("c", 1)])
            .await
            .unwrap_err()
            .kind(),
        Kind::Overflow
    );
    assert_eq!(owner.get(["a"]).await?["a"].as_deref(), Some(&b"1"[..]));
    assert_eq!(owner.incr("c", -1).await?.value(), i64::MAX - 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn get_all_of_a_cold_owner_finds_every_field() -> Result<()> {
    let stack = Stack::open().await?;
    let owner = stack.player("ann");
    owner.update([("a", "1"), ("b", "2")]).await?;
    land_and_evict(&stack, &[&owner]).await?;
    owner.update([("c", "3")]).await?;
    let all = owner.get_all().await?;
    let fields: Vec<_> = all.iter().map(|(field, _)| field.as_str()).collect();
    assert_eq!(fields, ["a", "b", "c"]);
    Ok(())
}
