//! Two servers want one owner.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use storage_dirty::{OpenSession, Opened};
use storage_sdk::{Kind, LossReason, OnConflict, Otherwise, Outcome, SessionState};
use storage_tests::{bounded, until};

use super::rig::{Hero, LEASE, LONG, Rig, STRICT, hero, heroes, on_both, plain, stored};

on_both![
    a_former_holder_writes_nothing_and_hears_that_it_has_lost,
    a_plain_write_of_a_held_owner_fails_as_held,
    who_holds_an_owner_is_told,
    an_owner_is_taken_only_after_the_last_save_of_the_session_that_had_it,
    a_holder_that_is_asked_saves_and_hands_over,
    a_holder_that_does_not_hand_over_loses_its_owner,
    a_request_stands_for_as_long_as_its_server_waits,
    a_server_that_waits_in_vain_is_told_who_holds_the_owner,
    a_holder_that_is_gone_loses_its_owners_after_a_lease,
    a_session_that_nobody_has_is_ended,
];

/// F10: for example, the holder was paused for longer than its lease.
async fn a_former_holder_writes_nothing_and_hears_that_it_has_lost(rig: &Rig) -> Result<()> {
    let (one, two) = (rig.server("one").await?, rig.server("two").await?);
    let first = heroes(&one, STRICT).start_or(7_u64, || hero(7)).await?;
    first.edit(|hero| hero.level = 1)?;
    first.save().await?;
    first.edit(|hero| hero.level = 2)?;

    let steals = STRICT.on_conflict(OnConflict::Steal);
    let second = heroes(&two, steals).start(7_u64).await?.unwrap();
    assert_eq!(second.get().level, 1, "it begins with the saved state");
    second.edit(|hero| hero.level = 10)?;
    second.save().await?;

    let late = first.save().await.unwrap_err();
    assert_eq!(
        (late.kind(), late.outcome()),
        (Kind::Fenced, Outcome::NotApplied)
    );
    let lost = LossReason::Stolen {
        by: "two".to_owned(),
    };
    assert_eq!(
        bounded("the loss", async { Ok(first.lost().await) }).await?,
        lost
    );
    assert_eq!(first.state(), SessionState::Lost(lost));
    assert_eq!(
        first.edit(|hero| hero.level = 3).unwrap_err().kind(),
        Kind::Fenced
    );
    assert_eq!(first.end().await.unwrap_err().kind(), Kind::Fenced);
    assert_eq!(stored(&two, 7).await?, Some(10));
    assert_eq!(one.stats().await?.sessions_lost, 1);
    second.end().await?;
    assert_eq!(stored(&one, 7).await?, Some(10));
    Ok(())
}

/// F12: the holder would save over it.
async fn a_plain_write_of_a_held_owner_fails_as_held(rig: &Rig) -> Result<()> {
    let (one, two) = (rig.server("one").await?, rig.server("two").await?);
    let session = heroes(&one, STRICT).start_or(7_u64, || hero(7)).await?;
    session.save().await?;
    for server in [&one, &two] {
        let error = plain(server)
            .save(&Hero {
                level: 99,
                ..hero(7)
            })
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (Kind::Held, Outcome::NotApplied)
        );
        assert!(error.to_string().contains("one holds the owner"), "{error}");
    }
    session.edit(|hero| hero.level = 1)?;
    session.end().await?;
    assert_eq!(stored(&two, 7).await?, Some(1));
    plain(&two)
        .save(&Hero {
            level: 2,
            ..hero(7)
        })
        .await?;
    Ok(())
}

async fn who_holds_an_owner_is_told(rig: &Rig) -> Result<()> {
    let (one, two) = (rig.server("one").await?, rig.server("two").await?);
    let room = two.world("game", "eu")?.bytes().owner("hero", 7_u64)?;
    assert_eq!(room.held_by().await?, None);
    let session = heroes(&one, STRICT).start_or(7_u64, || hero(7)).await?;
    assert_eq!(room.held_by().await?.as_deref(), Some("one"));
    session.end().await?;
    assert_eq!(room.held_by().await?, None);
    Ok(())
}

/// F2.
async fn an_owner_is_taken_only_after_the_last_save_of_the_session_that_had_it(
    rig: &Rig,
) -> Result<()> {
    let (one, two) = (rig.server("one").await?, rig.server("two").await?);
    let waits = STRICT.on_conflict(OnConflict::Wait { at_most: LONG });
    for round in 1..=20 {
        let (from, to) = if round % 2 == 1 {
            (&one, &two)
        } else {
            (&two, &one)
        };
        let session = heroes(from, STRICT).start_or(7_u64, || hero(7)).await?;
        let taking = {
            let heroes = heroes(to, waits);
            tokio::spawn(async move { heroes.start(7_u64).await })
        };
        session.edit(|hero| hero.level = round)?;
        session.end().await?;
        let next = taking.await??.expect("it was saved");
        assert_eq!(next.get().level, round);
        next.end().await?;
    }
    Ok(())
}

/// S19: the edits before its end are there.
async fn a_holder_that_is_asked_saves_and_hands_over(rig: &Rig) -> Result<()> {
    let (one, two) = (rig.server("one").await?, rig.server("two").await?);
    let asks = STRICT.on_conflict(OnConflict::Ask {
        after: LONG,
        then: Otherwise::Fail,
    });
    let session = heroes(&one, STRICT).start_or(7_u64, || hero(7)).await?;
    session.edit(|hero| hero.level = 1)?;
    let taking = {
        let heroes = heroes(&two, asks);
        tokio::spawn(async move { heroes.start(7_u64).await })
    };
    assert_eq!(
        bounded("it is asked", async { Ok(session.asked().await) }).await?,
        "two"
    );
    assert_eq!(
        session.state(),
        SessionState::HandOverAsked {
            by: "two".to_owned()
        }
    );
    until("it saved by itself", async || {
        Ok(stored(&two, 7).await? == Some(1))
    })
    .await?;
    session.edit(|hero| hero.level = 2)?;
    session.end().await?;
    assert_eq!(taking.await??.expect("it was saved").get().level, 2);
    Ok(())
}

/// Otherwise the holder would save at each look for the rest of its session.
async fn a_request_stands_for_as_long_as_its_server_waits(rig: &Rig) -> Result<()> {
    let (one, two) = (rig.server("one").await?, rig.server("two").await?);
    let asks = |after| {
        STRICT.on_conflict(OnConflict::Ask {
            after,
            then: Otherwise::Fail,
        })
    };
    let session = heroes(&one, STRICT).start_or(7_u64, || hero(7)).await?;
    let waiting = {
        let heroes = heroes(&two, asks(LONG));
        tokio::spawn(async move { heroes.start(7_u64).await })
    };
    let asked = SessionState::HandOverAsked {
        by: "two".to_owned(),
    };
    until("it is asked", async || Ok(session.state() == asked)).await?;
    let begun = Instant::now();
    until(
        "it stands for longer than one that is not repeated",
        async || {
            ensure!(!waiting.is_finished(), "it waits no more");
            Ok(begun.elapsed() > LEASE * 2 && session.state() == asked)
        },
    )
    .await?;
    waiting.abort();
    until("the request is forgotten", async || {
        Ok(session.state() == SessionState::Held)
    })
    .await?;
    let failed = heroes(&two, asks(Duration::ZERO)).start(7_u64).await;
    assert_eq!(failed.unwrap_err().kind(), Kind::Held);
    session.end().await?;
    Ok(())
}

async fn a_holder_that_does_not_hand_over_loses_its_owner(rig: &Rig) -> Result<()> {
    let (one, two) = (rig.server("one").await?, rig.server("two").await?);
    let after = Duration::from_millis(300);
    let asks = STRICT.on_conflict(OnConflict::Ask {
        after,
        then: Otherwise::Steal,
    });
    let session = heroes(&one, STRICT).start_or(7_u64, || hero(7)).await?;
    session.save().await?;
    let taken = heroes(&two, asks)
        .start(7_u64)
        .await?
        .expect("it was saved");
    session.edit(|hero| hero.level = 9)?;
    assert_eq!(session.save().await.unwrap_err().kind(), Kind::Fenced);
    taken.end().await?;
    Ok(())
}

/// F3: it never loads the owner as if it were free.
async fn a_server_that_waits_in_vain_is_told_who_holds_the_owner(rig: &Rig) -> Result<()> {
    let (one, two) = (rig.server("one").await?, rig.server("two").await?);
    let _session = heroes(&one, STRICT).start_or(7_u64, || hero(7)).await?;
    let at_most = LEASE * 2;
    for on_conflict in [
        OnConflict::Fail,
        OnConflict::Wait { at_most },
        OnConflict::Ask {
            after: at_most,
            then: Otherwise::Fail,
        },
    ] {
        let error = heroes(&two, STRICT.on_conflict(on_conflict))
            .start(7_u64)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), Kind::Held);
        assert!(error.to_string().contains("one holds the owner"), "{error}");
    }
    Ok(())
}

/// F7: the name of the holder does not matter.
async fn a_holder_that_is_gone_loses_its_owners_after_a_lease(rig: &Rig) -> Result<()> {
    let one = rig.server("one").await?;
    let session = heroes(&one, STRICT).start_or(7_u64, || hero(7)).await?;
    session.edit(|hero| hero.level = 1)?;
    session.save().await?;
    // Like a killed process: it sends no beat any more, and no end.
    let (wakes, sleeps) = std::sync::mpsc::channel::<()>();
    one.tiers()
        .home()
        .handle()
        .spawn(async move { sleeps.recv().is_ok() });
    let two = rig.server("one").await?;
    let waits = STRICT.on_conflict(OnConflict::Wait { at_most: LONG });
    let taken = heroes(&two, waits)
        .start(7_u64)
        .await?
        .expect("it was saved");
    assert_eq!(taken.get().level, 1);
    taken.edit(|hero| hero.level = 2)?;
    taken.save().await?;
    session.edit(|hero| hero.level = 9)?;
    drop(wakes);
    assert_eq!(session.save().await.unwrap_err().kind(), Kind::Fenced);
    assert_eq!(stored(&two, 7).await?, Some(2));
    taken.end().await?;
    Ok(())
}

/// A late call opened it, or its end was forgotten.
async fn a_session_that_nobody_has_is_ended(rig: &Rig) -> Result<()> {
    let one = rig.server("one").await?;
    let world = one.world("game", "eu")?.bytes();
    let (mine, other) = (world.owner("hero", 7_u64)?, world.owner("hero", 8_u64)?);
    let session = heroes(&one, STRICT).start_or(7_u64, || hero(7)).await?;
    let hot = one.tiers().hot();
    let holder = hot
        .sessions
        .sessions_of(std::slice::from_ref(mine.owner()))
        .await
        .remove(0)?
        .expect("it is held")
        .holder;
    let mut late = OpenSession {
        owner: other.owner().clone(),
        token: one.next_id(),
        holder,
        name: "one".to_owned(),
        takes: None,
        deadline: hot.tier.time().await?.plus(LONG),
        load: None,
    };
    if let Opened::Load(_) = hot.sessions.open_session(&late).await? {
        late.load = one
            .tiers()
            .load(other.owner())
            .await?
            .map(|full| full.load.clone());
    }
    assert!(matches!(
        hot.sessions.open_session(&late).await?,
        Opened::Open { .. }
    ));
    until("the sweep has ended it", async || {
        Ok(other.held_by().await?.is_none())
    })
    .await?;
    assert_eq!(
        mine.held_by().await?.as_deref(),
        Some("one"),
        "and no other one"
    );
    session.end().await?;
    Ok(())
}
