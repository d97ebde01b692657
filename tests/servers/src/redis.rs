//! One Redis.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use crate::{
    clock::Clock,
    node::{Launch, Node, node_calls},
    port, program,
    resp::{Connection, Reply},
    tls::Certificates,
    url::escape,
};

/// The options of a Redis. Default: no persistence, no limit of memory, no password, no TLS.
///
/// It has no `Debug`, since it holds a password.
#[derive(Clone)]
pub struct RedisOptions {
    /// The server's program, a path or a name in `PATH`. Default: `redis-server`. `valkey-server`
    /// also works.
    pub program: PathBuf,
    /// Keep an append-only file that is synced before each answer (`appendfsync always`).
    /// Acknowledged writes survive a kill. Default: false, and no data is kept.
    pub appendonly: bool,
    /// Redis' `maxmemory`, such as `100mb`. Default: no limit.
    pub maxmemory: Option<String>,
    /// Redis' `maxmemory-policy`. Default: Redis' own, `noeviction`.
    pub maxmemory_policy: Option<String>,
    /// A user of the access control list with all rights. With it, the default user is switched
    /// off. Default: none, and a password is the default user's.
    pub user: Option<String>,
    /// The password that clients need. Default: none.
    pub password: Option<String>,
    /// Use TLS on the port, with an authority of its own ([`RedisServer::ca_pem`]). Default: false.
    pub tls: bool,
    /// Give the server a wall clock that [`RedisServer::skew`] moves. This takes a C compiler.
    /// Default: false.
    pub clock: bool,
    /// More arguments of the command line, such as `["--hz", "100"]`. Default: none.
    pub args: Vec<String>,
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self {
            program: "redis-server".into(),
            appendonly: false,
            maxmemory: None,
            maxmemory_policy: None,
            user: None,
            password: None,
            tls: false,
            clock: false,
            args: Vec::new(),
        }
    }
}

/// A running Redis with a folder of its own. Dropping it kills the server and removes the folder.
pub struct RedisServer {
    node: Node,
    options: RedisOptions,
    certificates: Option<Certificates>,
    clock: Option<Clock>,
}

impl RedisServer {
    /// Starts a Redis on a free port and returns when it accepts connections.
    ///
    /// # Errors
    /// [`Missing`](crate::Missing) if the program is not installed. Otherwise the last lines of the
    /// server's log.
    ///
    /// # Cancel safety
    /// A cancelled start leaves no server and no folder.
    pub async fn start(options: RedisOptions) -> Result<Self> {
        Self::start_node(options, None).await
    }

    /// Starts a Redis. With a node timeout, it waits to be joined to a cluster.
    pub(crate) async fn start_node(
        options: RedisOptions,
        node_timeout: Option<Duration>,
    ) -> Result<Self> {
        let program = program::find(&[&options.program], "redis-server")?;
        let folder =
            TempDir::with_prefix("storage-redis-").context("cannot make a temporary folder")?;
        let certificates = options
            .tls
            .then(|| Certificates::make(folder.path()))
            .transpose()?;
        let clock = options
            .clock
            .then(|| Clock::make(folder.path()))
            .transpose()?;
        let node = Node::start(folder, |port, folder| {
            let mut lines = config(&options, port, folder);
            lines.extend(
                certificates
                    .as_ref()
                    .map(|files| tls_config(files, port))
                    .into_iter()
                    .flatten(),
            );
            if let Some(timeout) = node_timeout {
                lines.extend(cluster_config(timeout, port::free()?));
            }
            let file = folder.join("redis.conf");
            fs::write(&file, lines.join("\n") + "\n")?;
            let args = [file.display().to_string()]
                .into_iter()
                .chain(options.args.iter().cloned())
                .collect();
            let (program, args) = match &clock {
                Some(clock) => clock.wrap(&program, args)?,
                None => (program.clone(), args),
            };
            Ok(Launch {
                program,
                args,
                ready: "Ready to accept connections",
            })
        })
        .await?;
        Ok(Self {
            node,
            options,
            certificates,
            clock,
        })
    }

    node_calls!();

    /// `redis://127.0.0.1:PORT`, or `rediss://` with TLS, with user and password if there are any.
    pub fn url(&self) -> String {
        let scheme = if self.options.tls { "rediss" } else { "redis" };
        format!("{scheme}://{}127.0.0.1:{}", self.credentials(), self.port())
    }

    /// The unix socket that the server listens on besides its port, without TLS.
    pub fn socket(&self) -> PathBuf {
        socket(self.folder())
    }

    /// The certificate of the authority that signed the server's certificate, as PEM. `None`
    /// without TLS.
    pub fn ca_pem(&self) -> Option<&Path> {
        self.certificates.as_ref().map(|files| files.ca.as_path())
    }

    /// Moves the server's wall clock to this number of seconds after (or before) the true time. The
    /// offset holds until the next call, and a restart does not undo it. The server's monotonic
    /// clock goes on.
    ///
    /// # Errors
    /// The server was started without [`RedisOptions::clock`], or the offset is beyond 292,000
    /// years.
    pub fn skew(&self, seconds: i64) -> Result<()> {
        let micros = seconds
            .checked_mul(1_000_000)
            .context("such an offset of a clock is too large")?;
        self.clock
            .as_ref()
            .context("this server was started without a clock that moves")?
            .set(micros)
    }

    /// Sends one command over a new connection and returns the answer.
    ///
    /// # Errors
    /// The server is down or paused, or answered with an error. That error is the root cause of
    /// this one.
    ///
    /// # Cancel safety
    /// The server may or may not have run a cancelled command.
    pub async fn call<A: AsRef<[u8]>>(&self, args: &[A]) -> Result<Reply> {
        let mut connection = Connection::open(&self.socket()).await?;
        match (&self.options.user, &self.options.password) {
            (Some(user), password) => {
                connection
                    .call(&["AUTH", user, password.as_deref().unwrap_or_default()])
                    .await?;
            }
            (None, Some(password)) => {
                connection.call(&["AUTH", password]).await?;
            }
            (None, None) => {}
        }
        connection.call(args).await
    }

    /// Makes this server a replica of another one, and returns when it is in sync. Both must be
    /// without a password.
    ///
    /// # Errors
    /// A server is down, or they are not in sync within a minute.
    ///
    /// # Cancel safety
    /// A cancelled call may leave it a replica.
    pub async fn follow(&self, master: &Self) -> Result<()> {
        master
            .call(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"])
            .await?;
        self.call(&["REPLICAOF", "127.0.0.1", &master.port().to_string()])
            .await?;
        let line = format!("port={},state=online", self.port());
        let online = async {
            while !master
                .call(&["INFO", "replication"])
                .await?
                .text()?
                .contains(&line)
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Ok(())
        };
        tokio::time::timeout(Duration::from_secs(60), online)
            .await
            .context("the replica is not in sync")?
    }

    /// Waits until the master knows that this replica has all writes so far.
    ///
    /// # Errors
    /// A server is down, or the replica does not catch up within a minute.
    pub async fn caught_up(&self, master: &Self) -> Result<()> {
        let line = format!("port={},state=online,offset=", self.port());
        let number = |text: &str| text.split(['\r', ',']).next()?.parse::<u64>().ok();
        let heard = async {
            loop {
                let info = master.call(&["INFO", "replication"]).await?;
                let of = |name: &str| {
                    info.text()
                        .ok()?
                        .split_once(name)
                        .and_then(|(_, rest)| number(rest))
                };
                if of(&line).is_some() && of(&line) == of("master_repl_offset:") {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), heard)
            .await
            .context("the replica has not caught up")?
    }

    /// Makes a replica a master, as a failover does.
    ///
    /// # Errors
    /// The server is down.
    ///
    /// # Cancel safety
    /// A cancelled call may or may not have taken place.
    pub async fn promote(&self) -> Result<()> {
        self.call(&["REPLICAOF", "NO", "ONE"]).await.map(drop)
    }

    pub(crate) fn password(&self) -> Option<&str> {
        self.options.password.as_deref()
    }

    /// `user:password@` for a URL, or nothing.
    pub(crate) fn credentials(&self) -> String {
        let part = |text: &Option<String>| escape(text.as_deref().unwrap_or_default());
        match (&self.options.user, &self.options.password) {
            (None, None) => String::new(),
            (user, password) => format!("{}:{}@", part(user), part(password)),
        }
    }
}

impl fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisServer")
            .field("port", &self.port())
            .field("pid", &self.pid())
            .finish_non_exhaustive()
    }
}

pub(crate) fn socket(folder: &Path) -> PathBuf {
    folder.join("redis.sock")
}

/// The lines of the configuration file. It is a file, because other users can read a command line
/// with its password.
fn config(options: &RedisOptions, port: u16, folder: &Path) -> Vec<String> {
    let mut lines = vec![
        "bind 127.0.0.1".to_owned(),
        format!("port {}", if options.tls { 0 } else { port }),
        format!("dir {}", quote(folder)),
        format!("unixsocket {}", quote(socket(folder))),
        "save \"\"".to_owned(),
        "enable-debug-command yes".to_owned(),
    ];
    if options.appendonly {
        lines.extend(["appendonly yes".to_owned(), "appendfsync always".to_owned()]);
    }
    lines.extend(
        options
            .maxmemory
            .iter()
            .map(|limit| format!("maxmemory {limit}")),
    );
    lines.extend(
        options
            .maxmemory_policy
            .iter()
            .map(|policy| format!("maxmemory-policy {policy}")),
    );
    match (&options.user, &options.password) {
        (None, None) => {}
        // A replica of a cluster needs the password of its master. Both have the same password.
        (None, Some(password)) => {
            lines.extend(
                ["requirepass", "masterauth"].map(|name| format!("{name} {}", quote(password))),
            );
        }
        (Some(user), password) => {
            let password = password
                .as_ref()
                .map_or("nopass".to_owned(), |password| format!(">{password}"));
            lines.push("user default off".to_owned());
            lines.push(format!(
                "user {} on {} ~* &* +@all",
                quote(user),
                quote(&password)
            ));
        }
    }
    lines
}

fn tls_config(files: &Certificates, port: u16) -> [String; 5] {
    [
        format!("tls-port {port}"),
        format!("tls-ca-cert-file {}", quote(&files.ca)),
        format!("tls-cert-file {}", quote(&files.certificate)),
        format!("tls-key-file {}", quote(&files.key)),
        "tls-auth-clients no".to_owned(),
    ]
}

/// The bus has a free port of its own: Redis' default, 10,000 above the main port, may be taken.
fn cluster_config(node_timeout: Duration, bus_port: u16) -> [String; 5] {
    [
        "cluster-enabled yes".to_owned(),
        "cluster-config-file nodes.conf".to_owned(),
        format!("cluster-port {bus_port}"),
        format!("cluster-node-timeout {}", node_timeout.as_millis()),
        "repl-diskless-sync-delay 0".to_owned(),
    ]
}

/// A word of the configuration file.
pub(crate) fn quote(word: impl AsRef<std::ffi::OsStr>) -> String {
    let word = word.as_ref().to_string_lossy();
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}
