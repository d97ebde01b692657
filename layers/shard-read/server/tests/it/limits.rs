//! Limits of a server, and requests that no client of ours sends.

use std::time::Duration;

use anyhow::Result;
use shard_read_server::moment::{BootClock, MomentClock as _};
use storage_shard_read::{Kind, Mode};

use crate::words::words;
use crate::world::{SOON, World, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_refuses_over_all_connections_and_recovers() -> Result<()> {
    let world = World::new().await?;
    let host = world
        .fixed("a", |builder| builder.keys_under_way(10))
        .await?;
    let hosts = [host];
    host_waits(&hosts[0], true);
    let [full, other] =
        [(); 2].map(|()| world.client_with(&hosts, |client| client.mode(Mode::One)));
    let (full, other) = (full?, other?);
    let waiting = tokio::spawn(async move {
        full.get(words(10))
            .deadline(SOON)
            .await
            .map(|found| found.values.len())
    });
    until("it is full", async || {
        Ok(hosts[0].server.figures().calls == 1)
    })
    .await?;
    let error = other
        .get(["word".to_owned()])
        .deadline(Duration::from_millis(200))
        .await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), Kind::Unanswered);
    assert!(
        error.to_string().contains("the limit of the server"),
        "{error}"
    );
    assert!(hosts[0].server.figures().refused > 0);
    host_waits(&hosts[0], false);
    assert_eq!(waiting.await??, 10);
    assert_eq!(
        other
            .get(["word".to_owned()])
            .deadline(SOON)
            .await?
            .values
            .len(),
        1
    );
    Ok(())
}

fn host_waits(host: &crate::world::Host, waits: bool) {
    host.knobs.waits.send_replace(waits);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_keys_go_in_several_requests() -> Result<()> {
    let world = World::new().await?;
    let hosts = [world.fixed("a", |builder| builder).await?];
    let client = world.client(&hosts)?;
    assert_eq!(
        client.get(words(2_500)).deadline(SOON).await?.values.len(),
        2_500
    );
    assert_eq!(hosts[0].server.figures().calls, 3);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_more_keys_than_a_server_takes_says_so() -> Result<()> {
    let world = World::new().await?;
    let hosts = [world.fixed("a", |builder| builder.keys_per_call(5)).await?];
    let client = world.client(&hosts)?;
    let error = client.get(words(6)).deadline(SOON).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid);
    assert!(
        error.to_string().contains("6 keys; the limit is 5"),
        "{error}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_times_are_times_like_others() -> Result<()> {
    let world = World::new().await?;
    let hosts = [world
        .fixed("a", |builder| builder.call_max(Duration::MAX))
        .await?];
    let now = BootClock.now();
    hosts[0].knobs.fresh_at.send_replace(Some(now));
    let client = world.client_with(&hosts, |client| client.refresh_every(Duration::MAX))?;
    let call = client.get(words(3)).deadline(Duration::MAX);
    assert_eq!(call.max_age(Duration::MAX).await?.values.len(), 3);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_asks_for_its_token() -> Result<()> {
    let world = World::new().await?;
    let hosts = [world.fixed("a", |builder| builder.token("secret")).await?];
    for (token, reason) in [
        (None, "has no token"),
        (Some("other"), "not that of the server"),
    ] {
        let client = world.client_with(&hosts, |client| match token {
            None => client,
            Some(token) => client.token(token),
        })?;
        let error = client
            .get(words(1))
            .deadline(Duration::from_millis(500))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), Kind::Denied);
        assert!(!error.to_string().contains("secret"), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
    let client = world.client_with(&hosts, |client| client.token("secret"))?;
    assert_eq!(client.get(words(1)).deadline(SOON).await?.values.len(), 1);
    Ok(())
}
