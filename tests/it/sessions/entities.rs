//! Many sessions, opened on demand.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures::future::join_all;
use storage_sdk::{Entities, EntityOptions, Kind, OnConflict, Otherwise, Storage};
use storage_tests::until;

use super::rig::{Hero, LONG, Rig, STRICT, hero, heroes, on_both, stored};

on_both![
    callers_who_ask_at_once_get_one_session,
    a_session_that_nobody_uses_is_ended,
    the_session_that_was_used_least_lately_makes_room_for_the_next,
    an_owner_that_another_server_asks_for_is_handed_over,
    a_close_says_what_was_saved,
];

fn entities(storage: &Storage, options: EntityOptions) -> Entities<Hero> {
    storage.world("game", "eu").unwrap().entities(options)
}

fn options() -> EntityOptions {
    EntityOptions::default().session(STRICT)
}

async fn callers_who_ask_at_once_get_one_session(rig: &Rig) -> Result<()> {
    let one = rig.server("one").await?;
    let all = entities(&one, options());
    assert!(all.get(7_u64).await?.is_none());
    let asked = join_all((0..50).map(|_| all.get_or(7_u64, || hero(7)))).await;
    let sessions = asked.into_iter().collect::<storage_sdk::Result<Vec<_>>>()?;
    assert!(
        sessions
            .iter()
            .all(|session| Arc::ptr_eq(session, &sessions[0]))
    );
    for session in &sessions {
        session.edit(|hero| hero.level += 1)?;
    }
    assert_eq!(all.len(), 1);
    assert_eq!(all.close(LONG).await.ended, 1);
    assert_eq!(stored(&one, 7).await?, Some(50));
    assert_eq!(all.get(7_u64).await.unwrap_err().kind(), Kind::Closed);
    Ok(())
}

async fn a_session_that_nobody_uses_is_ended(rig: &Rig) -> Result<()> {
    let one = rig.server("one").await?;
    let all = entities(&one, options().idle(Duration::from_millis(50)));
    let used = all.get_or(1_u64, || hero(1)).await?;
    all.get_or(2_u64, || hero(2))
        .await?
        .edit(|hero| hero.level = 5)?;
    until("one is left", async || Ok(all.len() == 1)).await?;
    until("the other is saved", async || {
        Ok(stored(&one, 2).await? == Some(5))
    })
    .await?;
    used.edit(|hero| hero.level = 1)?;
    Ok(())
}

async fn the_session_that_was_used_least_lately_makes_room_for_the_next(rig: &Rig) -> Result<()> {
    let one = rig.server("one").await?;
    let all = entities(&one, options().max(2));
    let first = all.get_or(1_u64, || hero(1)).await?;
    all.get_or(2_u64, || hero(2)).await?;
    let third = all.get_or(3_u64, || hero(3)).await?;
    assert_eq!((all.len(), stored(&one, 2).await?), (2, Some(0)));
    let error = all.get_or(4_u64, || hero(4)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Overloaded, "the others are in use");
    drop((first, third));
    all.get_or(4_u64, || hero(4)).await?;
    Ok(())
}

async fn an_owner_that_another_server_asks_for_is_handed_over(rig: &Rig) -> Result<()> {
    let (one, two) = (rig.server("one").await?, rig.server("two").await?);
    let all = entities(&one, options());
    all.get_or(7_u64, || hero(7))
        .await?
        .edit(|hero| hero.level = 3)?;
    let asks = STRICT.on_conflict(OnConflict::Ask {
        after: LONG,
        then: Otherwise::Fail,
    });
    let taken = heroes(&two, asks)
        .start(7_u64)
        .await?
        .expect("it was saved");
    assert_eq!(taken.get().level, 3);
    let error = all.get(7_u64).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Held);
    taken.end().await?;
    assert_eq!(all.get(7_u64).await?.expect("it is free").get().level, 3);
    Ok(())
}

async fn a_close_says_what_was_saved(rig: &Rig) -> Result<()> {
    let (one, two) = (rig.server("one").await?, rig.server("two").await?);
    let all = entities(&one, options());
    for id in 0..20 {
        all.get_or(id, move || hero(id))
            .await?
            .edit(|hero| hero.level = 1)?;
    }
    let steals = STRICT.on_conflict(OnConflict::Steal);
    let _stolen = heroes(&two, steals).start_or(3_u64, || hero(3)).await?;
    let closed = all.close(LONG).await;
    assert_eq!((closed.ended, closed.unsaved.len()), (19, 1));
    assert_eq!(closed.unsaved[0].id(), "3");
    Ok(())
}
