//! A Redis master dies, and its replica takes over.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use async_trait::async_trait;
use storage_config::Settings;
use storage_sdk::{ByteOwner, Retry, Storage};
use storage_servers::{ClusterOptions, RedisCluster, RedisServer, Reply};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::sleep;

use super::{LOOK, plan, sample, within};
use crate::bench::case::{Case, Plan, Processes, Rig, Sample, Side};
use crate::bench::place::{Arena, value};

/// The number of masters of the cluster. Each has one replica.
const MASTERS: usize = 3;
/// The silence of a master after which the others give it up.
const NODE_TIMEOUT: Duration = Duration::from_millis(500);

pub(super) struct Master;

struct MasterRig {
    cluster: RedisCluster,
    storage: Storage,
    owner: ByteOwner,
    mariadb: Option<u32>,
    /// A key in the slot of the owner's keys, and that slot.
    key: String,
    slot: u16,
    /// The node that is the slot's master when a repetition begins, and its replica.
    master: usize,
    standby: usize,
}

#[async_trait]
impl Case for Master {
    fn plan(&self) -> Plan {
        plan(
            "redis",
            "from the moment when a replica in a cluster of 3 masters has become master (ROLE), since its master was killed (SIGKILL), \
             until a task that writes all the time is first acknowledged; default settings, cluster-node-timeout 500 ms",
            "until the new master takes SETs of a plain client that knows it",
            1_000.0,
            250.0,
        )
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let options = ClusterOptions {
            masters: MASTERS,
            replicas_per_master: 1,
            node_timeout: NODE_TIMEOUT,
            ..ClusterOptions::default()
        };
        let cluster = RedisCluster::start_with(options).await?;
        let database = arena.mariadb.fresh_database("recovery").await?;
        let text = format!(
            "[redis]\nurl = {:?}\n[sql]\nurl = {database:?}\n",
            cluster.url()
        );
        let storage = Storage::open(Settings::from_toml(&text, "bench")?).await?;
        let owner = storage.world("game", "eu")?.bytes().owner("player", "o")?;
        let partition = owner
            .owner()
            .partition(storage.tiers().hot().partitions.partition_count());
        let key = format!("plain:{{{partition}}}");
        let Reply::Integer(slot) = cluster.node(0)?.call(&["CLUSTER", "KEYSLOT", &key]).await?
        else {
            bail!("no slot")
        };
        let (slot, mariadb) = (u16::try_from(slot)?, arena.mariadb.pid());
        Ok(Box::new(MasterRig {
            cluster,
            storage,
            owner,
            mariadb,
            key,
            slot,
            master: 0,
            standby: 0,
        }))
    }
}

impl MasterRig {
    /// Kills the master. Returns the time at which its replica was first seen to be a master.
    async fn fail_over(&self) -> Result<Instant> {
        let standby = self.cluster.node(self.standby)?;
        self.cluster.node(self.master)?.kill()?;
        while !is_master(standby).await? {
            sleep(LOOK).await;
        }
        Ok(Instant::now())
    }

    async fn ours(&self) -> Result<Duration> {
        let (acknowledged, answers) = unbounded_channel();
        tokio::select! {
            failed = self.keep_writing(acknowledged) => match failed? {},
            measured = self.first_answer(answers) => measured,
        }
    }

    /// The time from the takeover to the first answer after it.
    async fn first_answer(&self, mut answers: UnboundedReceiver<Instant>) -> Result<Duration> {
        answers.recv().await.context("nothing is written")?;
        let promoted = self.fail_over().await?;
        loop {
            let answered = answers
                .recv()
                .await
                .context("nothing is written any more")?;
            if answered >= promoted {
                return Ok(answered - promoted);
            }
        }
    }

    /// Writes all the time, like a game server. A failed write is tried again as its error says.
    async fn keep_writing(&self, acknowledged: UnboundedSender<Instant>) -> Result<Infallible> {
        let mut id = self.storage.next_id();
        loop {
            match self.owner.update([("field0", value(64, 0))]).id(id).await {
                Ok(_) => {
                    acknowledged.send(Instant::now())?;
                    id = self.storage.next_id();
                    sleep(LOOK).await;
                }
                Err(error) => match error.retry() {
                    Retry::SameId => {}
                    Retry::After(pause) => sleep(pause).await,
                    // The same value may be set again, whatever the outcome of the write is.
                    Retry::Reread => id = self.storage.next_id(),
                    Retry::Never => return Err(error.into()),
                },
            }
        }
    }

    /// The time from the takeover to the new master's first answer to a plain client.
    async fn plain(&self) -> Result<Duration> {
        let promoted = self.fail_over().await?;
        let standby = self.cluster.node(self.standby)?;
        while standby.call(&["SET", &self.key, "1"]).await.is_err() {
            sleep(LOOK).await;
        }
        Ok(promoted.elapsed())
    }
}

async fn is_master(node: &RedisServer) -> Result<bool> {
    let Reply::Array(role) = node.call(&["ROLE"]).await? else {
        bail!("ROLE answers a list")
    };
    Ok(role.first().context("ROLE answers a role")?.text()? == "master")
}

/// Waits until a node will take writes as soon as it is a master. A node takes none in its first
/// 2 s after a start, from any client (`CLUSTER_WRITABLE_DELAY` in Redis' cluster.c).
async fn ripe(node: &RedisServer) -> Result<()> {
    // Both ends are cut to whole seconds, so 3 means more than 2.
    const SECONDS: u64 = 3;
    loop {
        let info = node.call(&["INFO", "server"]).await?;
        let uptime = info
            .text()?
            .lines()
            .find_map(|line| line.strip_prefix("uptime_in_seconds:"));
        if uptime.context("no uptime")?.trim().parse::<u64>()? >= SECONDS {
            return Ok(());
        }
        sleep(LOOK).await;
    }
}

#[async_trait]
impl Rig for MasterRig {
    async fn prepare(&mut self, _: Side) -> Result<()> {
        let killed = self.cluster.node(self.master)?;
        if killed.pid().is_none() {
            killed.restart().await?;
        }
        self.cluster.settled().await?;
        self.master = self.cluster.owner_of(self.slot).await?;
        self.standby = (self.master + MASTERS) % (2 * MASTERS);
        let standby = self.cluster.node(self.standby)?;
        standby.caught_up(self.cluster.node(self.master)?).await?;
        within("the replica may take writes", ripe(standby)).await
    }

    async fn run(&mut self, side: Side) -> Result<Sample> {
        let measured = match side {
            Side::Ours => within("a write is acknowledged by the new master", self.ours()).await?,
            Side::Baseline => within("the new master answers", self.plain()).await?,
        };
        Ok(sample(measured))
    }

    fn processes(&self, _: Side) -> Processes {
        let redis = self
            .cluster
            .node(self.standby)
            .ok()
            .and_then(RedisServer::pid);
        Processes {
            redis,
            mariadb: self.mariadb,
            ..Processes::default()
        }
    }
}
