//! The cost of a warm operation: one round trip to the hot tier, and no byte to the database.

use anyhow::Result;
use storage_config::{HotSettings, RedisSettings};
use storage_dirty::{Partitions as _, RedisStore, Tier as _};
use storage_model::Partition;
use storage_tests::{Proxy, Stack, World, stack, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_warm_operation_is_one_round_trip_and_sends_the_database_nothing() -> Result<()> {
    let (redis, mariadb) = (stack::redis().await?, stack::mariadb().await?);
    let (hot, cold) = (
        Proxy::start(redis.port()).await?,
        Proxy::start(mariadb.port()).await?,
    );
    let direct = World::fresh().await?;
    let database = direct
        .database
        .replace(&mariadb.port().to_string(), &cold.port().to_string());
    let redis = format!("redis://127.0.0.1:{}", hot.port());
    let mut world = World::with_urls(&redis, &database, &direct.settings.redis.prefix)?;
    world.settings.redis.connections = 1;
    let stack = Stack::with(world).await?;

    let ann = stack.player("ann");
    ann.get_all().await?;
    ann.update([("gold", "1"), ("bag", "sword")]).await?;
    ann.update([("gold", "2")]).await?;
    ann.get_all().await?;

    let bytes = cold.bytes();
    // The counts include the storage's own occasional requests. So each operation is tried until
    // none of them interferes.
    macro_rules! one {
        ($what:literal, $operation:expr) => {
            one!($what, (), _none, $operation)
        };
        ($what:literal, $before:expr, $seen:ident, $operation:expr) => {
            let costs_one = async || {
                let $seen = $before;
                let rounds = hot.rounds();
                let _ = $operation.await?;
                Ok(hot.rounds() == rounds + 1)
            };
            until($what, costs_one).await?;
        };
    }
    one!("get", ann.get(["gold", "none"]));
    one!("get_all", ann.get_all());
    one!("exists", ann.exists());
    one!(
        "update_if",
        ann.version().await?,
        seen,
        ann.update([("gold", "3")]).if_version(seen)
    );
    one!("update", ann.update([("gold", "4"), ("new", "5")]));
    one!("incr", ann.incr("gold", 1));
    one!("incr_many", ann.incr_many([("gold", 1), ("level", 1)]));
    one!("remove", ann.remove(["bag"]));
    one!("restore", ann.restore(["bag"]));
    one!("evict", ann.evict());
    assert_eq!(cold.bytes(), bytes, "no byte to the database");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_further_connection_to_a_server_that_has_the_scripts_costs_one_round_trip() -> Result<()>
{
    let redis = stack::redis().await?;
    let proxy = Proxy::start(redis.port()).await?;
    let url = format!("redis://127.0.0.1:{}/3", proxy.port());
    let settings = RedisSettings::new(url.parse()?).with(|redis| {
        redis.partitions = 2;
        redis.connections = 2;
    });
    let hot = RedisStore::open(&settings, &HotSettings::default()).await?;
    let rounds = proxy.rounds();
    hot.time().await?;
    assert_eq!(
        proxy.rounds(),
        rounds + 1,
        "over the connection that there is"
    );
    // Several commands go over another connection.
    let peeks = async || {
        hot.peek(&[Partition(0), Partition(1)])
            .await
            .into_iter()
            .try_for_each(|peek| peek.map(drop))
    };
    peeks().await?;
    assert_eq!(
        proxy.rounds(),
        rounds + 3,
        "one to open it, one for the call"
    );
    peeks().await?;
    assert_eq!(proxy.rounds(), rounds + 4);
    Ok(())
}
