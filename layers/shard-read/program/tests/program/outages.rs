//! Servers that are killed, stopped and ended under load.

use std::time::Duration;

use anyhow::Result;
use rustix::process::Signal;
use storage_sdk::layer::claims::ShardRow;
use storage_tests::{Weather, until};

use crate::load::{Load, PLAYERS, player};
use crate::place::{Place, Process, client};

/// Two data centres of two ranges each.
async fn four_servers(place: &Place, args: &[&str]) -> Result<Vec<Process>> {
    place.write(0..PLAYERS).await?;
    let mut servers = Vec::new();
    for dc in ["a", "b"] {
        place.ok(&["plan", "--dc", dc, "--shards", "2"]).await?;
        for _ in 0..2 {
            servers.push(place.serve(dc, args).await?);
        }
    }
    place.served().await?;
    Ok(servers)
}

pub(crate) async fn no_call_fails_while_a_server_is_killed_and_its_successor_serves(
    place: Place,
) -> Result<()> {
    let mut servers = four_servers(&place, &[]).await?;
    servers.push(place.serve("a", &[]).await?);
    let load = Load::start(&client(&servers)?);
    load.goes_on().await?;
    servers[0].signal(Signal::KILL)?;
    load.goes_on().await?;
    let text = place.served().await?;
    assert!(text.contains(&servers[4].address), "{text}");
    load.end().await
}

pub(crate) async fn no_call_fails_while_a_server_is_stopped_and_goes_on_after_its_takeover(
    place: Place,
) -> Result<()> {
    let mut servers = four_servers(&place, &[]).await?;
    servers.push(place.serve("a", &[]).await?);
    let load = Load::start(&client(&servers)?);
    load.goes_on().await?;
    servers[0].signal(Signal::STOP)?;
    load.goes_on().await?;
    let text = place.served().await?;
    assert!(text.contains(&servers[4].address), "{text}");
    servers[0].signal(Signal::CONT)?;
    load.goes_on().await?;
    servers[4].signal(Signal::KILL)?;
    let text = place.served().await?;
    assert!(
        text.contains(&servers[0].address),
        "it claims again: {text}"
    );
    load.end().await
}

pub(crate) async fn no_call_fails_while_servers_end_one_after_the_other(
    place: Place,
) -> Result<()> {
    let mut servers = four_servers(&place, &[]).await?;
    let load = Load::start(&client(&servers)?);
    for server in &mut servers[..2] {
        load.goes_on().await?;
        server.signal(Signal::TERM)?;
        assert_eq!(server.code().await?, Some(0));
    }
    let text = place.ok(&["status", "--dc", "b"]).await?;
    assert_eq!(text.matches("serving").count(), 2, "{text}");
    load.end().await
}

/// X10.
pub(crate) async fn calls_succeed_again_under_the_same_load_after_all_servers_died_and_started_cold(
    place: Place,
) -> Result<()> {
    let servers = four_servers(&place, &[]).await?;
    let load = Load::through_outages(&client(&servers)?);
    load.goes_on().await?;
    for server in &servers {
        server.signal(Signal::KILL)?;
    }
    let mut again = Vec::new();
    for (dc, mut dead) in ["a", "a", "b", "b"].into_iter().zip(servers) {
        assert_eq!(dead.code().await?, None, "a signal ended it");
        again.push(place.serve(dc, &["--listen", &dead.address]).await?);
    }
    place.served().await?;
    load.end().await
}

/// X1. The owners are in memory, so no call needs the database.
#[tokio::test(flavor = "multi_thread")]
async fn no_call_fails_and_no_claim_changes_while_the_database_is_away() -> Result<()> {
    // Long enough for a holder on a busy machine to come back before another server takes its claim.
    const PERIOD: Duration = Duration::from_millis(500);
    const SLOW: [&str; 2] = ["--period", "500ms"];
    let place = Place::on_servers().await?;
    let mut servers = four_servers(&place, &SLOW).await?;
    for dc in [&servers[..2], &servers[2..4]] {
        let players = (0..PLAYERS).map(|id| player(&id.to_string()));
        let players = players.collect::<Result<Vec<_>>>()?;
        client(dc)?
            .get(players)
            .deadline(Duration::from_secs(20))
            .await?;
    }
    servers.push(place.serve("a", &SLOW).await?);
    let load = Load::start(&client(&servers)?);
    load.goes_on().await?;
    let holders = |rows: Vec<ShardRow>| {
        let rows = rows.into_iter();
        rows.map(|row| (row.key, row.holder, row.transitions))
            .collect::<Vec<_>>()
    };
    let before = holders(place.claims().await?);
    let link = place.link()?;
    for weather in [Weather::Fair, Weather::Down, Weather::Silent] {
        link.cut();
        if weather != Weather::Fair {
            link.set(weather);
            until("no claim was renewed for ten periods", async || {
                let rows = place.claims().await?;
                Ok(rows.iter().all(|row| row.renewed_ago > 10 * PERIOD))
            })
            .await?;
            load.goes_on().await?;
            link.set(Weather::Fair);
        }
        until("all claims are renewed", async || {
            let rows = place.claims().await?;
            Ok(rows.iter().all(|row| row.renewed_ago < 5 * PERIOD))
        })
        .await?;
        assert_eq!(holders(place.claims().await?), before, "{weather:?}");
    }
    load.end().await
}
