//! Claims, and servers that come and go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use shard_read_server::{Ended, OnLost};
use sqlx::ConnectOptions as _;
use sqlx::sqlite::SqliteConnectOptions;
use storage_sdk::layer::claims::Holder;
use storage_shard_read::{Client, State};

use crate::words::{Words, words};
use crate::world::{PERIOD, SOON, World, until};

/// Calls without a break, and what failed.
struct Load {
    ends: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<Vec<String>>,
}

impl Load {
    fn on(client: Client<Words>) -> Self {
        let (ends, calls) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        let task = tokio::spawn({
            let (ends, calls) = (Arc::clone(&ends), Arc::clone(&calls));
            async move {
                let mut failed = Vec::new();
                while !ends.load(Ordering::SeqCst) {
                    if let Err(error) = client.get(words(50)).deadline(SOON).await {
                        failed.push(error.to_string());
                    }
                    calls.fetch_add(1, Ordering::SeqCst);
                }
                failed
            }
        });
        Self { ends, calls, task }
    }

    /// Waits for further calls.
    async fn goes_on(&self) -> Result<()> {
        let before = self.calls.load(Ordering::SeqCst);
        until("calls go on", async || {
            Ok(self.calls.load(Ordering::SeqCst) > before + 5)
        })
        .await
    }

    async fn has_no_failure(self) -> Result<()> {
        self.ends.store(true, Ordering::SeqCst);
        assert_eq!(self.task.await?, [""; 0]);
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_range_has_one_server_and_a_further_server_stands_by() -> Result<()> {
    let (world, hosts) = World::with_servers(3, &["a"]).await?;
    let further = world.server("a", "a9").await?;
    let rows = world.rows().await?;
    let mut holders: Vec<_> = rows.iter().filter_map(|row| row.holder.clone()).collect();
    holders.sort();
    assert_eq!(
        holders,
        ["a0", "a1", "a2"].map(|name| Holder::new(name).unwrap())
    );
    until(
        "it looks",
        async || Ok(further.server.figures().claims == 0),
    )
    .await?;
    assert_eq!(further.server.shard().state, State::Standby);
    drop(hosts);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_hands_its_range_over_without_a_failed_call() -> Result<()> {
    let (world, mut hosts) = World::with_servers(2, &["a"]).await?;
    hosts.push(world.server("a", "a9").await?);
    let load = Load::on(world.client(&hosts)?);
    load.goes_on().await?;
    let first = hosts.remove(0);
    let knobs = Arc::clone(&first.knobs);
    let report = first.server.close(SOON).await;
    assert!(
        report.is_orderly && report.ended == Ended::Closed,
        "{report:?}"
    );
    assert_eq!(knobs.unloaded.load(Ordering::SeqCst), 1);
    hosts[1].is(State::Serving).await?;
    load.goes_on().await?;
    load.has_no_failure().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_range_of_a_server_that_died_goes_to_another_one() -> Result<()> {
    let (world, hosts) = World::with_servers(1, &["a", "b"]).await?;
    let standby = world.server("a", "a9").await?;
    // A claim whose holder is gone: it is taken from the server, and nobody renews it.
    let row = world
        .rows()
        .await?
        .into_iter()
        .find(|row| row.key.dc.as_str() == "a")
        .unwrap();
    let claims = world.cold.layers().claims().unwrap();
    let token = storage_sdk::layer::claims::ClaimToken::new([7; 16]);
    loop {
        let rows = world.rows().await?;
        let seen = rows.iter().find(|seen| seen.key == row.key).unwrap();
        if claims.claim(seen, token, &Holder::new("dead:1")?).await? {
            break;
        }
    }
    until("the claim is lost", async || {
        Ok(hosts[0].server.figures().claims_lost == 1)
    })
    .await?;
    until("one of both has it", async || {
        let states = [&hosts[0], &standby].map(|host| host.server.shard().state);
        Ok(states.contains(&State::Serving))
    })
    .await?;
    let rows = world.rows().await?;
    let now = rows.iter().find(|now| now.key == row.key).unwrap();
    assert_eq!(now.transitions, row.transitions + 2);
    Ok(())
}

/// The holder can't renew its claim, and a standby server sees that its beat stands still.
#[tokio::test(flavor = "multi_thread")]
async fn while_the_database_takes_no_write_and_afterwards_no_call_fails() -> Result<()> {
    let (world, mut hosts) = World::with_servers(2, &["a"]).await?;
    hosts.push(world.server("a", "a9").await?);
    let load = Load::on(world.client(&hosts)?);
    let options = SqliteConnectOptions::new().filename(&world.file);
    let mut writer = options.connect().await?;
    sqlx::raw_sql("BEGIN IMMEDIATE")
        .execute(&mut writer)
        .await?;
    until("no claim was renewed for ten periods", async || {
        let rows = world.rows().await?;
        Ok(rows.iter().all(|row| row.renewed_ago > 10 * PERIOD))
    })
    .await?;
    load.goes_on().await?;
    let answering = hosts
        .iter()
        .filter(|host| host.server.shard().state.answers());
    assert_eq!(answering.count(), 2, "nobody stops for the database's sake");
    sqlx::raw_sql("ROLLBACK").execute(&mut writer).await?;
    until("claims are renewed", async || {
        let rows = world.rows().await?;
        Ok(rows.iter().all(|row| row.renewed_ago < 5 * PERIOD))
    })
    .await?;
    load.goes_on().await?;
    let lost = hosts.iter().map(|host| host.server.figures().claims_lost);
    assert_eq!(lost.sum::<u64>(), 0, "no claim has another holder");
    load.has_no_failure().await
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_two_servers_that_start_at_once_get_one_range_each() -> Result<()> {
    const SERVERS: usize = 32;
    let world = World::new().await?;
    world.plan("a", SERVERS).await?;
    let names: Vec<String> = (0..SERVERS).map(|number| format!("a{number}")).collect();
    let starting = names.iter().map(|name| world.server("a", name));
    let hosts = futures::future::try_join_all(starting).await?;
    for host in &hosts {
        host.is(State::Serving).await?;
    }
    let ranges = hosts
        .iter()
        .map(|host| host.range().map(|range| range.begin()));
    let begins = ranges.collect::<Result<std::collections::BTreeSet<_>>>()?;
    assert_eq!(begins.len(), SERVERS);
    let claims = hosts.iter().map(|host| host.server.figures().claims);
    assert_eq!(claims.sum::<u64>(), 32, "nobody lost one");
    Ok(())
}

/// V2.
#[tokio::test(flavor = "multi_thread")]
async fn while_statements_of_claims_fail_no_server_leaves_its_range() -> Result<()> {
    let (world, hosts) = World::with_servers(2, &["a"]).await?;
    let load = Load::on(world.client(&hosts)?);
    let options = SqliteConnectOptions::new().filename(&world.file);
    let mut operator = options.connect().await?;
    let (away, back) = (
        "ALTER TABLE landing_shard RENAME TO shard_away",
        "ALTER TABLE shard_away RENAME TO landing_shard",
    );
    sqlx::raw_sql(away).execute(&mut operator).await?;
    let begun = std::time::Instant::now();
    until("ten renewals of each claim have failed", async || {
        Ok(begun.elapsed() > 10 * PERIOD)
    })
    .await?;
    load.goes_on().await?;
    for host in &hosts {
        assert_eq!(host.server.shard().state, State::Serving);
    }
    sqlx::raw_sql(back).execute(&mut operator).await?;
    until("claims are renewed", async || {
        let rows = world.rows().await?;
        Ok(rows.iter().all(|row| row.renewed_ago < 5 * PERIOD))
    })
    .await?;
    let claims = hosts.iter().map(|host| host.server.figures().claims);
    assert_eq!(claims.sum::<u64>(), 2, "no range was claimed again");
    load.has_no_failure().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_to_end_with_its_claim_ends_in_order() -> Result<()> {
    let world = World::new().await?;
    world.plan("a", 1).await?;
    let (builder, knobs) = world.builder("a", "a0")?;
    let mut host = world
        .start(builder.on_lost(OnLost::End), knobs, "a0")
        .await?;
    host.is(State::Serving).await?;
    assert_eq!(world.retire("a", 1).await?, 1);
    assert_eq!(host.server.ended().await, Ended::Lost);
    assert_eq!(host.knobs.unloaded.load(Ordering::SeqCst), 1);
    assert_eq!(host.server.shard().state, State::Standby);
    assert_eq!(host.server.ended().await, Ended::Lost, "it is told again");
    let report = host.server.close(SOON).await;
    assert_eq!((report.ended, report.is_orderly), (Ended::Lost, true));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_of_one_name_end_with_the_reason() -> Result<()> {
    let world = World::new().await?;
    world.plan("a", 1).await?;
    let mut servers = Vec::new();
    for address in ["one", "two"] {
        let (builder, knobs) = world.builder("a", "same:1")?;
        servers.push(
            world
                .start(builder.drain(Duration::ZERO), knobs, address)
                .await?,
        );
    }
    let [mut one, mut two] = <[_; 2]>::try_from(servers).map_err(|_| anyhow::anyhow!("two"))?;
    let ended = tokio::select! {
        ended = one.server.ended() => ended,
        ended = two.server.ended() => ended,
    };
    assert_eq!(ended, Ended::NameTaken);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_fails_is_tried_again() -> Result<()> {
    let world = World::new().await?;
    world.plan("a", 1).await?;
    let (builder, knobs) = world.builder("a", "a0")?;
    knobs.failing_loads.store(1, Ordering::SeqCst);
    let host = world.start(builder, knobs, "a0").await?;
    host.is(State::Serving).await?;
    assert_eq!(host.server.figures().loads_failed, 1);
    Ok(())
}

/// New servers first.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_plan_is_served_before_the_old_one_goes_without_a_failed_call() -> Result<()> {
    let (world, mut hosts) = World::with_servers(2, &["a"]).await?;
    world.plan("a", 3).await?;
    for name in ["n0", "n1", "n2"] {
        hosts.push(world.server("a", name).await?);
    }
    let load = Load::on(world.client(&hosts)?);
    for host in &hosts[2..] {
        host.is(State::Serving).await?;
    }
    load.goes_on().await?;
    world.retire("a", 1).await?;
    for host in &hosts[..2] {
        host.is(State::Standby).await?;
    }
    load.goes_on().await?;
    load.has_no_failure().await
}

/// Data centre by data centre, as the original does.
#[tokio::test(flavor = "multi_thread")]
async fn servers_change_to_a_new_plan_in_place_while_another_data_centre_answers() -> Result<()> {
    let (world, hosts) = World::with_servers(2, &["a", "b"]).await?;
    let load = Load::on(world.client(&hosts)?);
    for dc in ["a", "b"] {
        world.plan(dc, 2).await?;
        world.retire(dc, 1).await?;
        let of_dc = || {
            hosts
                .iter()
                .filter(|host| host.server.address().starts_with(dc))
        };
        until("all serve the new plan", async || {
            Ok(of_dc().all(|host| {
                let shard = host.server.shard();
                shard.plan == 2 && shard.state == State::Serving
            }))
        })
        .await?;
        load.goes_on().await?;
    }
    load.has_no_failure().await
}
