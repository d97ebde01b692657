//! Following the feed: the owners that events name are dropped from memory.

use std::sync::Arc;

use storage_sdk::feed::{Content, Event};
use storage_sdk::layer::{ColdTier, Follower};
use storage_sdk::{Error, Kind};
use tokio::time::sleep;

use super::Feed;
use super::load::Loader;
use crate::Moment;

/// Follows the feed until the task is aborted.
pub(super) async fn run(
    cold: ColdTier,
    mut follower: Follower,
    feed: Arc<Feed>,
    loader: Arc<Loader>,
) {
    let (mut begun, mut is_away) = (None, false);
    loop {
        match round(&mut follower, &mut begun, &feed, &loader).await {
            Ok(()) => {
                is_away = false;
                // The moment before the ends were asked for (V6).
                feed.fresh_at.send_replace(begun);
            }
            Err(error) if is_lost(&error) => {
                tracing::warn!(%error, "the feed does not go on: all owners are read again");
                begin_anew(&cold, &mut follower, &feed, &loader).await;
            }
            Err(error) => {
                if !std::mem::replace(&mut is_away, true) {
                    tracing::warn!(%error, "the feed can't be read: answers grow old");
                }
            }
        }
        sleep(feed.round_every).await;
    }
}

/// Takes all events up to the ends that the round has asked for. `begun` is the moment before that. A round that
/// an error interrupts goes on in the next call.
async fn round(
    follower: &mut Follower,
    begun: &mut Option<Moment>,
    feed: &Feed,
    loader: &Loader,
) -> Result<(), Error> {
    loop {
        let before = feed.clock.now();
        let step = follower.step().await?;
        if step.begins_round {
            *begun = Some(before);
        }
        step.events.iter().for_each(|event| heed(event, loader));
        // ORDER: after the owners are dropped (V7).
        feed.cursor.send_replace(follower.cursor().clone());
        if step.ends_round {
            return Ok(());
        }
    }
}

fn heed(event: &Event, loader: &Loader) {
    match &event.content {
        Content::Note(note) => loader.cache.drop_owner(&note.owner),
        Content::Resync { owner } => loader.cache.drop_owner(owner),
        // A gap, or an event of a newer release.
        _ => loader.cache.drop_all(),
    }
}

/// Whether events were missed, or are of another history (V8).
fn is_lost(error: &Error) -> bool {
    matches!(
        error.kind(),
        Kind::CursorTooOld | Kind::CursorForeign | Kind::Corrupt
    )
}

/// Drops all owners, and follows from the present end on. If that fails, the next round fails in the same way.
async fn begin_anew(cold: &ColdTier, follower: &mut Follower, feed: &Feed, loader: &Loader) {
    feed.fresh_at.send_replace(None);
    loader.cache.drop_all();
    match Follower::begin(cold, feed.partitions.clone()).await {
        Ok(begun) => {
            *follower = begun;
            // ORDER: after the new cursor is known (V5). Loads of the time between may lack events before it.
            loader.cache.drop_all();
            feed.cursor.send_replace(follower.cursor().clone());
        }
        Err(error) => tracing::warn!(%error, "the feed can't be followed anew yet"),
    }
}
