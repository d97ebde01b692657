//! What the claims of a service say, and what their holders say.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use async_trait::async_trait;
use storage_sdk::layer::ColdTier;
use storage_sdk::layer::claims::{DataCentre, ServiceName, ShardRow};
use storage_shard_read::owners::Owners;
use storage_shard_read::{Client, HostInfo, HostSource, Hosts, ShardInfo, ShardRange, State};
use tokio::time::{Instant, sleep};

use crate::args::{self, ClientArgs};

/// How often holders that are silent are asked again.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// A holder that has told nothing by then is silent.
const TELL_MAX: Duration = Duration::from_secs(5);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A range of a plan.
#[derive(Debug)]
pub(crate) struct SurveyedShard {
    /// Its claim.
    pub(crate) row: ShardRow,
    /// What its holder holds. None: there is no holder, or it is silent.
    pub(crate) told: Option<ShardInfo>,
    /// Why its holder is silent, as far as that is known.
    pub(crate) fault: Option<String>,
}

impl SurveyedShard {
    /// Its range.
    pub(crate) fn range(&self) -> Option<ShardRange> {
        ShardRange::new(self.row.key.begin, self.row.end)
    }

    /// What its holder says, in a few words.
    pub(crate) fn state(&self) -> String {
        match (&self.row.holder, &self.told) {
            (None, _) => "without a server".to_owned(),
            (Some(_), None) => match &self.fault {
                Some(fault) => format!("silent ({fault})"),
                None => "silent".to_owned(),
            },
            (Some(_), Some(_)) if self.is_served() => "serving".to_owned(),
            (Some(_), Some(told)) => match told.range {
                Some(range) if Some(range) != self.range() => format!("{} of {range}", told.state),
                _ => told.state.to_string(),
            },
        }
    }

    /// Whether its holder answers for it.
    pub(crate) fn is_served(&self) -> bool {
        self.told.as_ref().is_some_and(|told| {
            let is_of_plan = told.plan == self.row.key.plan && told.dc == self.row.key.dc.as_str();
            told.state == State::Serving && told.range == self.range() && is_of_plan
        })
    }
}

/// All ranges of a service.
#[derive(Debug)]
pub(crate) struct Survey(pub(crate) Vec<SurveyedShard>);

impl Survey {
    /// The data centres.
    pub(crate) fn dcs(&self) -> BTreeSet<&DataCentre> {
        self.0.iter().map(|shard| &shard.row.key.dc).collect()
    }

    /// The numbers of the plans of a data centre.
    pub(crate) fn plans(&self, dc: &DataCentre) -> BTreeSet<u32> {
        let shards = self.0.iter().filter(|shard| shard.row.key.dc == *dc);
        shards.map(|shard| shard.row.key.plan).collect()
    }

    /// The ranges of a plan that nobody serves.
    pub(crate) fn unserved(&self, dc: &DataCentre, plan: u32) -> Vec<&SurveyedShard> {
        let shards = self.0.iter().filter(|shard| !shard.is_served());
        shards
            .filter(|shard| shard.row.key.dc == *dc && shard.row.key.plan == plan)
            .collect()
    }

    /// Whether all ranges of the newest plan of a data centre are served.
    pub(crate) fn is_complete(&self, dc: &DataCentre) -> bool {
        let newest = self.plans(dc).pop_last();
        newest.is_some_and(|plan| self.unserved(dc, plan).is_empty())
    }
}

/// Asks the database and the holders of a service.
#[derive(Debug)]
pub(crate) struct Surveyor {
    cold: ColdTier,
    service: ServiceName,
    client: Client<Owners>,
}

impl Surveyor {
    /// For this service. The holders of its claims are asked what they hold.
    pub(crate) fn new(
        cold: ColdTier,
        service: ServiceName,
        args: &ClientArgs,
    ) -> anyhow::Result<Self> {
        let holders = Hosts::of(Holders {
            cold: cold.clone(),
            service: service.clone(),
        });
        let client = Client::builder(holders)
            .service(service.as_str())
            .refresh_every(ASK_EVERY);
        Ok(Self {
            client: args.apply(client)?.build()?,
            cold,
            service,
        })
    }

    /// The ranges now. Waits for holders that have not told yet.
    pub(crate) async fn survey(&self) -> anyhow::Result<Survey> {
        let until = Instant::now() + TELL_MAX;
        loop {
            let rows = args::claims(&self.cold)?.list(&self.service, None).await?;
            let hosts = self.client.hosts();
            let shards: Vec<_> = rows.into_iter().map(|row| told(row, &hosts)).collect();
            let is_silent =
                |shard: &SurveyedShard| shard.row.holder.is_some() && shard.told.is_none();
            if !shards.iter().any(is_silent) || Instant::now() >= until {
                return Ok(Survey(shards));
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

fn told(row: ShardRow, hosts: &[HostInfo]) -> SurveyedShard {
    let holder = row.holder.as_ref();
    let mut hosts = hosts.iter();
    let host = holder.and_then(|holder| hosts.find(|host| host.address == holder.as_str()));
    let told = host.and_then(|host| host.shard.clone());
    let fault = host.and_then(|host| host.fault.clone());
    SurveyedShard { row, told, fault }
}

/// The holders of all claims of a service. Their names are their addresses.
#[derive(Debug)]
struct Holders {
    cold: ColdTier,
    service: ServiceName,
}

#[async_trait]
impl HostSource for Holders {
    async fn hosts(&self) -> io::Result<Vec<String>> {
        let claims = args::claims(&self.cold).map_err(io::Error::other)?;
        let rows = claims.list(&self.service, None).await;
        let rows = rows.map_err(io::Error::other)?;
        let holders = rows.iter().filter_map(|row| row.holder.as_ref());
        let holders: BTreeSet<&str> = holders.map(|holder| holder.as_str()).collect();
        Ok(holders.into_iter().map(str::to_owned).collect())
    }
}
