//! The committed shards, with their claims.

use std::collections::BTreeMap;

use storage_model::sabotage::broken;
use storage_sql::claims::{
    ClaimToken, DataCentre, Holder, Ranges, ServiceName, ShardKey, ShardRow,
};
use tokio::time::Instant;

/// The beat behind which beats begin anew.
const BEAT_LAST: u64 = u64::MAX >> 1;

/// The claim of a shard, or its last one.
#[derive(Debug, Clone)]
struct Claim {
    token: Option<ClaimToken>,
    beat: u64,
    holder: Option<Holder>,
    transitions: u64,
    claimed_at: Instant,
    renewed_at: Instant,
}

impl Claim {
    fn free(beat: u64) -> Self {
        let now = Instant::now();
        Self {
            token: None,
            beat,
            holder: None,
            transitions: 0,
            claimed_at: now,
            renewed_at: now,
        }
    }

    fn is_as(&self, seen: &ShardRow) -> bool {
        let same_token = self.token == seen.token || broken("V3-claimed");
        let same_beat = self.beat == seen.beat || broken("V3-alive");
        same_token && same_beat || broken("V3-compare")
    }

    fn raise(&mut self) {
        self.beat = self.beat % BEAT_LAST + 1;
        self.renewed_at = Instant::now();
    }
}

/// The shards of all plans.
#[derive(Debug, Clone, Default)]
pub struct Shards {
    claims: BTreeMap<ShardKey, Claim>,
    /// How many plans were added. The shards of each have a first beat of their own.
    plans: u64,
}

impl Shards {
    /// The shards of a service, in one data centre or in all of them.
    #[must_use]
    pub fn list(&self, service: &ServiceName, dc: Option<&DataCentre>) -> Vec<ShardRow> {
        let is_asked =
            |key: &ShardKey| key.service == *service && dc.is_none_or(|dc| key.dc == *dc);
        let asked = self.claims.iter().filter(|(key, _)| is_asked(key));
        asked.map(|(key, claim)| self.row(key, claim)).collect()
    }

    fn row(&self, key: &ShardKey, claim: &Claim) -> ShardRow {
        ShardRow {
            key: key.clone(),
            end: self.end(key),
            token: claim.token,
            beat: claim.beat,
            holder: claim.holder.clone(),
            transitions: claim.transitions,
            claimed_ago: claim.claimed_at.elapsed(),
            renewed_ago: claim.renewed_at.elapsed(),
        }
    }

    /// Where the next shard of the plan begins.
    fn end(&self, key: &ShardKey) -> Option<u64> {
        let first = ShardKey {
            begin: key.begin.checked_add(1)?,
            ..key.clone()
        };
        let last = ShardKey {
            begin: u64::MAX,
            ..key.clone()
        };
        let next = self.claims.range(first..=last).next();
        next.map(|(next, _)| next.begin)
    }

    /// Claims a shard that is as it was seen. Returns whether it did.
    pub fn claim(&mut self, seen: &ShardRow, token: ClaimToken, holder: Holder) -> bool {
        let claim = self.claims.get_mut(&seen.key);
        let Some(claim) = claim.filter(|claim| claim.is_as(seen)) else {
            return false;
        };
        claim.transitions += u64::from(claim.holder.as_ref() != Some(&holder));
        (claim.token, claim.holder) = (Some(token), Some(holder));
        claim.claimed_at = Instant::now();
        claim.raise();
        true
    }

    /// Raises the beat of a shard that this token claims. Returns whether it did.
    pub fn renew(&mut self, key: &ShardKey, token: ClaimToken) -> bool {
        let claim = self.claims.get_mut(key);
        let claim = claim.filter(|claim| claim.token == Some(token) || broken("V3-token"));
        claim.map(Claim::raise).is_some()
    }

    /// Makes a shard free that this token claims. Returns whether it did.
    pub fn release(&mut self, key: &ShardKey, token: ClaimToken) -> bool {
        let claim = self.claims.get_mut(key);
        let claim = claim.filter(|claim| claim.token == Some(token) || broken("V3-release"));
        claim.map(|claim| claim.token = None).is_some()
    }

    /// Adds a plan. Returns its number.
    pub fn add_plan(&mut self, service: &ServiceName, dc: &DataCentre, ranges: &Ranges) -> u32 {
        let is_of = |key: &&ShardKey| key.service == *service && key.dc == *dc;
        let numbers = self.claims.keys().filter(is_of).map(|key| key.plan);
        let plan = numbers.max().unwrap_or_default() + 1;
        self.plans += 1;
        let beat = if broken("V3-dropped") {
            0
        } else {
            self.plans << 32
        };
        let shards = ranges.begins().iter().map(|begin| {
            let key = ShardKey {
                service: service.clone(),
                dc: dc.clone(),
                plan,
                begin: *begin,
            };
            (key, Claim::free(beat))
        });
        self.claims.extend(shards);
        plan
    }

    /// Drops a plan. Returns how many shards it had.
    pub fn drop_plan(&mut self, service: &ServiceName, dc: &DataCentre, plan: u32) -> u64 {
        let is_of = |key: &ShardKey| key.service == *service && key.dc == *dc && key.plan == plan;
        let dropped = self.claims.extract_if(.., |key, _| is_of(key));
        dropped.count() as u64
    }
}
