//! A network with servers, and the database of their claims.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use shard_read_server::{Claims, Server, ServerBuilder};
use storage_sdk::layer::ColdTier;
use storage_sdk::layer::claims::{DataCentre, Ranges, ServiceName, ShardRow};
use storage_sdk::{Settings, Storage};
use storage_shard_read::net::LocalNetwork;
use storage_shard_read::{Client, ClientBuilder, Hosts, Schema as _, ShardRange, State};

use crate::words::{Knobs, Lengths, Words};

/// The period of claims in tests. A takeover takes five.
pub(crate) const PERIOD: Duration = Duration::from_millis(50);
/// Longer than anything takes on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(30);

pub(crate) struct World {
    pub(crate) network: LocalNetwork,
    pub(crate) cold: ColdTier,
    pub(crate) file: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

/// A server with what a test can make it do.
pub(crate) struct Host {
    pub(crate) server: Server<Words>,
    pub(crate) knobs: Arc<Knobs>,
}

impl World {
    pub(crate) async fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("game.db");
        Storage::embedded(&file).await?.close(SOON).await;
        Ok(Self {
            network: LocalNetwork::default(),
            cold: ColdTier::open_for_layers(&Settings::embedded(&file)).await?,
            file,
            _folder: folder,
        })
    }

    /// With a plan of so many shards in each of these data centres, and servers of all of them.
    pub(crate) async fn with_servers(shards: usize, dcs: &[&str]) -> Result<(Self, Vec<Host>)> {
        let (world, mut hosts) = (Self::new().await?, Vec::new());
        for dc in dcs {
            world.plan(dc, shards).await?;
            for number in 0..shards {
                hosts.push(world.server(dc, &format!("{dc}{number}")).await?);
            }
        }
        for host in &hosts {
            host.is(State::Serving).await?;
        }
        Ok((world, hosts))
    }

    fn service() -> Result<ServiceName> {
        Ok(ServiceName::new(Words::NAME)?)
    }

    pub(crate) async fn plan(&self, dc: &str, shards: usize) -> Result<u32> {
        let claims = self.cold.layers().claims().context("claims")?;
        let ranges = Ranges::even(shards)?;
        Ok(claims
            .add_plan(&Self::service()?, &DataCentre::new(dc)?, &ranges)
            .await?)
    }

    pub(crate) async fn retire(&self, dc: &str, plan: u32) -> Result<u64> {
        let claims = self.cold.layers().claims().context("claims")?;
        Ok(claims
            .drop_plan(&Self::service()?, &DataCentre::new(dc)?, plan)
            .await?)
    }

    pub(crate) async fn rows(&self) -> Result<Vec<ShardRow>> {
        let claims = self.cold.layers().claims().context("claims")?;
        Ok(claims.list(&Self::service()?, None).await?)
    }

    /// The settings of a server with claims, and its knobs.
    pub(crate) fn builder(
        &self,
        dc: &str,
        name: &str,
    ) -> Result<(ServerBuilder<Words>, Arc<Knobs>)> {
        let claims = Claims::of(self.cold.clone(), dc, name)?.period(PERIOD);
        Ok(builder(name, claims))
    }

    pub(crate) async fn server(&self, dc: &str, name: &str) -> Result<Host> {
        let (builder, knobs) = self.builder(dc, name)?;
        self.start(builder, knobs, name).await
    }

    /// A server of all keys, without claims.
    pub(crate) async fn fixed(
        &self,
        name: &str,
        set: impl FnOnce(ServerBuilder<Words>) -> ServerBuilder<Words>,
    ) -> Result<Host> {
        let (builder, knobs) = builder(name, Claims::fixed(ShardRange::ALL));
        let host = self.start(set(builder), knobs, name).await?;
        host.is(State::Serving).await?;
        Ok(host)
    }

    pub(crate) async fn start(
        &self,
        builder: ServerBuilder<Words>,
        knobs: Arc<Knobs>,
        name: &str,
    ) -> Result<Host> {
        let server = builder.listen_local(self.network.listen(name)?).await?;
        Ok(Host { server, knobs })
    }

    pub(crate) fn client(&self, hosts: &[Host]) -> Result<Client<Words>> {
        self.client_with(hosts, |builder| builder)
    }

    pub(crate) fn client_with(
        &self,
        hosts: &[Host],
        set: impl FnOnce(ClientBuilder<Words>) -> ClientBuilder<Words>,
    ) -> Result<Client<Words>> {
        let addresses: Vec<&str> = hosts.iter().map(|host| host.server.address()).collect();
        Ok(set(self.client_builder(&addresses)).build()?)
    }

    pub(crate) fn client_of(&self, addresses: &[&str]) -> Result<Client<Words>> {
        Ok(self.client_builder(addresses).build()?)
    }

    fn client_builder(&self, addresses: &[&str]) -> ClientBuilder<Words> {
        let hosts = Hosts::list(addresses.iter().map(ToString::to_string));
        let builder = Client::builder(hosts).dial(self.network.clone());
        builder.refresh_every(Duration::from_millis(200))
    }
}

fn builder(name: &str, claims: Claims) -> (ServerBuilder<Words>, Arc<Knobs>) {
    let knobs = Arc::new(Knobs::default());
    let lengths = Lengths {
        name: name.to_owned(),
        knobs: Arc::clone(&knobs),
        range: tokio::sync::watch::Sender::default(),
    };
    let builder = Server::builder(lengths, claims).drain(Duration::from_millis(200));
    (builder, knobs)
}

impl Host {
    /// Waits for a state.
    pub(crate) async fn is(&self, state: State) -> Result<()> {
        until(
            &format!("{} is {state}", self.server.address()),
            async || Ok(self.server.shard().state == state),
        )
        .await
    }

    pub(crate) fn range(&self) -> Result<ShardRange> {
        self.server.shard().range.context("a range")
    }
}

/// Waits for a condition.
pub(crate) async fn until(what: &str, is: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let waiting = async {
        while !is().await? {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    };
    tokio::time::timeout(SOON, waiting)
        .await
        .with_context(|| format!("never: {what}"))?
}

/// Waits until a client has heard of this many hosts.
pub(crate) async fn all_are_known(client: &Client<Words>, count: usize) -> Result<()> {
    until("all hosts are known", async || {
        let hosts = client.hosts();
        Ok(hosts.iter().filter(|host| host.shard.is_some()).count() == count)
    })
    .await
}
