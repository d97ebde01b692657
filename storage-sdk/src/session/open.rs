//! The opening of a session. It yields the whole owner, or nothing.

use std::sync::Arc;
use std::time::Duration;

use storage_dirty::{HotRead, Load, Observed, OpenSession, Opened, Session as Stored};
use storage_model::{Durability, Epoch, Fence, OpId, Owner};
use storage_tiers::is_suspect;
use tokio::time::{Instant, sleep};

use super::call::after;
use super::content::Content;
use super::hold::{Hold, SessionStart};
use super::keep;
use super::options::{Autosave, OnConflict, Otherwise, SessionOptions};
use crate::core::Core;
use crate::{Error, Kind, Record, Result};

/// The first wait for a held owner or for the end of a grace. Doubles up to [`POLL_MAX`].
const POLL_MIN: Duration = Duration::from_millis(5);
const POLL_MAX: Duration = Duration::from_millis(100);

/// The most openings that load in statements of their own. Further openings share statements.
const ALONE_MAX: usize = 4;

/// An opening under way.
struct Opening<'a> {
    core: &'a Core,
    owner: &'a Owner,
    options: SessionOptions,
    until: Instant,
    poll: Duration,
    /// The session that it replaces.
    takes: Option<Fence>,
    /// The time since when another session holds the owner.
    held: Option<Instant>,
    /// The session whose holder was asked, and when.
    asked: Option<(Fence, Instant)>,
}

/// The result of an opening.
pub(super) struct OpenedSession {
    fence: Fence,
    epoch: Epoch,
    pub(super) record: Record,
}

impl Core {
    /// Opens a session of an owner. `begin` makes its content from the whole owner. If that fails,
    /// the owner becomes free again.
    pub(crate) async fn open_session<C>(
        self: &Arc<Self>,
        owner: &Owner,
        options: SessionOptions,
        durability: Durability,
        begin: impl FnOnce(&Record) -> Result<Option<Arc<C>>> + Send,
    ) -> Result<Option<(Arc<Hold>, Arc<C>)>>
    where
        C: Content + 'static,
    {
        self.check_writable(owner)?;
        let within = self.backpressure.admit(options.within, false).await?;
        let place = self.holder.place(self.ids.next())?;
        let (core, its, token) = (Arc::clone(self), owner.clone(), place.token);
        // At home, where time follows the wall clock. The clock of the caller may be paused.
        let opened = self
            .tiers
            .home()
            .run(async move { open_at_home(&core, &its, options, within, token).await })
            .await;
        let ended = || Error::new(Kind::Closed, "the storage's runtime has ended");
        let opened = opened
            .unwrap_or_else(|_| Err(ended()))
            .map_err(|error| self.error_for_caller(error));
        let OpenedSession {
            fence,
            epoch,
            record,
        } = opened?;
        let until = after(self.deadline);
        // If the storage was closed during the opening, its close does not see this session.
        let begun = self.check_open().and_then(|()| begin(&record));
        let content = match begun {
            Ok(Some(content)) => content,
            // Without content, the owner is given back. Otherwise nobody would hold it.
            refused => {
                let hot = self.tiers.hot();
                let given_back = self
                    .ask_hot(until, || hot.sessions.close_session(owner, fence))
                    .await;
                refused?;
                given_back?;
                return Ok(None);
            }
        };
        let autosave = match options.autosave {
            Autosave::Every(period) => Some(period),
            Autosave::Off => None,
        };
        let begun = SessionStart {
            owner: owner.clone(),
            fence,
            epoch,
            version: record.version(),
            durability,
            autosave,
        };
        let hold = Hold::new(self, begun, Arc::clone(&content) as _);
        place.take(&hold);
        Ok(Some((hold, content)))
    }
}

async fn open_at_home(
    core: &Arc<Core>,
    owner: &Owner,
    options: SessionOptions,
    within: Duration,
    token: OpId,
) -> Result<OpenedSession> {
    let until = after(within);
    keep::begin(core, until).await?;
    let opening = Opening {
        core,
        owner,
        options,
        until,
        poll: POLL_MIN,
        takes: None,
        held: None,
        asked: None,
    };
    opening.open(token).await
}

impl Opening<'_> {
    async fn open(mut self, token: OpId) -> Result<OpenedSession> {
        let mut load: Option<Load> = None;
        loop {
            self.core.check_open()?;
            let answer = self.send(token, load.take()).await?;
            match answer {
                Opened::Open { fence, epoch, read } => return self.taken(fence, epoch, read),
                Opened::Load(observed) => load = Some(self.load(observed).await?),
                Opened::Held(session) => self.held_by(&session).await?,
                Opened::Grace(_) => {
                    let why = "the hot tier was replaced, and live servers claim their sessions first; retry later";
                    self.wait(Error::new(Kind::HotUnavailable, why)).await?;
                }
                Opened::Expired => {
                    self.core.learn_time().await?;
                    self.wait(Error::new(
                        Kind::Timeout,
                        "the deadline passed before the session was opened",
                    ))
                    .await?;
                }
            }
        }
    }

    async fn send(&self, token: OpId, load: Option<Load>) -> Result<Opened> {
        let (core, hot) = (self.core, self.core.tiers.hot());
        // The SDK gives up within a lease. So no opening of one epoch is carried out after the
        // grace of the next.
        let left = self
            .until
            .saturating_duration_since(Instant::now())
            .min(core.deadline)
            .min(core.holder.lease);
        let open = OpenSession {
            owner: self.owner.clone(),
            token,
            holder: core.holder.id,
            name: core.holder.name.clone(),
            takes: self.takes,
            deadline: core.expiry(left),
            load,
        };
        core.ask_hot(Instant::now() + left, || hot.sessions.open_session(&open))
            .await
    }

    fn taken(self, fence: Fence, epoch: Epoch, read: HotRead) -> Result<OpenedSession> {
        if is_suspect(&read) {
            return Err(Error::new(
                Kind::Corrupt,
                "the session was opened on a hash from before the hot tier was replaced",
            ));
        }
        Ok(OpenedSession {
            fence,
            epoch,
            record: Record::of(read),
        })
    }

    /// Loads the rows for the opening. If there are few openings, each loads alone, and the opening
    /// then fills the hash. Many openings share one statement.
    async fn load(&self, observed: Observed) -> Result<Load> {
        let (tiers, holder) = (&self.core.tiers, &self.core.holder);
        let loading = holder.loading();
        let load = if loading.others() < ALONE_MAX {
            None
        } else {
            tiers.load(self.owner).await.map_err(Error::of_tiers)?
        };
        match load {
            Some(full) => Ok(full.load.clone()),
            None => {
                let loaded = tiers.load_observed(self.owner, observed).await;
                loaded.map_err(Error::of_tiers)
            }
        }
    }

    /// Another session holds the owner.
    async fn held_by(&mut self, session: &Stored) -> Result<()> {
        let since = self.held.get_or_insert_with(Instant::now).elapsed();
        let refused = || {
            let held = format!("{} holds the owner", session.name);
            let waited = since.as_millis();
            Error::new(
                Kind::Held,
                match waited {
                    0 => held,
                    _ => format!("{held}; the start waited for {waited} ms"),
                },
            )
        };
        match self.options.on_conflict {
            OnConflict::Fail => return Err(refused()),
            OnConflict::Wait { at_most } if since >= at_most => return Err(refused()),
            OnConflict::Steal => self.takes = Some(session.fence),
            OnConflict::Ask {
                after,
                then: Otherwise::Fail,
            } if since >= after => return Err(refused()),
            OnConflict::Ask {
                after,
                then: Otherwise::Steal,
            } if since >= after => self.takes = Some(session.fence),
            OnConflict::Ask { .. } if !self.has_asked(session.fence) => {
                self.ask(session.fence).await?;
            }
            OnConflict::Wait { .. } | OnConflict::Ask { .. } => {}
        }
        if self.takes == Some(session.fence) {
            return Ok(());
        }
        self.wait(refused()).await
    }

    /// Whether a request of this start stands. The holder forgets a request that is not repeated for a
    /// lease.
    fn has_asked(&self, fence: Fence) -> bool {
        let again = self.core.holder.lease / 3;
        self.asked
            .is_some_and(|(asked, at)| asked == fence && at.elapsed() < again)
    }

    async fn ask(&mut self, fence: Fence) -> Result<()> {
        let (hot, name) = (self.core.tiers.hot(), &self.core.holder.name);
        let ask = self.core.ids.next();
        self.core
            .ask_hot(self.until, || {
                hot.sessions.ask_session(self.owner, fence, ask, name)
            })
            .await?;
        if self.asked.is_none_or(|(asked, _)| asked != fence) {
            self.poll = POLL_MIN;
        }
        self.asked = Some((fence, Instant::now()));
        Ok(())
    }

    /// Waits a little. An error if no time is left.
    async fn wait(&mut self, late: Error) -> Result<()> {
        if Instant::now() + self.poll >= self.until {
            return Err(late);
        }
        let pause = self.poll;
        self.poll = (pause * 2).min(POLL_MAX);
        sleep(pause).await;
        Ok(())
    }
}
