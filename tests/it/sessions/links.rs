//! Sessions over bad links between a server and its Redis or its database.

use std::time::Duration;

use anyhow::Result;
use storage_sdk::{Kind, OnConflict, SessionState, Storage};
use storage_tests::proxy::{Link, Weather};
use storage_tests::{World, bounded, stack, until};

use super::rig::{LEASE, LONG, Rig, STRICT, hero, heroes, stored};

/// A server whose Redis lies behind a link.
async fn behind_a_link(rig: &Rig) -> Result<(Link, Storage)> {
    let mut settings = rig.settings();
    let port = port_of(&settings.redis.url.to_string());
    let link = Link::start(port).await?;
    settings.redis.url = format!("redis://127.0.0.1:{}", link.port()).parse()?;
    settings.sessions.name = Some("linked".to_owned());
    Ok((link, Storage::open(settings).await?))
}

fn port_of(url: &str) -> u16 {
    let digits = url.rsplit(':').next().unwrap_or_default();
    digits
        .chars()
        .take_while(char::is_ascii_digit)
        .collect::<String>()
        .parse()
        .unwrap()
}

/// F1: the reply is late, not lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_save_whose_reply_is_late_never_comes_after_the_last_one() -> Result<()> {
    let rig = Rig::redis().await?;
    let (link, one) = behind_a_link(&rig).await?;
    let session = heroes(&one, STRICT).start_or(7_u64, || hero(7)).await?;
    link.set(Weather::LateReplies(Duration::from_millis(200)));
    session.edit(|hero| hero.level = 1)?;
    let two = rig.server("two").await?;
    let first = tokio::spawn(session.save().into_future());
    until(
        "it is carried out, and its reply is on its way",
        async || Ok(stored(&two, 7).await? == Some(1)),
    )
    .await?;
    session.edit(|hero| hero.level = 2)?;
    session.end().await?;
    link.set(Weather::Fair);
    first.await??;
    assert_eq!(stored(&two, 7).await?, Some(2));
    Ok(())
}

/// Each partition must know the server, and the first beats are lost. Later beats come only every
/// few minutes.
#[tokio::test(flavor = "multi_thread")]
async fn a_first_session_whose_beats_were_lost_starts_long_before_the_next_part_of_the_lease()
-> Result<()> {
    let mut rig = Rig::redis().await?;
    let Rig::Redis { settings, .. } = &mut rig else {
        unreachable!()
    };
    (settings.sessions.lease, settings.hot.operation_deadline) =
        (Duration::from_mins(10), Duration::from_millis(500));
    let (link, one) = behind_a_link(&rig).await?;
    link.set(Weather::Down);
    let short = STRICT.within(Duration::from_secs(1));
    let error = heroes(&one, short)
        .start_or(7_u64, || hero(7))
        .await
        .unwrap_err();
    assert!(
        [Kind::HotUnavailable, Kind::Timeout].contains(&error.kind()),
        "{error}"
    );
    link.set(Weather::Fair);
    heroes(&one, STRICT)
        .start_or(7_u64, || hero(7))
        .await?
        .end()
        .await?;
    Ok(())
}

/// F9: no other server wants the owners.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_outlives_cuts_of_half_a_lease_and_of_several() -> Result<()> {
    let rig = Rig::redis().await?;
    let (link, one) = behind_a_link(&rig).await?;
    let other = rig.server("other").await?;
    // The other server watches the holders and reports those that are gone.
    let _its = heroes(&other, STRICT).start_or(8_u64, || hero(8)).await?;
    let session = heroes(&one, STRICT).start_or(7_u64, || hero(7)).await?;
    session.save().await?;
    for (round, cut) in [(1, LEASE / 2), (2, LEASE * 3)] {
        link.set(Weather::Down);
        session.edit(|hero| hero.level = round)?;
        tokio::time::sleep(cut).await;
        link.set(Weather::Fair);
        bounded("it is saved", async {
            Ok(session.save().deadline(LONG).await?)
        })
        .await?;
        assert_eq!(stored(&other, 7).await?, Some(round));
        until("it is held", async || {
            Ok(session.state() == SessionState::Held)
        })
        .await?;
    }
    session.end().await?;
    assert_eq!(one.stats().await?.sessions_lost, 0);
    Ok(())
}

/// F10, and F9 with a server that wants the owner.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_cut_off_loses_its_owner_to_one_that_waits() -> Result<()> {
    let rig = Rig::redis().await?;
    let (link, one) = behind_a_link(&rig).await?;
    let two = rig.server("two").await?;
    let session = heroes(&one, STRICT).start_or(7_u64, || hero(7)).await?;
    session.edit(|hero| hero.level = 1)?;
    session.save().await?;
    link.set(Weather::Silent);
    session.edit(|hero| hero.level = 2)?;
    // The save asks until its deadline. By then the other server has had the owner for long.
    let late = tokio::spawn(session.save().deadline(LEASE * 8).into_future());
    let waits = STRICT.on_conflict(OnConflict::Wait { at_most: LONG });
    let taken = heroes(&two, waits)
        .start(7_u64)
        .await?
        .expect("it was saved");
    assert_eq!(taken.get().level, 1);
    taken.edit(|hero| hero.level = 10)?;
    taken.save().await?;
    link.set(Weather::Fair);
    assert_eq!(late.await?.unwrap_err().kind(), Kind::Fenced);
    assert_eq!(stored(&two, 7).await?, Some(10));
    taken.end().await?;
    Ok(())
}

/// F8: its load needs the database.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_whose_load_fails_leaves_the_owner_free() -> Result<()> {
    let rig = Rig::redis().await?;
    let two = rig.server("two").await?;
    let Rig::Redis {
        server,
        database,
        settings: own,
    } = &rig
    else {
        unreachable!()
    };
    let port = stack::mariadb().await?.port();
    let link = Link::start(port).await?;
    let moved = database.replace(&port.to_string(), &link.port().to_string());
    let mut settings = World::with_urls(&server.url(), &moved, &own.redis.prefix)?.settings;
    settings.hot.operation_deadline = Duration::from_millis(500);
    let one = Storage::open(settings).await?;
    link.set(Weather::Down);
    let short = STRICT.within(Duration::from_secs(1));
    for id in [7_u64, 8] {
        let error = heroes(&one, short)
            .start_or(id, || hero(id))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), Kind::ColdUnavailable, "{error}");
        // By then the partitions are prepared, so the next start gets further.
        heroes(&two, STRICT)
            .start_or(id, || hero(id))
            .await?
            .end()
            .await?;
    }
    Ok(())
}

/// F5 and F25: a close ends at its deadline even if every call hangs. It names the sessions that it
/// could not save.
#[tokio::test(flavor = "multi_thread")]
async fn a_close_whose_redis_hangs_names_what_was_not_saved() -> Result<()> {
    let rig = Rig::redis().await?;
    let (link, one) = behind_a_link(&rig).await?;
    let all = heroes(&one, STRICT);
    let mut sessions = Vec::new();
    for id in 0..100 {
        let session = all.start_or(id, || hero(id)).await?;
        session.save().await?;
        sessions.push(session);
    }
    for session in &sessions[..60] {
        session.edit(|hero| hero.level = 1)?;
    }
    link.set(Weather::Silent);
    let report = one.close(Duration::from_millis(500)).await;
    assert_eq!(
        (
            report.sessions.ended,
            report.sessions.left,
            report.sessions.unsaved.len()
        ),
        (0, 40, 60)
    );
    let mut named: Vec<u64> = report
        .sessions
        .unsaved
        .iter()
        .map(|owner| owner.id().parse().unwrap())
        .collect();
    named.sort_unstable();
    assert_eq!(named, (0..60).collect::<Vec<_>>());
    Ok(())
}
