//! The actions of processes that hold owners in sessions and die at every point of them.

use std::pin::pin;

use anyhow::{Context as _, Result, ensure};
use futures::FutureExt as _;
use futures::future::{Either, LocalBoxFuture, select};
use storage_model::Partition;
use storage_sdk::OnConflict;

use super::play::Play;
use super::scenarios::{PLAIN, Scenario, landed};
use super::site::PARTITIONS;
use crate::stack::until;

/// Sessions of an owner that is cold, and of one without rows: they save, land and end.
pub const SESSIONS: Scenario = Scenario {
    name: "sessions",
    before: ready_and_cold,
    act: hold_and_end,
    points_min: 35,
    ..PLAIN
};
/// A session whose owner another one takes.
pub const SESSIONS_STOLEN: Scenario = Scenario {
    name: "sessions_stolen",
    before: ready,
    act: steal,
    points_min: 24,
    ..PLAIN
};
/// A Redis that lost all its data while a session was held, including the session's last save.
pub const SESSIONS_WIPED: Scenario = Scenario {
    name: "sessions_wiped",
    before: held_and_wiped,
    act: claim_and_end,
    points_min: 35,
    ..PLAIN
};

/// Owners have landed, and all partitions are in order. If a first beat meets a partition that is
/// not in order, the next beat comes only after a quarter of a lease.
fn ready<'a>(play: &'a Play<'a>) -> LocalBoxFuture<'a, Result<()>> {
    async move {
        landed(play).await?;
        prepare(play).await
    }
    .boxed_local()
}

async fn prepare(play: &Play<'_>) -> Result<()> {
    let partitions: Vec<Partition> = (0..PARTITIONS).map(Partition).collect();
    Ok(play.storage.tiers().prepare(&partitions).await?)
}

/// One owner is cold, one is hot.
fn ready_and_cold<'a>(play: &'a Play<'a>) -> LocalBoxFuture<'a, Result<()>> {
    async move {
        ready(play).await?;
        ensure!(play.evict("ann").await?, "an eviction failed");
        Ok(())
    }
    .boxed_local()
}

fn hold_and_end<'a>(play: &'a Play<'a>) -> LocalBoxFuture<'a, Result<()>> {
    async move {
        if let Some(mut ann) = play.hold("ann", OnConflict::Fail).await? {
            ann.set(play, &[("gold", "11")])?;
            ann.save(play).await?;
            ann.set(play, &[("gold", "12"), ("bag", "bow")])?;
            ann.save(play).await?;
            ann.set(play, &[("gold", "13")])?;
            play.land().await?;
            ann.end(play).await?;
        }
        if let Some(mut new) = play.hold("new", OnConflict::Fail).await? {
            new.set(play, &[("gold", "1"), ("bag", "axe")])?;
            new.save(play).await?;
            // Two steps, because no removal ends a session.
            new.remove(play, "bag")?;
            new.end(play).await?;
        }
        play.land().await
    }
    .boxed_local()
}

fn steal<'a>(play: &'a Play<'a>) -> LocalBoxFuture<'a, Result<()>> {
    async move {
        let Some(mut first) = play.hold("ann", OnConflict::Fail).await? else {
            return Ok(());
        };
        first.set(play, &[("gold", "11")])?;
        first.save(play).await?;
        if play.set("ann", &[("bag", "axe")]).await? {
            first.set(play, &[("gold", "12")])?;
            ensure!(
                !first.save(play).await?,
                "a plain write passed, and the session still saves"
            );
        }
        first.set(play, &[("gold", "13")])?;
        let Some(mut second) = play.hold("ann", OnConflict::Steal).await? else {
            return Ok(());
        };
        ensure!(
            !first.save(play).await?,
            "a session saves whose owner was taken"
        );
        second.set(play, &[("gold", "14")])?;
        second.save(play).await?;
        ensure!(
            !first.end(play).await?,
            "a session ends well whose owner was taken"
        );
        // No edit is left to save.
        second.end(play).await?;
        play.land().await
    }
    .boxed_local()
}

/// The last save was acknowledged. When Redis loses all its data, only the session still has it.
fn held_and_wiped<'a>(play: &'a Play<'a>) -> LocalBoxFuture<'a, Result<()>> {
    async move {
        ready(play).await?;
        let mut ann = play
            .hold("ann", OnConflict::Fail)
            .await?
            .context("no session")?;
        ann.set(play, &[("gold", "11")])?;
        ensure!(ann.save(play).await?, "a save failed");
        play.land().await?;
        let landed = play.history.known("ann");
        ann.set(play, &[("gold", "12"), ("bag", "bow")])?;
        ensure!(ann.save(play).await?, "a save failed");
        play.history.forgets("ann", landed, ann.whole()?);
        play.keep(ann);
        play.place.rewind(Vec::new()).await?;
        // Another scenario tries the deaths before a Redis without data is in order again. The
        // first call breaks with the connection.
        until("all partitions are adopted", async || {
            Ok(prepare(play).await.is_ok())
        })
        .await
    }
    .boxed_local()
}

fn claim_and_end<'a>(play: &'a Play<'a>) -> LocalBoxFuture<'a, Result<()>> {
    async move {
        // The grace ends after the session was claimed. If the session is lost before, nothing
        // waits for that.
        let grace = async {
            until("the session is claimed", async || {
                Ok(!play.place.look().await?.held().is_empty())
            })
            .await?;
            play.end_graces().await
        };
        match select(pin!(go_on(play)), pin!(grace)).await {
            Either::Left((done, _)) => done,
            Either::Right((ended, going_on)) => {
                ended?;
                going_on.await
            }
        }
    }
    .boxed_local()
}

async fn go_on(play: &Play<'_>) -> Result<()> {
    let mut ann = play.kept()?;
    ann.set(play, &[("gold", "13")])?;
    ann.save(play).await?;
    play.land().await?;
    play.read("ann").await?;
    ann.set(play, &[("bag", "lance")])?;
    ann.end(play).await?;
    play.land().await
}
