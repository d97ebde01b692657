//! Which range a server gets.
//!
//! A claim says who loads a range. It is no lock: a server that can't reach the database goes on, and one
//! that lost its claim answers for some seconds more. Two servers of one range do no harm, since a service
//! only reads.

mod observer;

use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use storage_sdk::layer::claims::{
    ClaimStore, ClaimToken, DataCentre, Holder, ServiceName, ShardKey, ShardRow,
};
use storage_sdk::layer::{ColdError, ColdTier};
use storage_sdk::{Ids, Settings};
use storage_shard_read::ShardRange;
use tokio::time::{sleep, timeout};

use self::observer::Observer;
use crate::server::ServerError;

/// The default of [`Claims::period`].
const PERIOD: Duration = Duration::from_secs(1);
/// A server that leaves does not wait longer for the database.
const RELEASE_MAX: Duration = Duration::from_secs(2);
/// A shorter period would be a load for the database alone.
const PERIOD_MIN: Duration = Duration::from_millis(10);

/// Which range a server gets: one of a plan in the database, or a fixed one.
#[derive(Debug)]
pub struct Claims(Source);

#[derive(Debug)]
enum Source {
    Fixed(ShardRange),
    Stored(Stored),
}

/// The table of claims, as a server of one data centre uses it.
#[derive(Debug)]
struct Stored {
    cold: ColdTier,
    dc: DataCentre,
    holder: Holder,
    period: Duration,
}

impl Claims {
    /// One range, without a table. For a service with a single shard, and for tests.
    #[must_use]
    pub fn fixed(range: ShardRange) -> Self {
        Self(Source::Fixed(range))
    }

    /// A range of the newest plan of this data centre, in the database of these settings. The holder is the
    /// name of the server, such as its host and port. A server that starts again gets its former range first.
    ///
    /// # Errors
    /// A name is too long or empty, or the database can't be opened.
    pub async fn open(settings: &Settings, dc: &str, holder: &str) -> Result<Self, ServerError> {
        Self::of(ColdTier::open_for_layers(settings).await?, dc, holder)
    }

    /// As [`Claims::open`], in a database that is open.
    ///
    /// # Errors
    /// A name is too long or empty.
    pub fn of(cold: ColdTier, dc: &str, holder: &str) -> Result<Self, ServerError> {
        let invalid = |error: storage_sdk::NameError| ServerError::Invalid(error.to_string());
        if cold.layers().claims().is_none() {
            return Err(ServerError::Invalid(
                "the database has no claims".to_owned(),
            ));
        }
        Ok(Self(Source::Stored(Stored {
            cold,
            dc: DataCentre::new(dc).map_err(invalid)?,
            holder: Holder::new(holder).map_err(invalid)?,
            period: PERIOD,
        })))
    }

    /// The time between two renewals, and between two looks for a range without a server. All servers of a
    /// service have the same. Default: 1 s, and 10 ms at least.
    #[must_use]
    pub fn period(mut self, period: Duration) -> Self {
        if let Source::Stored(stored) = &mut self.0 {
            stored.period = period.max(PERIOD_MIN);
        }
        self
    }

    /// For the servers of a schema.
    pub(crate) fn for_schema(self, schema: &str, ids: &dyn Ids) -> Result<Claimer, ServerError> {
        let service = ServiceName::new(schema)
            .map_err(|error| ServerError::Invalid(format!("the schema's name: {error}")))?;
        let mut seed = [0; 32];
        for half in seed.chunks_mut(16) {
            half.copy_from_slice(ids.next().as_bytes());
        }
        Ok(Claimer {
            source: self.0,
            service,
            chance: StdRng::from_seed(seed),
        })
    }
}

/// A claim of a range.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) range: ShardRange,
    /// 0: of no plan.
    pub(crate) plan: u32,
    /// None: of a fixed range.
    row: Option<(ShardKey, ClaimToken)>,
}

/// Makes, renews and releases claims.
pub(crate) struct Claimer {
    source: Source,
    service: ServiceName,
    chance: StdRng,
}

impl Claimer {
    pub(crate) fn dc(&self) -> &str {
        match &self.source {
            Source::Fixed(_) => "",
            Source::Stored(stored) => stored.dc.as_str(),
        }
    }

    /// Waits for a range without a server, and claims it (V3).
    ///
    /// # Cancel safety
    /// A dropped call may have claimed a range. It is found by the name of its holder.
    pub(crate) async fn claim(&mut self, ids: &dyn Ids) -> Claim {
        let stored = match &self.source {
            Source::Fixed(range) => {
                return Claim {
                    range: *range,
                    plan: 0,
                    row: None,
                };
            }
            Source::Stored(stored) => stored,
        };
        let (mut observer, mut away) = (Observer::new(stored.holder.clone()), Away::default());
        loop {
            match stored
                .try_claim(&self.service, &mut observer, &mut self.chance, ids)
                .await
            {
                Ok(Some(claim)) => return claim,
                Ok(None) => away.is_back(),
                Err(error) => {
                    observer.forget();
                    away.tell(&error);
                }
            }
            // ORDER: the pause is counted from the end of the look. A process that was stopped makes no look
            // up for (V3).
            sleep(stored.period).await;
        }
    }

    /// Renews a claim until the database says that it is lost. An error is no end (V2).
    pub(crate) async fn until_lost(&self, claim: &Claim) {
        let (Source::Stored(stored), Some((key, token))) = (&self.source, &claim.row) else {
            return std::future::pending().await;
        };
        let mut away = Away::default();
        loop {
            sleep(stored.period).await;
            match stored.renew(key, *token).await {
                Ok(true) => away.is_back(),
                Ok(false) => return,
                Err(error) => away.tell(&error),
            }
        }
    }

    /// Makes the range free. If that fails, or the database is silent, another server takes it when the claim's beat
    /// stands still.
    pub(crate) async fn release(&self, claim: &Claim) {
        let (Source::Stored(stored), Some((key, token))) = (&self.source, &claim.row) else {
            return;
        };
        let released = async { stored.store()?.release(key, *token).await };
        match timeout(RELEASE_MAX, released).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, range = %claim.range, "the claim could not be released");
            }
            Err(_) => {
                tracing::warn!(range = %claim.range, "the database does not answer: the claim was not released")
            }
        }
    }

    /// Whether a server of the same name has taken this claim.
    pub(crate) async fn is_taken_by_name(&self, claim: &Claim) -> bool {
        let (Source::Stored(stored), Some((key, token))) = (&self.source, &claim.row) else {
            return false;
        };
        let Ok(rows) = stored.list(&self.service).await else {
            return false;
        };
        let mut rows = rows.iter().filter(|row| row.key == *key);
        rows.any(|row| {
            let is_other = row.token.is_some_and(|other| other != *token);
            is_other && row.holder.as_ref() == Some(&stored.holder)
        })
    }
}

impl Stored {
    fn store(&self) -> Result<&dyn ClaimStore, ColdError> {
        self.cold.layers().claims().ok_or_else(|| ColdError {
            kind: storage_sdk::layer::ColdKind::Operator,
            operation: "claims",
            message: "the database has no claims".to_owned(),
        })
    }

    async fn list(&self, service: &ServiceName) -> Result<Vec<ShardRow>, ColdError> {
        self.store()?.list(service, Some(&self.dc)).await
    }

    async fn renew(&self, key: &ShardKey, token: ClaimToken) -> Result<bool, ColdError> {
        self.store()?.renew(key, token).await
    }

    async fn try_claim(
        &self,
        service: &ServiceName,
        observer: &mut Observer,
        chance: &mut StdRng,
        ids: &dyn Ids,
    ) -> Result<Option<Claim>, ColdError> {
        let rows = self.list(service).await?;
        for seen in observer.see(rows, chance) {
            let Some(range) = ShardRange::new(seen.key.begin, seen.end) else {
                continue;
            };
            let token = ClaimToken::draw(ids);
            if self.store()?.claim(&seen, token, &self.holder).await? {
                return Ok(Some(Claim {
                    range,
                    plan: seen.key.plan,
                    row: Some((seen.key, token)),
                }));
            }
        }
        Ok(None)
    }
}

/// Whether the database is away, so that a log tells it once.
#[derive(Debug, Default)]
struct Away(bool);

impl Away {
    fn tell(&mut self, error: &ColdError) {
        if !std::mem::replace(&mut self.0, true) {
            tracing::warn!(%error, "the claims can't be reached: this server goes on with what it holds");
        }
    }

    fn is_back(&mut self) {
        if std::mem::take(&mut self.0) {
            tracing::info!("the claims can be reached again");
        }
    }
}
