//! One claim after the other, each from its load to its end.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use storage_sdk::Ids;
use storage_shard_read::{Schema, ShardRange, State};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::claims::{Claim, Claimer};
use crate::figures::Figures;
use crate::server::{Ended, OnLost};
use crate::tenure::Tenure;
use crate::{LoadError, Shard};

/// The pause after a failed load, and the longest one.
const LOAD_PAUSE: Duration = Duration::from_secs(1);
const LOAD_PAUSE_MAX: Duration = Duration::from_secs(30);
/// A server that can't load its range for so long leaves it to another one, and claims none for a while.
const LOAD_MAX: Duration = Duration::from_secs(300);
const REST: Duration = Duration::from_secs(60);
/// So many claims lost to the own name within this time mean that two servers have one name.
const NAMESAKES_MAX: usize = 3;
const NAMESAKES_WITHIN: Duration = Duration::from_secs(60);

/// How a claim ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The database says so.
    Lost,
    /// The range could not be loaded.
    Unloaded,
    /// The server is to end.
    Closed,
}

/// What keeps the range of a server.
pub(crate) struct Keeper<S: Schema> {
    pub(crate) shard: Arc<dyn Shard<S>>,
    pub(crate) claimer: Claimer,
    pub(crate) tenure: watch::Sender<Tenure>,
    /// True, or without a sender: the server is to end.
    pub(crate) closing: watch::Receiver<bool>,
    pub(crate) on_lost: OnLost,
    /// How long a server answers after it has left its range.
    pub(crate) drain: Duration,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) figures: Arc<Figures>,
}

impl<S: Schema> Keeper<S> {
    /// Claims ranges until the server is to end.
    pub(crate) async fn run(mut self) -> Ended {
        let (mut number, mut namesakes) = (0, VecDeque::new());
        loop {
            let claim = tokio::select! {
                claim = self.claimer.claim(&*self.ids) => claim,
                () = closed(self.closing.clone()) => return Ended::Closed,
            };
            self.figures.claims.add(1);
            tracing::info!(schema = S::NAME, range = %claim.range, plan = claim.plan, "a range is claimed");
            number += 1;
            let end = self.hold(&claim, number).await;
            tracing::info!(schema = S::NAME, range = %claim.range, ?end, "a range has ended");
            match end {
                End::Closed => return Ended::Closed,
                End::Unloaded => tokio::select! {
                    () = sleep(REST) => {}
                    () = closed(self.closing.clone()) => return Ended::Closed,
                },
                End::Lost => {
                    self.figures.claims_lost.add(1);
                    if self.is_namesake(&claim, &mut namesakes).await {
                        return Ended::NameTaken;
                    }
                    if self.on_lost == OnLost::End {
                        return Ended::Lost;
                    }
                }
            }
        }
    }

    /// Loads a range and answers for it, until the claim ends. Then leaves the range in order.
    async fn hold(&self, claim: &Claim, number: u64) -> End {
        let tenure = Tenure::loading(number, self.claimer.dc(), claim.range, claim.plan);
        self.tenure.send_replace(tenure.clone());
        let end = tokio::select! {
            () = self.claimer.until_lost(claim) => End::Lost,
            () = self.load_and_serve(&tenure, claim.range) => End::Unloaded,
            () = closed(self.closing.clone()) => End::Closed,
        };
        // ORDER: before this server stops to answer, so that another one loads the range meanwhile.
        if end != End::Lost {
            self.claimer.release(claim).await;
        }
        self.leave(tenure, claim.range).await;
        end
    }

    /// Loads a range, and lets it be asked. Ends only if the load fails for too long.
    async fn load_and_serve(&self, tenure: &Tenure, range: ShardRange) {
        let (begun, mut pause) = (Instant::now(), LOAD_PAUSE);
        while let Err(error) = self.load(range).await {
            self.figures.loads_failed.add(1);
            tracing::warn!(schema = S::NAME, %range, %error, "the range can't be loaded");
            if begun.elapsed() >= LOAD_MAX {
                return;
            }
            sleep(pause).await;
            pause = (pause * 2).min(LOAD_PAUSE_MAX);
        }
        self.tenure
            .send_replace(tenure.clone().turned(State::Serving));
        std::future::pending().await
    }

    async fn load(&self, range: ShardRange) -> Result<(), LoadError> {
        let loading = AssertUnwindSafe(self.shard.load(range)).catch_unwind();
        loading
            .await
            .unwrap_or_else(|_| Err(LoadError::new("the service panicked")))
    }

    /// Answers for a while longer, because clients learn of the end by a reply. Then ends the range.
    async fn leave(&self, tenure: Tenure, range: ShardRange) {
        let was_serving = self.tenure.borrow().shard.state.answers();
        if was_serving {
            self.tenure
                .send_replace(tenure.clone().turned(State::Draining));
            sleep(self.drain).await;
        }
        self.tenure
            .send_replace(Tenure::standby(tenure.number, self.claimer.dc()));
        tenure.end_calls().await;
        let unloading = AssertUnwindSafe(self.shard.unload(range)).catch_unwind();
        if unloading.await.is_err() {
            tracing::error!(schema = S::NAME, %range, "the service panicked as it unloaded a range");
        }
    }

    /// Whether another server has the name of this one: they take the claim from each other for ever.
    async fn is_namesake(&self, claim: &Claim, namesakes: &mut VecDeque<Instant>) -> bool {
        if !self.claimer.is_taken_by_name(claim).await {
            return false;
        }
        let now = Instant::now();
        namesakes.push_back(now);
        namesakes.retain(|at| now.saturating_duration_since(*at) < NAMESAKES_WITHIN);
        namesakes.len() >= NAMESAKES_MAX
    }
}

/// Waits until the server is to end.
async fn closed(mut closing: watch::Receiver<bool>) {
    // Without a sender the server was dropped.
    let _ = closing.wait_for(|closing| *closing).await;
}
