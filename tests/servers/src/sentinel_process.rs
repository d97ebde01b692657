//! One Sentinel.

use std::{fmt, fs, path::Path, time::Duration};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use crate::{
    node::{Launch, Node, node_calls},
    program,
    redis::{quote, socket},
    resp::{Connection, Reply},
};

/// The name under which the Sentinels know the master.
pub(crate) const MASTER: &str = "main";

/// One Sentinel with a folder of its own. Dropping it kills it and removes the folder.
pub struct Sentinel {
    node: Node,
    password: Option<String>,
}

/// The subject of a Sentinel, and its options.
#[derive(Clone)]
pub(crate) struct Watch {
    /// The port of the master.
    pub(crate) master: u16,
    pub(crate) master_password: Option<String>,
    /// The number of Sentinels that must agree that the master is down.
    pub(crate) quorum: usize,
    pub(crate) replicas: usize,
    pub(crate) down_after: Duration,
    /// The password of the Sentinels.
    pub(crate) password: Option<String>,
}

impl Sentinel {
    pub(crate) async fn start(program: &Path, watch: Watch) -> Result<Self> {
        let program = program::find(&[program], "redis-server")?;
        let folder =
            TempDir::with_prefix("storage-sentinel-").context("cannot make a temporary folder")?;
        let node = Node::start(folder, |port, folder| {
            let file = folder.join("sentinel.conf");
            fs::write(&file, config(&watch, port, folder).join("\n") + "\n")?;
            let args = vec![file.display().to_string(), "--sentinel".to_owned()];
            Ok(Launch {
                program: program.clone(),
                args,
                ready: "+monitor master",
            })
        })
        .await?;
        let sentinel = Self {
            node,
            password: watch.password,
        };
        // Sentinels meet over the master every two seconds, and ask servers for news every ten. A
        // Sentinel that learns of a promotion and not of its failover undoes it after four publish
        // periods. The leading Sentinel looks once a second for the promotion.
        let often = [
            "publish-period",
            "400",
            "info-period",
            "400",
            "ask-period",
            "100",
        ]
        .into_iter();
        // On a loaded machine a late Sentinel would do nothing for half a minute.
        let calm = ["tilt-trigger", "20000", "tilt-period", "1000"];
        sentinel
            .call(
                &["SENTINEL", "DEBUG"]
                    .into_iter()
                    .chain(often)
                    .chain(calm)
                    .collect::<Vec<_>>(),
            )
            .await?;
        Ok(sentinel)
    }

    node_calls!();

    /// Sends one command over a new connection and returns the answer.
    ///
    /// # Errors
    /// The Sentinel is down or paused, or answered with an error. That error is the root cause of
    /// this one.
    ///
    /// # Cancel safety
    /// The Sentinel may or may not have run a cancelled command.
    pub async fn call<A: AsRef<[u8]>>(&self, args: &[A]) -> Result<Reply> {
        let mut connection = Connection::open(&socket(self.folder())).await?;
        if let Some(password) = &self.password {
            connection.call(&["AUTH", password]).await?;
        }
        connection.call(args).await
    }

    /// The port of the master, by this Sentinel.
    pub(crate) async fn master(&self) -> Result<u16> {
        match self
            .call(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER])
            .await?
        {
            Reply::Array(address) => Ok(address
                .get(1)
                .context("an address has a port")?
                .text()?
                .parse()?),
            other => bail!("no address: {other:?}"),
        }
    }

    /// The number of replicas and of other Sentinels that it knows.
    pub(crate) async fn knows(&self) -> Result<(usize, usize)> {
        let mut counts = [0; 2];
        for (count, list) in counts.iter_mut().zip(["REPLICAS", "SENTINELS"]) {
            let Reply::Array(known) = self.call(&["SENTINEL", list, MASTER]).await? else {
                bail!("no list of {list}")
            };
            *count = known.len();
        }
        Ok(counts.into())
    }
}

impl fmt::Debug for Sentinel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sentinel")
            .field("port", &self.port())
            .field("pid", &self.pid())
            .finish_non_exhaustive()
    }
}

fn config(watch: &Watch, port: u16, folder: &Path) -> Vec<String> {
    let Watch { master, quorum, .. } = watch;
    let mut lines = vec![
        "bind 127.0.0.1".to_owned(),
        format!("port {port}"),
        format!("dir {}", quote(folder)),
        format!("unixsocket {}", quote(socket(folder))),
        format!("sentinel monitor {MASTER} 127.0.0.1 {master} {quorum}"),
        format!(
            "sentinel down-after-milliseconds {MASTER} {}",
            watch.down_after.as_millis()
        ),
        // The next attempt of a failover comes after twice this time.
        format!("sentinel failover-timeout {MASTER} 3000"),
        format!("sentinel parallel-syncs {MASTER} {}", watch.replicas.max(1)),
    ];
    lines.extend(
        watch
            .master_password
            .iter()
            .map(|password| format!("sentinel auth-pass {MASTER} {}", quote(password))),
    );
    if let Some(password) = &watch.password {
        lines.extend([
            format!("requirepass {}", quote(password)),
            format!("sentinel sentinel-pass {}", quote(password)),
        ]);
    }
    lines
}
