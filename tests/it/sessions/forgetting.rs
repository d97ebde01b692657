//! The hot tier forgets. The edits of live servers are not lost, and no owner has two holders (S6
//! to S8).

use std::time::Duration;

use anyhow::Result;
use futures::StreamExt as _;
use futures::stream;
use storage_sdk::{Kind, LossReason, OnConflict, Session, SessionState, Storage};
use storage_servers::{RedisOptions, RedisServer};
use storage_tests::{bounded, until};

use super::rig::{Hero, LONG, Rig, STRICT, hero, heroes, on_both, plain, stored};

on_both![
    after_a_wipe_no_edit_of_a_live_server_is_lost_and_no_owner_has_two_holders,
    a_save_waits_for_the_grace_and_says_so_if_it_takes_too_long,
    a_session_whose_owner_others_wrote_after_a_wipe_is_lost,
    an_end_after_a_wipe_saves_again_what_was_forgotten,
    a_session_of_an_owner_without_fields_goes_on_after_a_wipe;
    with_long_lease
];

async fn many(storage: &Storage, ids: std::ops::Range<u64>) -> Result<Vec<Session<Hero>>> {
    let all = heroes(storage, STRICT);
    let starts = stream::iter(ids).map(|id| {
        let all = all.clone();
        async move { all.start_or(id, move || hero(id)).await }
    });
    let sessions: Vec<_> = starts.buffer_unordered(32).collect().await;
    Ok(sessions.into_iter().collect::<storage_sdk::Result<_>>()?)
}

async fn after_a_wipe_no_edit_of_a_live_server_is_lost_and_no_owner_has_two_holders(
    rig: &Rig,
) -> Result<()> {
    let (one, two, new) = (
        rig.server("one").await?,
        rig.server("two").await?,
        rig.server("new").await?,
    );
    let mut sessions = many(&one, 0..500).await?;
    sessions.extend(many(&two, 500..1_000).await?);
    for session in &sessions {
        session.edit(|hero| hero.level = 1)?;
    }
    for saved in stream::iter(&sessions)
        .map(|session| session.save().into_future())
        .buffer_unordered(64)
        .collect::<Vec<_>>()
        .await
    {
        saved?;
    }
    for session in &sessions {
        session.edit(|hero| hero.level = 2)?;
    }
    rig.wipe().await?;
    // Other servers want the owners while they are claimed.
    let wants = STRICT.on_conflict(OnConflict::Fail);
    let newcomers: Vec<_> = [3_u64, 503]
        .into_iter()
        .map(|id| {
            let all = heroes(&new, wants);
            tokio::spawn(async move { all.start(id).await })
        })
        .collect();
    for session in &sessions {
        session.edit(|hero| hero.level = 3)?;
    }
    let saves = stream::iter(&sessions)
        .map(|session| session.save().deadline(LONG).into_future())
        .buffer_unordered(64);
    for saved in bounded("all are saved", async {
        Ok(saves.collect::<Vec<_>>().await)
    })
    .await?
    {
        saved?;
    }
    for newcomer in newcomers {
        assert_eq!(newcomer.await?.unwrap_err().kind(), Kind::Held);
    }
    for session in &sessions {
        until("it is held", async || {
            Ok(session.state() == SessionState::Held)
        })
        .await?;
        let hero = session.get().clone();
        assert_eq!((hero.level, stored(&new, hero.id).await?), (3, Some(3)));
    }
    assert_eq!(
        (
            one.stats().await?.sessions_lost,
            two.stats().await?.sessions_lost
        ),
        (0, 0)
    );
    let closed = (
        one.close(LONG).await.sessions,
        two.close(LONG).await.sessions,
    );
    assert_eq!((closed.0.ended, closed.1.ended), (500, 500));
    Ok(())
}

async fn a_save_waits_for_the_grace_and_says_so_if_it_takes_too_long(rig: &Rig) -> Result<()> {
    let one = rig.server("one").await?;
    let session = heroes(&one, STRICT).start_or(7_u64, || hero(7)).await?;
    session.save().await?;
    rig.wipe().await?;
    session.edit(|hero| hero.level = 1)?;
    until("the server notices", async || {
        Ok(session.state() == SessionState::Suspect)
    })
    .await?;
    let error = session
        .save()
        .deadline(Duration::from_millis(100))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Timeout);
    assert_eq!(session.state(), SessionState::Suspect);
    session.edit(|hero| hero.level = 2)?;
    until("it goes on by itself", async || {
        Ok(session.state() == SessionState::Held)
    })
    .await?;
    assert_eq!(stored(&one, 7).await?, Some(2), "with all that it holds");
    session.end().await?;
    Ok(())
}

/// Expects that a session is lost and leaves the owner free after another server wrote the owner
/// with level 99.
async fn loses(session: &Session<Hero>, other: &Storage) -> Result<()> {
    let id = session.get().id;
    session.edit(|hero| hero.level = 2)?;
    let late = bounded("it is decided", async {
        Ok(session.save().deadline(LONG).await)
    })
    .await?;
    assert_eq!(late.unwrap_err().kind(), Kind::Fenced);
    assert_eq!(session.state(), SessionState::Lost(LossReason::Changed));
    assert_eq!(stored(other, id).await?, Some(99));
    assert_eq!(
        other
            .world("game", "eu")?
            .bytes()
            .owner("hero", id)?
            .held_by()
            .await?,
        None
    );
    Ok(())
}

/// The session's state would overwrite the other server's writes, and the session has never seen
/// them.
async fn a_session_whose_owner_others_wrote_after_a_wipe_is_lost(rig: &Rig) -> Result<()> {
    let (one, two) = (rig.server("one").await?, rig.server("two").await?);
    for round in 0.. {
        let session = heroes(&one, STRICT).start_or(round, || hero(round)).await?;
        session.edit(|hero| hero.level = 1)?;
        session.save().await?;
        rig.wipe().await?;
        // If the session is claimed first, it is held again, and the test tries another one.
        let written = plain(&two)
            .save(&Hero {
                level: 99,
                ..hero(round)
            })
            .await;
        if written.is_err_and(|error| error.kind() == Kind::Held) {
            session.end().await?;
            continue;
        }
        return loses(&session, &two).await;
    }
    unreachable!()
}

/// The lost state of the session has a greater version than the other server's writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_owner_others_wrote_after_a_wipe_is_lost_although_the_clock_was_set_back()
-> Result<()> {
    let rig = Rig::on(
        RedisServer::start(RedisOptions {
            clock: true,
            ..RedisOptions::default()
        })
        .await?,
    )
    .await?;
    let Rig::Redis { server, .. } = &rig else {
        unreachable!()
    };
    let (one, two) = (rig.server("one").await?, rig.server("two").await?);
    let mut ahead = 7_200;
    for round in 0.. {
        server.skew(ahead)?;
        ahead -= 60;
        let session = heroes(&one, STRICT).start_or(round, || hero(round)).await?;
        session.edit(|hero| hero.level = 1)?;
        session.save().deadline(LONG).await?;
        server.skew(ahead - 3_600)?;
        rig.wipe().await?;
        // If the session is claimed first, it is held again, and the test tries another one.
        let written = plain(&two)
            .save(&Hero {
                level: 99,
                ..hero(round)
            })
            .deadline(LONG)
            .await;
        if written.is_err_and(|error| error.kind() == Kind::Held) {
            session.end().await?;
            continue;
        }
        return loses(&session, &two).await;
    }
    unreachable!()
}

async fn an_end_after_a_wipe_saves_again_what_was_forgotten(rig: &Rig) -> Result<()> {
    let one = rig.server("one").await?;
    let session = heroes(&one, STRICT).start_or(1_u64, || hero(1)).await?;
    session.edit(|hero| hero.level = 7)?;
    session.save().await?;
    rig.wipe().await?;
    // An end gives up after 5 s, and the grace may last longer on a busy machine.
    until("it has ended", async || match session.end().await {
        Err(error) if error.kind() == Kind::Timeout => Ok(false),
        ended => Ok(ended.map(|_| true)?),
    })
    .await?;
    assert_eq!(stored(&rig.server("two").await?, 1).await?, Some(7));
    Ok(())
}

async fn a_session_of_an_owner_without_fields_goes_on_after_a_wipe(rig: &Rig) -> Result<()> {
    let one = rig.server("one").await?;
    let room = one.world("game", "eu")?.bytes().owner("room", 1_u64)?;
    let session = room.session(STRICT).await?;
    rig.wipe().await?;
    until("it is suspect", async || {
        Ok(session.state() == SessionState::Suspect)
    })
    .await?;
    until("it goes on", async || {
        Ok(session.state() == SessionState::Held)
    })
    .await?;
    session.set("topic", "cats")?;
    session.end().await?;
    assert_eq!(
        room.get(["topic"])
            .await?
            .get("topic")
            .map(|topic| topic.to_vec()),
        Some(b"cats".to_vec())
    );
    Ok(())
}
