//! Links that hold back, lose or swallow requests (H5, H24, H34, H44).

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures::future::{join_all, try_join_all};
use storage_config::SqlSettings;
use storage_sdk::{Error, Kind, Outcome};
use storage_servers::{RedisOptions, RedisServer};
use storage_sql::conformance::gate::Gate;
use storage_sql::conformance::{land_on, live, owner};
use storage_sql::{ColdKind, LandError, Opening, open};
use storage_tests::stack::bounded;
use storage_tests::{Proxy, Stack, World, rows, stack, until};

/// Short enough for a test to wait for.
const SOON: Duration = Duration::from_millis(200);

/// A stack whose game server reaches a Redis of its own through a proxy.
async fn behind_proxy() -> Result<(RedisServer, Proxy, Stack)> {
    let redis = RedisServer::start(RedisOptions::default()).await?;
    let proxy = Proxy::start(redis.port()).await?;
    let mut world = World::on(
        &format!("redis://127.0.0.1:{}", proxy.port()),
        stack::mariadb().await?,
    )
    .await?;
    let settings = &mut world.settings.redis;
    (
        settings.connect_timeout,
        settings.response_timeout,
        settings.wait_timeout,
    ) = (SOON, SOON, SOON);
    Ok((redis, proxy, Stack::with(world).await?))
}

/// The number of scripts that the server has run.
async fn scripts_run(redis: &RedisServer) -> Result<u64> {
    let info = redis.call(&["INFO", "commandstats"]).await?;
    let line = info
        .text()?
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    Ok(line
        .and_then(|line| line.split(',').next())
        .map_or(Ok(0), str::parse)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_arrives_late_never_overtakes_a_newer_one() -> Result<()> {
    let (redis, proxy, stack) = behind_proxy().await?;
    let ann = stack.player("ann");
    ann.update([("gold", "0"), ("count", "0")]).await?;
    for round in 1..=3 {
        // The proxy holds the first copies back. Their repeats under the same ids go over other
        // connections.
        proxy.hold_open_ones();
        let (update, incr) = (ann.update([("gold", "old")]), ann.incr("count", 1));
        let (_, counted) = tokio::try_join!(async { update.await }, async { incr.await })?;
        assert_eq!(counted.value(), round);
        let newer = ann.update([("gold", format!("new{round}"))]).await?;
        let run = scripts_run(&redis).await?;
        proxy.let_go();
        until("the first copies have arrived", async || {
            Ok(scripts_run(&redis).await? >= run + 2)
        })
        .await?;
        let read = ann.get(["gold", "count"]).await?;
        assert_eq!(
            read["gold"].as_deref(),
            Some(format!("new{round}").as_bytes())
        );
        assert_eq!(read["count"].as_deref(), Some(round.to_string().as_bytes()));
        assert_eq!(read.version(), newer.version());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_was_given_up_is_not_applied_when_it_arrives_after_its_deadline() -> Result<()>
{
    let (redis, proxy, stack) = behind_proxy().await?;
    let ann = stack.player("ann");
    let first = ann.update([("gold", "1"), ("count", "1")]).await?;
    proxy.hold_all();
    let error = ann
        .update([("gold", "2")])
        .deadline(SOON * 2)
        .await
        .unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
    let error = ann.incr("count", 1).deadline(SOON * 2).await.unwrap_err();
    assert_ne!(error.outcome(), Outcome::Applied, "{error}");
    // Longer than the deadline by the server's own clock, which is this machine's.
    tokio::time::sleep(SOON * 3).await;
    let run = scripts_run(&redis).await?;
    proxy.let_go();
    until("it has arrived", async || {
        Ok(scripts_run(&redis).await? > run)
    })
    .await?;
    until("the link works again", async || {
        Ok(ann.get(["gold"]).await.is_ok())
    })
    .await?;
    let read = ann.get(["gold", "count"]).await?;
    assert_eq!(
        (read["gold"].as_deref(), read["count"].as_deref()),
        (Some(&b"1"[..]), Some(&b"1"[..]))
    );
    assert_eq!(read.version(), first.version());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_over_a_dead_link_ends_and_says_what_it_knows() -> Result<()> {
    let (_redis, proxy, stack) = behind_proxy().await?;
    let ann = stack.player("ann");
    ann.update([("gold", "1")]).await?;
    proxy.hold_all();
    let writes = (0..20).map(|number| {
        let ann = &ann;
        async move {
            ann.update([(format!("f{number}"), "x")])
                .deadline(SOON * 3)
                .await
                .map(drop)
        }
    });
    let reads = async {
        let results = tokio::join!(
            ann.get(["gold"]),
            ann.get_all(),
            ann.exists(),
            ann.version()
        );
        [
            results.0.map(drop),
            results.1.map(drop),
            results.2.map(drop),
            results.3.map(drop),
        ]
    };
    let others = async {
        let results = tokio::join!(
            ann.flush(SOON),
            ann.evict(),
            ann.unload(SOON),
            stack.storage.stats()
        );
        [
            results.0.map(drop),
            results.1.map(drop),
            results.2.map(drop),
            results.3.map(drop),
        ]
    };
    let all = async { Ok(tokio::join!(join_all(writes), reads, others)) };
    let (written, read, other) = bounded("every call has ended", all).await?;
    for result in written.iter().chain(&read).chain(&other) {
        let kind = result.as_ref().map_err(Error::kind);
        assert!(
            matches!(kind, Err(Kind::HotUnavailable | Kind::Timeout)),
            "{result:?}"
        );
    }
    // Dropping the proxy loses the requests that it holds, like a network that swallows them.
    drop(proxy);
    let ends: Vec<Outcome> = written
        .into_iter()
        .filter_map(Result::err)
        .map(|error| error.outcome())
        .collect();
    assert!(
        ends.contains(&Outcome::Unknown) && !ends.contains(&Outcome::Applied),
        "{ends:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_comes_back_is_used_again() -> Result<()> {
    let (_redis, proxy, stack) = behind_proxy().await?;
    let ann = stack.player("ann");
    ann.update([("gold", "1")]).await?;
    let worker = stack.worker();
    stack.landed().await?;
    proxy.hold_all();
    assert!(ann.update([("gold", "2")]).deadline(SOON).await.is_err());
    until("the worker has noticed", async || {
        Ok(worker.counts().failures > 0)
    })
    .await?;
    proxy.let_go();
    until("a write is taken", async || {
        Ok(ann.update([("gold", "3")]).await.is_ok())
    })
    .await?;
    stack.landed().await?;
    assert_eq!(
        rows(&stack.database)
            .await?
            .iter()
            .map(|row| row.value.clone())
            .collect::<Vec<_>>(),
        [b"3"]
    );
    worker.stop().await
}

/// A proxy to the database, and the URL through it.
async fn proxied(database: &str) -> Result<(Proxy, String)> {
    let port = stack::mariadb().await?.port();
    let proxy = Proxy::start(port).await?;
    let url = database.replace(&format!(":{port}/"), &format!(":{}/", proxy.port()));
    Ok((proxy, url))
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_whose_answers_are_lost_are_landed_again() -> Result<()> {
    let direct = World::fresh().await?;
    let (proxy, url) = proxied(&direct.database).await?;
    let stack = Stack::with(World::with_urls(
        &stack::redis().await?.url(),
        &url,
        &direct.settings.redis.prefix,
    )?)
    .await?;
    let worker = stack.worker();
    let mut last = Vec::new();
    for round in 0..10 {
        if round == 1 {
            // The first round prepares the partitions. Writes do not wait for its commits twice.
            proxy.lose_every_reply_to(2, b"\x03COMMIT");
        }
        last.clear();
        for id in 0..20 {
            last.push(
                stack
                    .player(&format!("{id:02}"))
                    .update([("round", round.to_string())])
                    .await?
                    .version()
                    .get(),
            );
        }
        stack.landed().await?;
    }
    worker.stop().await?;
    assert!(
        proxy.lost() >= 5,
        "only {} commits lost their answer",
        proxy.lost()
    );
    let stored = rows(&direct.database).await?;
    assert!(stored.iter().all(|row| row.value == b"9"));
    assert_eq!(
        stored.iter().map(|row| row.version).collect::<Vec<_>>(),
        last
    );
    assert_eq!(stack.storage.stats().await?.error_marks, 0);
    Ok(())
}

/// A link goes dead at one statement of a transaction. The worker repeats the transaction over
/// another link, which waits for the dead client no longer than the server does. A late request
/// changes nothing.
async fn landing_goes_on_after(statement: &'static str) -> Result<()> {
    let world = World::fresh().await?;
    let (proxy, url) = proxied(&world.database).await?;
    let direct = open(&world.settings.sql).await?;
    direct
        .partitions
        .raise(&[storage_sql::Raise::by_one(
            storage_model::Partition(0),
            storage_model::Epoch(0),
        )])
        .await?;
    let second = Duration::from_secs(1);
    let settings = SqlSettings::new(url.parse()?).with(|sql| {
        sql.statement_timeout = second;
        sql.connect_timeout = second;
        sql.acquire_timeout = second;
    });
    let gate = Arc::new(Gate::before(statement));
    let store = Opening::new(&settings).through(gate.clone()).open().await?;
    let row = |value: &str, version| vec![live(&owner("ann"), "gold", value.to_owned(), version)];
    let dead = tokio::spawn(async move {
        land_on(&store, 0, vec![live(&owner("ann"), "gold", "old", 5)]).await
    });
    gate.reached().await;
    proxy.hold_open_ones();
    gate.open();
    let Err(LandError::Cold(error)) = dead.await? else {
        anyhow::bail!("{statement}: it did not fail")
    };
    assert_eq!(error.kind, ColdKind::Unwell, "{statement}: {error}");
    let repeat = async || Ok(land_on(&direct, 0, row("new", 6)).await.is_ok());
    until(&format!("another link lands after {statement}"), repeat).await?;
    let passed = proxy.bytes();
    proxy.let_go();
    until(
        "something arrives late",
        async || Ok(proxy.bytes() > passed),
    )
    .await?;
    let loaded = direct.rows.load(&[owner("ann")], 9).await?;
    assert_eq!(
        loaded.first().map(|loaded| loaded.rows.clone()),
        Some(row("new", 6)),
        "{statement}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_to_the_database_that_goes_dead_at_any_statement_holds_up_no_other() -> Result<()> {
    let statements = ["begin", "fence", "upsert", "commit"];
    try_join_all(statements.map(landing_goes_on_after))
        .await
        .map(drop)
}
