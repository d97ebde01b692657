//! One look at the end of the landed feed, for all requests that wait for a change.

use std::sync::Arc;
use std::time::Duration;

use storage_sdk::feed::Cursor;
use storage_sdk::{Kind, Storage};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

/// How often the database is asked while somebody waits.
const EVERY: Duration = Duration::from_millis(200);

/// The end of the landed feed. The database is asked only while somebody waits.
#[derive(Debug, Clone)]
pub struct LandedEnd {
    end: Arc<watch::Sender<Cursor>>,
    /// The first one waits.
    begun: Arc<Notify>,
}

impl LandedEnd {
    /// Looks until the storage is closed.
    #[must_use]
    pub fn new(storage: &Storage) -> Self {
        let landed = Self {
            end: Arc::new(watch::Sender::new(Cursor::default())),
            begun: Arc::default(),
        };
        tokio::spawn(landed.clone().look(storage.clone()));
        landed
    }

    async fn look(self, storage: Storage) {
        loop {
            self.begun.notified().await;
            while self.end.receiver_count() > 0 {
                match storage.feed_end().await {
                    Ok(end) => drop(self.end.send_replace(end)),
                    Err(error) if error.kind() == Kind::Closed => return,
                    // Those who wait are told when their time is up.
                    Err(error) => tracing::debug!(%error, "the end of the feed can't be read now"),
                }
                sleep(EVERY).await;
            }
        }
    }

    /// Waits until a change has landed behind a place.
    pub(crate) async fn behind(&self, place: &Cursor) {
        let mut end = self.end.subscribe();
        self.begun.notify_one();
        let is_behind = |end: &Cursor| {
            end.positions()
                .any(|(partition, end)| Some(end) > place.of(partition))
        };
        // The sender lives as long as this does.
        let _ = end.wait_for(is_behind).await;
    }
}
