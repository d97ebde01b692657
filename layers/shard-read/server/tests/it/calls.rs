//! Calls of many keys.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, Result};
use shard_read_server::Moment;
use shard_read_server::moment::{BootClock, MomentClock as _};
use storage_shard_read::{Client, Hosts, Kind, Mode, Place, State};

use crate::words::{Words, word_of, words};
use crate::world::{SOON, World, all_are_known, until};

#[tokio::test(flavor = "multi_thread")]
async fn one_call_gets_the_values_of_all_shards() -> Result<()> {
    let (world, hosts) = World::with_servers(4, &["a", "b"]).await?;
    for mode in [Mode::All, Mode::Hedged, Mode::One] {
        let client = world.client_with(&hosts, |client| client.mode(mode))?;
        let found = client.get(words(100)).deadline(SOON).await?;
        assert_eq!(found.values.len(), 100);
        for (word, value) in &found.values {
            let length = value.split(": ").nth(1).context("a length")?;
            assert_eq!(length, word.len().to_string());
        }
        let servers: BTreeSet<_> = found.values.iter().map(|(_, value)| &value[..2]).collect();
        assert!(servers.len() >= 4, "{mode:?} asked {servers:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_data_centre_that_is_preferred_answers() -> Result<()> {
    let (world, hosts) = World::with_servers(2, &["a", "b"]).await?;
    for dc in ["a", "b"] {
        let client = world.client_with(&hosts, |client| client.prefer_dc(dc).mode(Mode::One))?;
        all_are_known(&client, 4).await?;
        let found = client.get(words(20)).deadline(SOON).await?;
        assert!(
            found.values.iter().all(|(_, value)| value.starts_with(dc)),
            "{found:?}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_without_a_preference_take_turns() -> Result<()> {
    let (world, hosts) = World::with_servers(1, &["a", "b"]).await?;
    let client = world.client_with(&hosts, |client| client.mode(Mode::One))?;
    all_are_known(&client, 2).await?;
    let mut servers = BTreeSet::new();
    for _ in 0..2 {
        let found = client.get(["word".to_owned()]).deadline(SOON).await?;
        servers.extend(found.values.into_iter().map(|(_, value)| value));
    }
    assert_eq!(servers.len(), 2, "{servers:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_without_keys_and_one_for_a_key_twice_need_no_server() -> Result<()> {
    let world = World::new().await?;
    let client = world.client(&[])?;
    assert!(client.get(Vec::new()).await?.values.is_empty());
    let error = client
        .get(["a", "b", "a"].map(String::from))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid);
    assert!(error.to_string().contains("\"a\""), "{error}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_without_a_server_is_named_and_a_partial_call_has_the_others() -> Result<()> {
    let (world, mut hosts) = World::with_servers(2, &["a"]).await?;
    let [lost, kept] = [word_of(hosts[0].range()?), word_of(hosts[1].range()?)];
    let client = world.client(&hosts)?;
    hosts.remove(0).server.close(SOON).await;
    let keys = [lost.clone(), kept.clone()];
    let get = || {
        client
            .get(keys.clone())
            .deadline(Duration::from_millis(300))
    };
    let error = get().await.unwrap_err();
    assert_eq!((error.kind(), error.keys().len()), (Kind::Unanswered, 1));
    assert!(error.to_string().contains(&lost), "{error}");
    let found = get().partial().await?;
    assert!(found.get(&kept).is_some() && found.unanswered[0].0 == lost);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_finds_a_server_that_comes_while_it_waits() -> Result<()> {
    let world = World::new().await?;
    let client = world.client_of(&["late"])?;
    let waiting = tokio::spawn(async move {
        let found = client.get(words(3)).deadline(SOON).await?;
        Ok::<_, storage_shard_read::Error>((found.values.len(), client.figures().requests))
    });
    let _host = world.fixed("late", |builder| builder).await?;
    let (values, requests) = waiting.await??;
    assert_eq!((values, requests), (3, 1));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_fails_or_panics_fails_alone() -> Result<()> {
    let world = World::new().await?;
    let host = world.fixed("a", |builder| builder).await?;
    let client = world.client(std::slice::from_ref(&host))?;
    let keys = ["fine", "panic", "unknown"].map(String::from);
    let found = client.get(keys).deadline(SOON).partial().await?;
    assert_eq!(found.values, [("fine".to_owned(), "a: 4".to_owned())]);
    let reasons: Vec<_> = found
        .unanswered
        .iter()
        .map(|(id, why)| format!("{id}: {why}"))
        .collect();
    assert!(
        reasons[0].starts_with("panic: ") && reasons[0].contains("panicked"),
        "{reasons:?}"
    );
    assert!(reasons[1].contains("nobody knows it"), "{reasons:?}");
    assert_eq!(host.server.figures().panics, 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn values_above_the_limit_of_a_reply_come_in_several() -> Result<()> {
    let world = World::new().await?;
    let host = world.fixed("a", |builder| builder).await?;
    let client = world.client(std::slice::from_ref(&host))?;
    let keys = (0..8).map(|number| format!("long-{number}"));
    let found = client.get(keys).deadline(SOON).await?;
    assert!(found.values.iter().all(|(_, value)| value.len() == 1 << 20));
    assert!(host.server.figures().calls >= 3);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_for_young_values_gets_them_or_the_best_age() -> Result<()> {
    let world = World::new().await?;
    let host = world.fixed("a", |builder| builder).await?;
    let client = world.client(std::slice::from_ref(&host))?;
    let get = |age| {
        let call = client
            .get(["word".to_owned()])
            .deadline(Duration::from_millis(300));
        call.max_age(Duration::from_secs(age))
    };
    let error = get(5).await.unwrap_err();
    assert_eq!((error.kind(), error.best_age()), (Kind::Stale, None));
    let long_ago = Moment::at(BootClock.now().since(Moment::at(Duration::from_secs(60))));
    host.knobs.fresh_at.send_replace(Some(long_ago));
    let found = client.get(["word".to_owned()]).await?;
    assert!(
        found.age.is_some_and(|age| age >= Duration::from_secs(60)),
        "{found:?}"
    );
    until("the age is known", async || {
        let error = get(5).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Stale);
        Ok(error
            .best_age()
            .is_some_and(|age| age >= Duration::from_secs(60)))
    })
    .await?;
    host.knobs.fresh_at.send_replace(Some(BootClock.now()));
    assert_eq!(get(30).await?.values.len(), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_names_an_event_waits_for_it() -> Result<()> {
    let world = World::new().await?;
    let host = world.fixed("a", |builder| builder).await?;
    let client = world.client(std::slice::from_ref(&host))?;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move {
            let call = client.get(["word".to_owned()]).deadline(SOON);
            call.after(Place::new(0, 1, 7))
                .await
                .map(|found| found.values.len())
        }
    });
    until("it waits", async || Ok(host.server.figures().calls == 1)).await?;
    assert_eq!(host.knobs.answered.load(Ordering::SeqCst), 0);
    host.knobs.reached.send_replace(7);
    assert_eq!(waiting.await??, 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_host_is_hedged_and_a_caller_that_went_ends_its_work() -> Result<()> {
    let (world, hosts) = World::with_servers(1, &["a", "b"]).await?;
    let client = world.client_with(&hosts, |client| client.prefer_dc("a"))?;
    all_are_known(&client, 2).await?;
    hosts[0].knobs.waits.send_replace(true);
    let found = client.get(["word".to_owned()]).deadline(SOON).await?;
    assert_eq!(found.values[0].1, "b0: 4");
    assert_eq!(client.figures().hedges, 1);
    assert_eq!(
        hosts[0].knobs.answered.load(Ordering::SeqCst),
        0,
        "its caller has gone"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_of_every_state_has_a_shard() -> Result<()> {
    let world = World::new().await?;
    let (builder, knobs) = world.builder("a", "a0")?;
    knobs.loads_wait.store(true, Ordering::SeqCst);
    let host = world.start(builder, knobs, "a0").await?;
    let hosts = [host];
    let client = world.client(&hosts)?;
    let told = async |state: State| {
        until(&format!("it tells {state}"), async || {
            let hosts = client.hosts();
            let shard = hosts.first().and_then(|host| host.shard.clone());
            Ok(shard.is_some_and(|shard| shard.state == state && shard.dc == "a"))
        })
        .await
    };
    told(State::Standby).await?;
    world.plan("a", 1).await?;
    told(State::Loading).await?;
    hosts[0].knobs.may_load.notify_one();
    told(State::Serving).await?;
    assert_eq!(client.get(words(3)).await?.values.len(), 3);
    Ok(())
}

/// V12. A client has 10 further requests a second for the last 10 s, and one for each 10 calls.
#[tokio::test(flavor = "multi_thread")]
async fn hedges_spend_from_a_budget() -> Result<()> {
    const CALLS: usize = 400;
    let (world, hosts) = World::with_servers(1, &["a", "b"]).await?;
    let client = world.client_with(&hosts, |client| client.prefer_dc("a"))?;
    all_are_known(&client, 2).await?;
    hosts[0].knobs.waits.send_replace(true);
    let calls = (0..CALLS).map(|_| client.get(words(1)).deadline(SOON).into_future());
    let calls = futures::future::join_all(calls);
    let released = async {
        until("the budget is empty", async || {
            Ok(client.figures().budget_empty > 0)
        })
        .await?;
        let hedges = client.figures().hedges;
        hosts[0].knobs.waits.send_replace(false);
        anyhow::Ok(hedges)
    };
    let (answers, hedges) = tokio::join!(calls, released);
    assert!(
        answers.iter().all(std::result::Result::is_ok),
        "{answers:?}"
    );
    let hedges = hedges?;
    assert!(
        (1..=160).contains(&hedges),
        "{hedges} hedges of {CALLS} calls"
    );
    Ok(())
}

/// A probe of a host that never answers takes a second.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_host_makes_a_client_forget_no_other_one() -> Result<()> {
    const LOOKS: usize = 300;
    let world = World::new().await?;
    let host = world.fixed("a", |server| server).await?;
    let _silent = world.network.listen("silent")?;
    let hosts = Hosts::list(["a", "silent"]);
    let builder = Client::<Words>::builder(hosts).dial(world.network.clone());
    let client = builder.refresh_every(Duration::from_millis(50)).build()?;
    until("the silent host is known as such", async || {
        Ok(client.hosts().iter().any(|host| host.fault.is_some()))
    })
    .await?;
    for _ in 0..LOOKS {
        let hosts = client.hosts();
        assert!(hosts.iter().any(|host| host.shard.is_some()), "{hosts:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(host);
    Ok(())
}
