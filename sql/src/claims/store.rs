//! The calls, and their statements.

use std::fmt;

use async_trait::async_trait;
use storage_model::RandomIds;

use super::plan::{self, NewPlan, first_beat};
use super::shard::{shard, with_ends};
use super::{ClaimToken, DataCentre, Holder, Ranges, ServiceName, ShardKey, ShardRow};
use crate::ColdError;
use crate::engine::{Arg, Database, Engine, Record, Statement, statement};

static LIST: Statement = statement!("claims/list").in_order_of("PRIMARY");
static LIST_DC: Statement = statement!("claims/list_dc").in_order_of("PRIMARY");
static CLAIM: Statement = statement!("claims/claim").through("PRIMARY");
static RENEW: Statement = statement!("claims/renew").through("PRIMARY");
static RELEASE: Statement = statement!("claims/release").through("PRIMARY");
static DROP_PLAN: Statement = statement!("claims/drop_plan").through("PRIMARY");

pub(crate) const STATEMENTS: &[&Statement] = &[
    &LIST,
    &LIST_DC,
    &CLAIM,
    &RENEW,
    &RELEASE,
    &plan::NEWEST,
    &plan::ADD,
    &DROP_PLAN,
];

/// The plans of services, and the claims of their shards.
///
/// A call that fails with [`ColdKind::Unwell`](crate::ColdKind::Unwell) may have had its effect, since
/// its answer can be lost. The caller lists again: its claim then shows its token.
///
/// ```
/// # mod storage_sdk { pub use storage_model::*; pub mod layer { pub use storage_sql::claims; } }
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// # let settings = storage_config::SqlSettings::new(storage_config::ColdUrl::SqliteMemory);
/// # let cold = storage_sql::open(&settings).await?;
/// # let layers = &cold.layers;
/// use storage_sdk::RandomIds;
/// use storage_sdk::layer::claims::{ClaimToken, DataCentre, Holder, Ranges, ServiceName};
///
/// let claims = layers.claims().ok_or("the database has no claims")?;
/// let (service, dc) = (ServiceName::new("goals-2")?, DataCentre::new("a")?);
/// let plan = claims.add_plan(&service, &dc, &Ranges::even(4)?).await?;
///
/// let shards = claims.list(&service, Some(&dc)).await?;
/// let free = shards.iter().find(|shard| shard.key.plan == plan && shard.is_free()).ok_or("none is free")?;
/// let (token, holder) = (ClaimToken::draw(&RandomIds), Holder::new("goals-7:7000")?);
/// assert!(claims.claim(free, token, &holder).await?);
/// let late = ClaimToken::draw(&RandomIds);
/// assert!(!claims.claim(free, late, &holder).await?); // it is no longer as it was seen
///
/// assert!(claims.renew(&free.key, token).await?); // each second, while the server has the shard
/// assert!(claims.release(&free.key, token).await?); // when the server ends
/// assert_eq!(claims.drop_plan(&service, &dc, plan).await?, 4);
/// assert!(!claims.renew(&free.key, token).await?); // the shard is gone
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `Unwell`: the database is away or busy. `Operator`: a right is missing, or the newest plan has the last
/// number, 2^32 - 1. `Unreadable`: no version of this program writes one of the listed shards. `Settings`: the
/// database was opened for reading, and the call writes. `Schema`: the schema does not fit.
///
/// # Cancel safety
/// As [`Cold`](crate::Cold). A dropped call may have had its effect or not.
#[async_trait]
pub trait ClaimStore: fmt::Debug + Send + Sync {
    /// All shards of all plans of a service, in one data centre or in all of them, in the order of
    /// their keys. All are read at one moment and nothing is locked, so each plan is there as a whole.
    async fn list(
        &self,
        service: &ServiceName,
        dc: Option<&DataCentre>,
    ) -> Result<Vec<ShardRow>, ColdError>;

    /// Claims a shard that still has the token and the beat that were seen (V3). Returns whether it
    /// did. The token is new for each claim. Of several callers that saw the same, one succeeds.
    async fn claim(
        &self,
        seen: &ShardRow,
        token: ClaimToken,
        holder: &Holder,
    ) -> Result<bool, ColdError>;

    /// Raises the beat of a shard, if this token claims it (V3). `false`: another claim has taken its
    /// place, or the plan was dropped.
    async fn renew(&self, key: &ShardKey, token: ClaimToken) -> Result<bool, ColdError>;

    /// Makes a shard free, if this token claims it. Returns whether it did. Anybody can claim it at
    /// once, and its last holder stays known.
    async fn release(&self, key: &ShardKey, token: ClaimToken) -> Result<bool, ColdError>;

    /// Adds a plan, all shards in one transaction, and nobody claims them yet. Returns its number: one
    /// more than the greatest that a plan of this service has in this data centre, and 1 for the
    /// first. Each of several concurrent calls adds a plan of its own.
    ///
    /// A call that has failed may have added the plan. The newest plan of a list tells.
    async fn add_plan(
        &self,
        service: &ServiceName,
        dc: &DataCentre,
        ranges: &Ranges,
    ) -> Result<u32, ColdError>;

    /// Drops a plan with all of its claims, in one step. Returns how many shards it had, 0 if there
    /// was no such plan. A holder learns of it by its next renewal.
    async fn drop_plan(
        &self,
        service: &ServiceName,
        dc: &DataCentre,
        plan: u32,
    ) -> Result<u64, ColdError>;
}

#[async_trait]
impl<E: Engine> ClaimStore for Database<E> {
    async fn list(
        &self,
        service: &ServiceName,
        dc: Option<&DataCentre>,
    ) -> Result<Vec<ShardRow>, ColdError> {
        let mut args = vec![Arg::from(service.as_str())];
        args.extend(dc.map(|dc| Arg::from(dc.as_str())));
        let statement = if dc.is_some() { &LIST_DC } else { &LIST };
        let rows = self.read("list_shards", async |exec| {
            let read = |record: &dyn Record| shard(service, record);
            exec.fetch(statement, 1, &args, read).await
        });
        Ok(with_ends(rows.await?))
    }

    async fn claim(
        &self,
        seen: &ShardRow,
        token: ClaimToken,
        holder: &Holder,
    ) -> Result<bool, ColdError> {
        let begin = seen.key.begin.to_be_bytes();
        let seen_token: &[u8] = match &seen.token {
            Some(token) => token.as_bytes(),
            None => &[],
        };
        let holder = Arg::from(holder.as_str());
        let mut args = vec![holder, holder, Arg::Bytes(token.as_bytes())];
        args.extend(key_args(&seen.key, &begin));
        args.push(Arg::Bytes(seen_token));
        args.push(Arg::Number(seen.beat));
        change(self, "claim_shard", &CLAIM, &args).await
    }

    async fn renew(&self, key: &ShardKey, token: ClaimToken) -> Result<bool, ColdError> {
        let begin = key.begin.to_be_bytes();
        let mut args = key_args(key, &begin).to_vec();
        args.push(Arg::Bytes(token.as_bytes()));
        change(self, "renew_claim", &RENEW, &args).await
    }

    async fn release(&self, key: &ShardKey, token: ClaimToken) -> Result<bool, ColdError> {
        let begin = key.begin.to_be_bytes();
        let mut args = key_args(key, &begin).to_vec();
        args.push(Arg::Bytes(token.as_bytes()));
        change(self, "release_claim", &RELEASE, &args).await
    }

    async fn add_plan(
        &self,
        service: &ServiceName,
        dc: &DataCentre,
        ranges: &Ranges,
    ) -> Result<u32, ColdError> {
        let plan = NewPlan {
            service,
            dc,
            ranges,
            beat: first_beat(ClaimToken::draw(&RandomIds)),
        };
        self.write("add_plan", async |exec| plan.add(exec).await)
            .await
    }

    async fn drop_plan(
        &self,
        service: &ServiceName,
        dc: &DataCentre,
        plan: u32,
    ) -> Result<u64, ColdError> {
        let args = [
            service.as_str().into(),
            dc.as_str().into(),
            Arg::Number(plan.into()),
        ];
        self.write("drop_plan", async |exec| {
            exec.execute(&DROP_PLAN, 1, &args).await
        })
        .await
    }
}

/// The arguments of the key of a shard, with the bytes of its begin.
fn key_args<'a>(key: &'a ShardKey, begin: &'a [u8; 8]) -> [Arg<'a>; 4] {
    [
        key.service.as_str().into(),
        key.dc.as_str().into(),
        Arg::Number(key.plan.into()),
        Arg::Bytes(begin),
    ]
}

/// Changes one shard. Returns whether it was as the statement needs it.
async fn change<E: Engine>(
    database: &Database<E>,
    operation: &'static str,
    statement: &'static Statement,
    args: &[Arg<'_>],
) -> Result<bool, ColdError> {
    let matched = database.write(operation, async |exec| {
        exec.execute(statement, 1, args).await
    });
    Ok(matched.await? > 0)
}
