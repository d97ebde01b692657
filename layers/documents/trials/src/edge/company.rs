//! All honest clients of a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::Result;
use storage_coalesce::locked;
use storage_tests::torture::oracle::Flaw;
use tokio::task::JoinSet;

use super::args::Args;
use super::gate::Gate;
use super::honest::{Fared, Honest};
use super::listener::{Heard, Hearing, follow};

/// The honest clients that write.
pub const WRITERS: u32 = 6;
/// The honest clients that follow the live feed of all that is written, and one that is told nothing. So
/// only its request keeps its connection.
const LISTENERS: usize = 3;
const LOUD: &str = "feed?prefix=honest/";
const QUIET: &str = "feed?prefix=quiet/";
/// One write can have been under way before.
const FURTHER_WRITES: u64 = 2;

/// All honest clients of a run.
#[derive(Debug)]
pub struct Company {
    listeners: JoinSet<Result<()>>,
    hearings: Vec<Hearing>,
    quiet: Hearing,
    writers: JoinSet<Result<Fared>>,
    /// The writes of each writer.
    written: Vec<Arc<AtomicU64>>,
    is_over: Arc<AtomicBool>,
}

impl Company {
    /// Lets the followers come. Their connections are older than all others.
    ///
    /// # Errors
    /// The feed does not begin.
    pub async fn begin(gate: &Gate) -> Result<Self> {
        let hearings: Vec<Hearing> = (0..LISTENERS).map(|_| Hearing::default()).collect();
        let (mut listeners, quiet) = (JoinSet::new(), Hearing::default());
        for hearing in &hearings {
            listeners.spawn(follow(gate.process.url(LOUD), Arc::clone(hearing)));
        }
        listeners.spawn(follow(gate.process.url(QUIET), Arc::clone(&quiet)));
        let has_begun = |hearing| look(hearing, |heard| heard.has_begun);
        let begun = async || Ok(hearings.iter().chain([&quiet]).all(has_begun));
        storage_tests::until("the feed begins", begun).await?;
        Ok(Self {
            listeners,
            hearings,
            quiet,
            writers: JoinSet::new(),
            written: Vec::new(),
            is_over: Arc::default(),
        })
    }

    /// Lets the writers come.
    pub fn write(&mut self, args: &Args, gate: &Gate) {
        for number in 0..WRITERS {
            let honest = Honest::new(gate.process.address, number, args.seed);
            self.written.push(honest.written());
            self.writers.spawn(honest.play(Arc::clone(&self.is_over)));
        }
    }

    /// Waits until each writer has written once more from its beginning to its end.
    ///
    /// # Errors
    /// One of them does not get on.
    pub async fn gets_on(&self) -> Result<()> {
        let now = |written: &Arc<AtomicU64>| written.load(Ordering::SeqCst);
        let before: Vec<u64> = self.written.iter().map(now).collect();
        let got_on = |(written, before): (_, &u64)| now(written) >= before + FURTHER_WRITES;
        let all = async || Ok(self.written.iter().zip(&before).all(got_on));
        storage_tests::until("each honest client writes on", all).await
    }

    /// Ends the writers, and the listeners once they have heard all.
    ///
    /// # Errors
    /// A writer got an answer that can't be.
    pub async fn end(mut self) -> Result<(Fared, Vec<Heard>)> {
        self.is_over.store(true, Ordering::SeqCst);
        let mut fared = Fared::default();
        while let Some(writer) = self.writers.join_next().await {
            fared.add(writer??);
        }
        let (hearings, written) = (&self.hearings, &fared.revisions);
        let is_up_to_date = |hearing| look(hearing, |heard| heard.is_up_to_date(written));
        let up_to_date = || hearings.iter().all(is_up_to_date);
        let heard = storage_tests::until("followers hear all", async || {
            // One that has ended has met something else than events.
            Ok(up_to_date() || self.listeners.try_join_next().is_some())
        });
        if heard.await.is_err() || !up_to_date() {
            let detail = "a follower has not heard the last change of a document";
            fared.flaws.push(Flaw::new("feed", "", detail));
        }
        // ORDER: before the gateway ends, so no feed may end by itself.
        self.listeners.shutdown().await;
        let take = |hearing: &Hearing| std::mem::take(&mut *locked(hearing));
        let all = self.hearings.iter().chain([&self.quiet]);
        Ok((fared, all.map(take).collect()))
    }
}

fn look(hearing: &Hearing, at: impl Fn(&Heard) -> bool) -> bool {
    at(&locked(hearing))
}
