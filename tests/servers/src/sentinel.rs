//! A Redis master, its replicas, and the Sentinels that watch them.

use std::{fmt, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    RedisOptions, RedisServer, Sentinel,
    sentinel_process::{MASTER, Watch},
    url::escape,
};

/// The longest time that servers and Sentinels can take to agree.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time between two looks at them.
const POLL: Duration = Duration::from_millis(20);

/// The options of a master with replicas and Sentinels.
#[derive(Clone)]
pub struct SentinelOptions {
    /// Replicas of the master. Default: 2.
    pub replicas: usize,
    /// Sentinels. More than half of them must agree on a failover. Default: 3.
    pub sentinels: usize,
    /// A master that is silent for this long is failed over. Default: 500 ms.
    pub down_after: Duration,
    /// The password of the Sentinels. Default: none.
    pub sentinel_password: Option<String>,
    /// The options of each server. User and TLS must stay unset, because servers and Sentinels talk
    /// to each other without them.
    pub redis: RedisOptions,
}

impl Default for SentinelOptions {
    fn default() -> Self {
        Self {
            replicas: 2,
            sentinels: 3,
            down_after: Duration::from_millis(500),
            sentinel_password: None,
            redis: RedisOptions::default(),
        }
    }
}

/// A running master with replicas and Sentinels. Dropping it kills them all and removes their
/// folders.
#[derive(Debug)]
pub struct RedisSentinel {
    /// Dropped first, so that no Sentinel sees a server go.
    sentinels: Vec<Sentinel>,
    /// First the master of the start.
    servers: Vec<RedisServer>,
    password: Option<String>,
}

impl RedisSentinel {
    /// Starts servers and Sentinels, and returns when every replica is in sync and all Sentinels
    /// know all of them.
    ///
    /// # Errors
    /// A user or TLS in the options, [`Missing`](crate::Missing), a server that does not start, or
    /// Sentinels that do not agree.
    ///
    /// # Cancel safety
    /// A cancelled start leaves no server and no folder.
    pub async fn start(options: SentinelOptions) -> Result<Self> {
        ensure!(
            options.redis.user.is_none() && !options.redis.tls,
            "Sentinels start without user and TLS"
        );
        let mut redis = options.redis.clone();
        redis
            .args
            .extend(["--repl-diskless-sync-delay", "0"].map(str::to_owned));
        let mut servers = Vec::new();
        for _ in 0..=options.replicas {
            servers.push(RedisServer::start(redis.clone()).await?);
        }
        let Some((master, replicas)) = servers.split_first() else {
            bail!("no server")
        };
        let port = master.port().to_string();
        for replica in replicas {
            replica.call(&["REPLICAOF", "127.0.0.1", &port]).await?;
            // A replica stays one after a restart.
            replica.call(&["CONFIG", "REWRITE"]).await?;
        }
        let watch = Watch {
            master: master.port(),
            master_password: options.redis.password.clone(),
            quorum: options.sentinels / 2 + 1,
            replicas: options.replicas,
            down_after: options.down_after,
            password: options.sentinel_password.clone(),
        };
        let mut sentinels = Vec::new();
        for _ in 0..options.sentinels {
            sentinels.push(Sentinel::start(&options.redis.program, watch.clone()).await?);
        }
        let all = Self {
            sentinels,
            servers,
            password: options.sentinel_password,
        };
        all.settled().await?;
        Ok(all)
    }

    /// `redis-sentinel://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3/main` with every Sentinel, and the
    /// passwords if there are any.
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self
            .sentinels
            .iter()
            .map(|sentinel| format!("127.0.0.1:{}", sentinel.port()))
            .collect();
        let credentials = self
            .servers
            .first()
            .map(RedisServer::credentials)
            .unwrap_or_default();
        let own = self
            .password
            .as_ref()
            .map(|password| format!("?sentinel-pass={}", escape(password)));
        format!(
            "redis-sentinel://{credentials}{}/{MASTER}{}",
            hosts.join(","),
            own.unwrap_or_default()
        )
    }

    /// The servers: first the one that started as the master, then its replicas.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The Sentinels.
    pub fn sentinels(&self) -> &[Sentinel] {
        &self.sentinels
    }

    /// The server that started as number `index`.
    ///
    /// # Errors
    /// There is no such server.
    pub fn server(&self, index: usize) -> Result<&RedisServer> {
        self.servers
            .get(index)
            .with_context(|| format!("no server {index} among {}", self.servers.len()))
    }

    /// The index of the server that more than half of the Sentinels call the master.
    ///
    /// # Errors
    /// They do not agree, or the server is none of these.
    pub async fn master(&self) -> Result<usize> {
        let mut named = Vec::new();
        for sentinel in self
            .sentinels
            .iter()
            .filter(|sentinel| sentinel.pid().is_some())
        {
            named.push(sentinel.master().await?);
        }
        let agreed = named.iter().find(|port| {
            named.iter().filter(|other| other == port).count() * 2 > self.sentinels.len()
        });
        let port = agreed.with_context(|| format!("the Sentinels name the ports {named:?}"))?;
        self.servers
            .iter()
            .position(|server| server.port() == *port)
            .with_context(|| format!("no server has port {port}"))
    }

    /// Waits until the Sentinels have made another server than `old` the master. Returns its index.
    ///
    /// # Errors
    /// They do not within a minute.
    pub async fn failed_over(&self, old: usize) -> Result<usize> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.master().await {
                Ok(master) if master != old && self.is_master(master).await => return Ok(master),
                seen if Instant::now() > deadline => {
                    bail!("no failover from server {old} in {PATIENCE:?}: {seen:?}")
                }
                _ => sleep(POLL).await,
            }
        }
    }

    /// Makes the Sentinels replace a healthy master, as an operator does. Returns the index of the
    /// new one.
    ///
    /// # Errors
    /// They do not within a minute.
    pub async fn fail_over(&self) -> Result<usize> {
        /// A Sentinel silently gives a failover up if its news of the replicas are old. This
        /// happens on a loaded machine.
        const ANOTHER_TRY: Duration = Duration::from_secs(5);
        let old = self.master().await?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let Some(sentinel) = self.sentinels.first() else {
                bail!("no Sentinel")
            };
            let begun = sentinel.call(&["SENTINEL", "FAILOVER", MASTER]).await;
            if let Ok(done) = timeout(ANOTHER_TRY, self.failed_over(old)).await {
                return done;
            }
            ensure!(
                Instant::now() < deadline,
                "no failover in {PATIENCE:?}: {begun:?}"
            );
        }
    }

    /// Waits until every server that is up is the agreed master or a replica in sync with it, and
    /// the Sentinels know them.
    ///
    /// # Errors
    /// They are not within a minute.
    pub async fn settled(&self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let trouble = match self.trouble().await {
                Ok(None) => return Ok(()),
                Ok(Some(trouble)) => trouble,
                Err(error) => format!("{error:#}"),
            };
            if Instant::now() > deadline {
                bail!("not settled in {PATIENCE:?}: {trouble}");
            }
            sleep(POLL).await;
        }
    }

    /// Waits until every replica that is up has all data of the master.
    ///
    /// # Errors
    /// They have not within a minute, or there is no agreed master.
    pub async fn caught_up(&self) -> Result<()> {
        let master = self.master().await?;
        let offset = async |index: usize, name: &str| -> Result<u64> {
            let info = self.server(index)?.call(&["INFO", "replication"]).await?;
            let line = info
                .text()?
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            Ok(line
                .with_context(|| format!("server {index} has no {name}"))?
                .trim()
                .parse()?)
        };
        let wanted = offset(master, "master_repl_offset").await?;
        let deadline = Instant::now() + PATIENCE;
        let replicas = (0..self.servers.len()).filter(|index| *index != master);
        for index in replicas.filter(|index| {
            self.server(*index)
                .is_ok_and(|server| server.pid().is_some())
        }) {
            while offset(index, "slave_repl_offset").await? < wanted {
                ensure!(
                    Instant::now() < deadline,
                    "server {index} is behind for {PATIENCE:?}"
                );
                sleep(POLL).await;
            }
        }
        Ok(())
    }

    async fn trouble(&self) -> Result<Option<String>> {
        let master = self.master().await?;
        let port = format!("master_port:{}\r", self.server(master)?.port());
        for (index, server) in self
            .servers
            .iter()
            .enumerate()
            .filter(|(_, server)| server.pid().is_some())
        {
            let info = server.call(&["INFO", "replication"]).await?;
            let info = info.text()?;
            let well = match index == master {
                true => info.contains("role:master"),
                false => info.contains("master_link_status:up") && info.contains(&port),
            };
            if !well {
                return Ok(Some(format!(
                    "server {index} says {info:?}, the master is {master}"
                )));
            }
        }
        for sentinel in self
            .sentinels
            .iter()
            .filter(|sentinel| sentinel.pid().is_some())
        {
            let known = sentinel.knows().await?;
            if known != (self.servers.len() - 1, self.sentinels.len() - 1) {
                return Ok(Some(format!(
                    "a Sentinel knows {known:?} replicas and other Sentinels"
                )));
            }
        }
        Ok(None)
    }

    async fn is_master(&self, index: usize) -> bool {
        let Some(server) = self.servers.get(index) else {
            return false;
        };
        let info = server.call(&["INFO", "replication"]).await;
        info.is_ok_and(|info| info.text().is_ok_and(|info| info.contains("role:master")))
    }
}

impl fmt::Debug for SentinelOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SentinelOptions")
            .field("replicas", &self.replicas)
            .field("sentinels", &self.sentinels)
            .field("down_after", &self.down_after)
            .finish_non_exhaustive()
    }
}
