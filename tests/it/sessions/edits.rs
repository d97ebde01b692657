//! The edits, saves and ends of a session.

use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::FutureExt as _;
use futures::future::join_all;
use serde::{Deserialize, Serialize};
use storage_sdk::{
    Autosave, Durability, Kind, ModifyError, Outcome, Safety, SaveObject, SessionState,
};
use storage_tests::until;

use super::rig::{Hero, LONG, Rig, STRICT, hero, heroes, on_both, plain, stored};

on_both![
    a_session_of_nothing_leaves_the_owner_free,
    a_session_of_what_can_not_be_read_leaves_the_owner_free,
    a_session_of_what_a_newer_program_wrote_leaves_the_owner_free,
    the_last_edit_before_a_save_is_in_it_however_many_save_at_once,
    an_edit_after_the_end_began_is_refused,
    an_edit_that_says_no_changes_nothing,
    an_object_that_outgrows_its_limit_is_named_and_the_session_goes_on,
    a_session_saves_by_itself_and_only_if_something_was_edited,
    a_session_that_is_dropped_is_saved_and_ended,
    an_end_whose_caller_goes_away_goes_on,
    a_process_holds_no_more_sessions_than_it_may,
    fields_that_a_session_sets_and_removes_are_saved_with_its_end,
    a_save_can_wait_until_it_has_landed,
    a_storage_that_closes_saves_and_ends_all_sessions,
];

/// As the next release stores it.
#[derive(Debug, Serialize, Deserialize, SaveObject)]
#[save_object(logic_type = "hero", schema_version = 2)]
struct NewerHero {
    #[save_object(owner_id)]
    id: u64,
}

async fn a_session_of_nothing_leaves_the_owner_free(rig: &Rig) -> Result<()> {
    let one = rig.server("one").await?;
    assert!(heroes(&one, STRICT).start(7_u64).await?.is_none());
    let session = heroes(&one, STRICT).start_or(7_u64, || hero(7)).await?;
    assert_eq!(
        stored(&one, 7).await?,
        None,
        "it is saved with its first save"
    );
    session.end().await?;
    assert_eq!(stored(&one, 7).await?, Some(0));
    Ok(())
}

/// F4.
async fn a_session_of_what_can_not_be_read_leaves_the_owner_free(rig: &Rig) -> Result<()> {
    let one = rig.server("one").await?;
    let owner = one.world("game", "eu")?.bytes().owner("hero", 7_u64)?;
    let field = owner_field(&one, &owner).await?;
    owner.update([(field.as_str(), "not a hero")]).await?;
    assert_eq!(
        heroes(&one, STRICT).start(7_u64).await.unwrap_err().kind(),
        Kind::Corrupt
    );
    assert_eq!(owner.held_by().await?, None);
    owner.update([(field.as_str(), "still not")]).await?;
    Ok(())
}

/// An older server in the middle of a release. The newer ones take the owner at once.
async fn a_session_of_what_a_newer_program_wrote_leaves_the_owner_free(rig: &Rig) -> Result<()> {
    let (old, new) = (rig.server("old").await?, rig.server("new").await?);
    let owner = old.world("game", "eu")?.bytes().owner("hero", 7_u64)?;
    let world = new.world("game", "eu")?;
    world.objects().save(&NewerHero { id: 7 }).await?;
    let refused = heroes(&old, STRICT).start(7_u64).await.unwrap_err();
    assert_eq!(refused.kind(), Kind::TooNew, "{refused}");
    assert_eq!(owner.held_by().await?, None);
    let session = world.sessions::<NewerHero>(STRICT).start(7_u64).await?;
    session.context("the newer server reads it")?.end().await?;
    Ok(())
}

/// The field that holds an object.
async fn owner_field(
    storage: &storage_sdk::Storage,
    owner: &storage_sdk::ByteOwner,
) -> Result<String> {
    plain(storage).save(&hero(7)).await?;
    let record = owner.get_all().await?;
    Ok(record
        .iter()
        .map(|(field, _)| field.as_str().to_owned())
        .next()
        .unwrap_or_default())
}

/// F1 and F13.
async fn the_last_edit_before_a_save_is_in_it_however_many_save_at_once(rig: &Rig) -> Result<()> {
    let one = rig.server("one").await?;
    let session = heroes(&one, STRICT).start_or(7_u64, || hero(7)).await?;
    for round in 0..20 {
        let saves = (0..50).map(|number| {
            let (session, one) = (&session, &one);
            async move {
                let level = session.edit(|hero| {
                    hero.level = hero.level.max(round * 50 + number);
                    hero.level
                })?;
                session.save().await?;
                let found = stored(one, 7).await;
                anyhow::Ok((level, found))
            }
        });
        for saved in join_all(saves).await {
            let (level, found) = saved?;
            let found = found?.unwrap_or_default();
            assert!(found >= level, "{found} is stored after a save of {level}");
        }
    }
    assert_eq!(stored(&one, 7).await?, Some(999));
    session.end().await?;
    Ok(())
}

/// F17.
async fn an_edit_after_the_end_began_is_refused(rig: &Rig) -> Result<()> {
    let one = rig.server("one").await?;
    let session = heroes(&one, STRICT).start_or(7_u64, || hero(7)).await?;
    session.edit(|hero| hero.level = 1)?;
    session.end().await?;
    assert_eq!(session.state(), SessionState::Ended);
    assert_eq!(
        session.edit(|hero| hero.level = 2).unwrap_err().kind(),
        Kind::Closing
    );
    assert_eq!(session.save().await.unwrap_err().kind(), Kind::Closing);
    assert_eq!(session.end().await.unwrap_err().kind(), Kind::Closing);
    assert_eq!((stored(&one, 7).await?, session.get().level), (Some(1), 1));
    Ok(())
}

async fn an_edit_that_says_no_changes_nothing(rig: &Rig) -> Result<()> {
    let one = rig.server("one").await?;
    let session = heroes(&one, STRICT).start_or(7_u64, || hero(7)).await?;
    let refused = session.try_edit(|hero| {
        hero.level = 9;
        Err::<(), _>("too dear")
    });
    assert_eq!(refused, Err(ModifyError::Aborted("too dear")));
    assert_eq!(session.get().level, 0);
    let level = session.try_edit(|hero| {
        hero.level = 5;
        Ok::<_, String>(hero.level)
    });
    assert_eq!(level, Ok(5));
    session.end().await?;
    assert_eq!(stored(&one, 7).await?, Some(5));
    Ok(())
}

/// F19.
async fn an_object_that_outgrows_its_limit_is_named_and_the_session_goes_on(
    rig: &Rig,
) -> Result<()> {
    let one = rig.server("one").await?;
    let session = heroes(&one, STRICT).start_or(7_u64, || hero(7)).await?;
    session.save().await?;
    session.edit(|hero| (hero.level, hero.bag) = (1, "x".repeat(2 << 20)))?;
    for _ in 0..2 {
        let error = session.save().await.unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (Kind::Invalid, Outcome::NotApplied)
        );
        assert!(
            error.to_string().contains("limits.value_bytes_max"),
            "{error}"
        );
    }
    assert_eq!(
        (session.state(), stored(&one, 7).await?),
        (SessionState::Held, Some(0))
    );
    session.edit(|hero| hero.bag.clear())?;
    session.save().await?;
    assert_eq!(stored(&one, 7).await?, Some(1));
    session.end().await?;
    Ok(())
}

/// S17.
async fn a_session_saves_by_itself_and_only_if_something_was_edited(rig: &Rig) -> Result<()> {
    let one = rig.server("one").await?;
    let options = STRICT.autosave(Autosave::Every(Duration::from_millis(50)));
    let session = heroes(&one, options).start_or(7_u64, || hero(7)).await?;
    let first = session.saved();
    session.edit(|hero| hero.level = 1)?;
    until("it saved by itself", async || {
        Ok(stored(&one, 7).await? == Some(1) && session.saved() > first)
    })
    .await?;
    let saved = session.saved();
    session.edit(|hero| hero.level = 2)?;
    until("and again", async || {
        Ok(stored(&one, 7).await? == Some(2) && session.saved() > saved)
    })
    .await?;
    let saved = session.saved();
    assert_eq!(session.save().await?.changed(), 0, "nothing was edited");
    assert_eq!(session.saved(), saved);
    session.end().await?;
    Ok(())
}

async fn a_session_that_is_dropped_is_saved_and_ended(rig: &Rig) -> Result<()> {
    let one = rig.server("one").await?;
    let session = heroes(&one, STRICT).start_or(7_u64, || hero(7)).await?;
    session.edit(|hero| hero.level = 1)?;
    drop(session);
    let owner = one.world("game", "eu")?.bytes().owner("hero", 7_u64)?;
    until("it has ended", async || {
        Ok(owner.held_by().await?.is_none())
    })
    .await?;
    assert_eq!(stored(&one, 7).await?, Some(1));
    assert_eq!(one.stats().await?.sessions_dropped, 1);
    Ok(())
}

async fn an_end_whose_caller_goes_away_goes_on(rig: &Rig) -> Result<()> {
    let one = rig.server("one").await?;
    let session = heroes(&one, STRICT).start_or(7_u64, || hero(7)).await?;
    session.edit(|hero| hero.level = 1)?;
    // The end waits behind the save, unless the memory engine has already saved.
    let mut save = session.save().into_future();
    let saved = (&mut save).now_or_never();
    let mut end = Box::pin(session.end());
    let _ = (&mut end).now_or_never();
    drop(end);
    match saved {
        Some(saved) => saved?,
        None => save.await?,
    };
    let owner = one.world("game", "eu")?.bytes().owner("hero", 7_u64)?;
    until("it has ended", async || {
        Ok(owner.held_by().await?.is_none())
    })
    .await?;
    assert_eq!(stored(&one, 7).await?, Some(1));
    assert_eq!(one.stats().await?.sessions_dropped, 0);
    drop(session);
    Ok(())
}

async fn a_process_holds_no_more_sessions_than_it_may(rig: &Rig) -> Result<()> {
    let mut settings = rig.settings();
    settings.sessions.max = 2;
    let one = rig.open(settings).await?;
    let all = heroes(&one, STRICT);
    let (first, _second) = (
        all.start_or(1_u64, || hero(1)).await?,
        all.start_or(2_u64, || hero(2)).await?,
    );
    let error = all.start_or(3_u64, || hero(3)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Overloaded);
    assert!(error.to_string().contains("sessions.max"), "{error}");
    assert_eq!(one.stats().await?.sessions, 2);
    first.end().await?;
    all.start_or(3_u64, || hero(3)).await?.end().await?;
    Ok(())
}

async fn fields_that_a_session_sets_and_removes_are_saved_with_its_end(rig: &Rig) -> Result<()> {
    let one = rig.server("one").await?;
    let room = one.world("game", "eu")?.bytes().owner("room", 7_u64)?;
    room.update([("topic", "cats"), ("size", "4")]).await?;
    let session = room.session(STRICT).await?;
    assert_eq!(session.get("topic").as_deref(), Some(&b"cats"[..]));
    session.set("topic", "dogs")?;
    session.remove("size")?;
    session.set("new", "1")?;
    assert_eq!((session.get("size"), session.fields().len()), (None, 2));
    session.end().await?;
    let record = room.get_all().await?;
    let fields: Vec<_> = record
        .iter()
        .map(|(field, value)| (field.as_str(), value.as_ref()))
        .collect();
    assert_eq!(fields, [("new", &b"1"[..]), ("topic", b"dogs")]);
    Ok(())
}

async fn a_save_can_wait_until_it_has_landed(rig: &Rig) -> Result<()> {
    let one = rig.server("one").await?;
    let session = heroes(&one, STRICT).start_or(7_u64, || hero(7)).await?;
    let landed = Durability::Landed { timeout: LONG };
    let ack = session.save().durability(landed).await?;
    assert_eq!(
        (ack.durability(), session.landed()),
        (Safety::Landed, ack.version())
    );
    session.edit(|hero| hero.level = 1)?;
    let ack = session.save().await?;
    assert!(session.landed() < ack.version());
    assert_eq!(session.wait_landed(LONG).await?, ack.version());
    let loaded = one
        .tiers()
        .cold()
        .rows
        .load(std::slice::from_ref(owner(&one)?.owner()), 9)
        .await?;
    assert_eq!(
        loaded[0].rows.iter().map(|row| row.version).max(),
        Some(ack.version())
    );
    session.end().await?;
    Ok(())
}

fn owner(storage: &storage_sdk::Storage) -> Result<storage_sdk::ByteOwner> {
    Ok(storage.world("game", "eu")?.bytes().owner("hero", 7_u64)?)
}

/// S16.
async fn a_storage_that_closes_saves_and_ends_all_sessions(rig: &Rig) -> Result<()> {
    let (one, two) = (rig.server("one").await?, rig.server("two").await?);
    let all = heroes(&one, STRICT);
    let mut sessions = Vec::new();
    for id in 0..100 {
        let session = all.start_or(id, || hero(id)).await?;
        session.edit(|hero: &mut Hero| hero.level = id + 1)?;
        sessions.push(session);
    }
    let report = one.close(LONG).await;
    assert_eq!(
        (
            report.sessions.ended,
            report.sessions.unsaved.len(),
            report.under_way
        ),
        (100, 0, 0)
    );
    for id in 0..100 {
        assert_eq!(stored(&two, id).await?, Some(id + 1));
        assert_eq!(
            sessions[usize::try_from(id)?]
                .edit(|hero| hero.level = 0)
                .unwrap_err()
                .kind(),
            Kind::Closing
        );
    }
    assert_eq!(all.start(1_u64).await.unwrap_err().kind(), Kind::Closed);
    heroes(&two, STRICT)
        .start(1_u64)
        .await?
        .expect("it was saved")
        .end()
        .await?;
    Ok(())
}
