//! One server and the few long-lived connections to it, which every call shares.
//!
//! The pool opens connections and bounds how many there are. Calls do not check connections out. A
//! connection is *retired* if it breaks, times out or answers that the server's role has changed.
//! The next call opens another (`opening.rs`). Before anything else is sent on it, the node reads
//! the server's version, policy and incarnation, and loads the scripts if they may be missing.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use deadpool_redis::{Manager, Pool, Runtime};
use redis::aio::MultiplexedConnection;
use redis::{ConnectionInfo, Pipeline, RedisConnectionInfo, Value};
use storage_model::Durability;

use super::address;
use super::barrier::WaitingWrites;
use super::common::Common;
use super::lane::{Lane, Passage, Ready};
use super::rights::Rights;
use super::server::ServerInfo;
use super::transport::{Answer, Command, Under};
use crate::redis::error::Failure;
use crate::redis::reply;
use crate::redis::scripts;
use storage_coalesce::locked;

/// How many connections there are for writes that wait, beside those that all calls share.
const WAITING: usize = 2;

/// How many calls share one connection before the next is used, too. On one connection both sides
/// read and write more at once, which costs each call less. On another connection a call does not
/// wait for the answers of a crowd, or for a large answer among them.
const CROWD: usize = 128;

/// One server.
pub(crate) struct Node {
    /// Itself, for tasks that outlive a call.
    pub(in crate::redis) me: Weak<Node>,
    pub(crate) info: ConnectionInfo,
    pub(crate) name: String,
    pub(in crate::redis) common: Arc<Common>,
    pub(in crate::redis) pool: Pool,
    /// The connections that all calls share.
    pub(in crate::redis) lanes: Vec<Arc<Lane>>,
    /// Writes that wait for replicas, and writes that wait for the disk.
    replicated: WaitingWrites,
    fsynced: WaitingWrites,
    /// The number of timeouts in a row. Written after each exchange.
    pub(in crate::redis) timeouts: AtomicU32,
    /// The incarnation that has all scripts, as far as is known. 0 for none. Written when the
    /// scripts were loaded, and when one was missing.
    pub(in crate::redis) equipped: AtomicU64,
    /// Why the server can't be trusted with unlanded data. Written when a connection is opened and
    /// by `recheck`.
    unsafe_policy: Mutex<Option<String>>,
    pub(in crate::redis) rights: Rights,
    /// Whether a connection was ever opened. Then the settings are right.
    reached: AtomicBool,
}

impl Node {
    /// A node without connections. The first call opens one.
    pub(crate) fn new(info: ConnectionInfo, common: &Arc<Common>) -> Result<Arc<Self>, Failure> {
        let manager = Manager::new_with_config(silent(&info), common.connection_config())
            .map_err(Failure::from)?;
        let pool = Pool::builder(manager)
            .max_size(common.connections.saturating_add(WAITING))
            .wait_timeout(Some(common.wait_timeout))
            .create_timeout(Some(common.connect_timeout))
            .recycle_timeout(Some(common.connect_timeout))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| Failure::Settings(error.to_string()))?;
        Ok(Arc::new_cyclic(|me| Self {
            me: me.clone(),
            name: address::label(&info),
            info,
            common: common.clone(),
            pool,
            lanes: (0..common.connections).map(|_| Arc::default()).collect(),
            replicated: WaitingWrites::default(),
            fsynced: WaitingWrites::default(),
            timeouts: AtomicU32::new(0),
            equipped: AtomicU64::new(0),
            unsafe_policy: Mutex::new(None),
            rights: Rights::default(),
            reached: AtomicBool::new(false),
        }))
    }

    /// Sends commands in one pipeline. The answers come in order. With `asking`, an ASKING goes
    /// before each command, on the same connection. Then the server's incarnation does not matter,
    /// since the slot is only on its way there.
    pub(crate) async fn pipeline(&self, commands: &[&Command], asking: bool) -> Vec<Answer> {
        match self.ready(commands.len()).await {
            Ok((ready, _passage)) => self.send_on(ready, commands, asking).await,
            Err(failure) => commands.iter().map(|_| Err(failure.clone())).collect(),
        }
    }

    /// Sends one command.
    pub(crate) async fn single(&self, command: &Command) -> Answer {
        let (ready, _passage) = self.ready(1).await?;
        if let Some(refusal) = self.refusal(command, &ready, false) {
            return Err(refusal);
        }
        if self.common.is_intercepted() {
            return Box::pin(self.send_on(ready, &[command], false))
                .await
                .pop()
                .unwrap_or(Err(Failure::TimedOut));
        }
        let (mut connection, began) = (ready.connection, self.common.next_serial());
        let answer = connection
            .send_packed_command(&command.cmd)
            .await
            .map_err(Failure::from);
        self.learn(began, answer.as_ref().map(std::slice::from_ref));
        match answer? {
            Value::ServerError(error) => Err(Failure::from(&error)),
            value => Ok(value),
        }
    }

    pub(in crate::redis) fn was_reached(&self) -> bool {
        self.reached.load(Ordering::Relaxed)
    }

    pub(in crate::redis) fn note_reached(&self) {
        self.reached.store(true, Ordering::Relaxed);
    }

    /// As [`Node::pipeline`], on this connection.
    pub(in crate::redis) async fn send_on(
        &self,
        ready: Ready,
        commands: &[&Command],
        asking: bool,
    ) -> Vec<Answer> {
        let refusals: Vec<_> = commands
            .iter()
            .map(|command| self.refusal(command, &ready, asking))
            .collect();
        let sent: Vec<&Command> = commands
            .iter()
            .zip(&refusals)
            .filter(|(_, refusal)| refusal.is_none())
            .map(|(command, _)| *command)
            .collect();
        let began = self.common.next_serial();
        let exchanged = if sent.is_empty() {
            Ok(Vec::new())
        } else {
            self.exchange(ready.connection, &sent, asking).await
        };
        self.learn(began, exchanged.as_deref());
        let mut values = exchanged.map(Vec::into_iter);
        let mut next = || match &mut values {
            Ok(values) => match values.next() {
                Some(Value::ServerError(error)) => Err(Failure::from(&error)),
                Some(value) => Ok(value),
                None => Err(Failure::Nonsense("fewer answers than commands".to_owned())),
            },
            Err(failure) => Err(failure.clone()),
        };
        refusals
            .into_iter()
            .map(|refusal| refusal.map_or_else(&mut next, Err))
            .collect()
    }

    /// Whether the server is still the incarnation that the connection was opened to. If it is not,
    /// all connections are retired.
    pub(in crate::redis) fn is_still(&self, info: &ServerInfo, ready: &Ready) -> bool {
        self.judge(info);
        let same = self.common.number_of(&info.incarnation) == ready.incarnation;
        if !same {
            self.retire(self.common.next_serial());
        }
        same
    }

    /// The writes that wait for the same kind of durability.
    pub(in crate::redis) fn waiting(&self, until: Durability) -> &WaitingWrites {
        if matches!(until, Durability::Replicated { .. }) {
            &self.replicated
        } else {
            &self.fsynced
        }
    }

    /// How long one answer may take.
    pub(in crate::redis) fn response_timeout(&self) -> Duration {
        self.common.response_timeout
    }

    /// Whether the node has stopped answering.
    pub(crate) fn is_hung(&self) -> bool {
        self.timeouts.load(Ordering::Relaxed) >= 2
    }

    /// Reads the server's INFO again. Fails if the server can't be trusted with unlanded data, or
    /// if the user lacks a right that the scripts need.
    pub(crate) async fn recheck(&self) -> Result<(), Failure> {
        if self.common.read_only {
            self.info().await?;
        } else {
            let (_, rights) = self.ask(&[&scripts::rights(&self.common.some_key)]).await?;
            self.rights
                .learn(&self.name, rights.into_iter().next().unwrap_or_default())?;
        }
        locked(&self.unsafe_policy)
            .clone()
            .map_or(Ok(()), |why| Err(Failure::Policy(why)))
    }

    /// The server's INFO now.
    pub(crate) async fn info(&self) -> Result<ServerInfo, Failure> {
        Ok(self.ask(&[]).await?.0)
    }

    /// The server's INFO now, and its answers to more commands.
    async fn ask(&self, more: &[&Command]) -> Result<(ServerInfo, Vec<Value>), Failure> {
        let (ready, _passage) = self.ready(1).await?;
        let (incarnation, began) = (ready.incarnation, self.common.next_serial());
        let command = Command::read("info", 0, redis::cmd("INFO"));
        let exchanged = self
            .exchange(ready.connection, &[&[&command], more].concat(), false)
            .await;
        self.learn(began, exchanged.as_deref());
        let mut answers = exchanged?.into_iter();
        let value = answers.next().unwrap_or_default();
        let info = ServerInfo::parse(&reply::text(value.extract_error().map_err(Failure::from)?)?);
        if !info
            .as_ref()
            .is_ok_and(|info| self.common.number_of(&info.incarnation) == incarnation)
        {
            self.retire(began);
        }
        let info = info?;
        self.judge(&info);
        Ok((info, answers.collect()))
    }

    /// Why a command must not be sent on this connection.
    pub(in crate::redis) fn refusal(
        &self,
        command: &Command,
        ready: &Ready,
        asking: bool,
    ) -> Option<Failure> {
        match command.under {
            Under::Incarnation(number) if number != ready.incarnation && !asking => {
                return Some(Failure::Unverified);
            }
            _ => {}
        }
        if command.writes && self.common.read_only {
            return Some(Failure::Settings(
                "the hot tier is open for reading only; nothing was written".to_owned(),
            ));
        }
        if !command.needs_policy {
            return None;
        }
        locked(&self.unsafe_policy)
            .clone()
            .map(Failure::Policy)
            .or_else(|| self.rights.lacks())
    }

    async fn exchange(
        &self,
        mut connection: MultiplexedConnection,
        commands: &[&Command],
        asking: bool,
    ) -> Result<Vec<Value>, Failure> {
        if !self.common.is_intercepted() {
            return send(&mut connection, commands, asking).await;
        }
        let names: Vec<_> = commands.iter().map(|command| command.name).collect();
        self.common.pass(&names).await?;
        let mut values = send(&mut connection, commands, asking).await?;
        if self.common.passes_again(&names).await {
            values = send(&mut connection, commands, asking).await?;
        }
        self.common.passed(&names).await?;
        Ok(values)
    }

    /// Learns from an exchange whether the node hangs, and whether its connections can still be
    /// used.
    fn learn(&self, began: u64, exchanged: Result<&[Value], &Failure>) {
        let broken = match exchanged {
            Ok(values) => {
                self.timeouts.store(0, Ordering::Relaxed);
                let mut broken = false;
                for value in values {
                    let Value::ServerError(error) = value else {
                        continue;
                    };
                    self.rights.hear(&self.name, error);
                    broken |= changes_role(error.code());
                    if error.code() == "NOSCRIPT" {
                        self.equipped.store(0, Ordering::Relaxed);
                    }
                }
                broken
            }
            Err(failure) => {
                if *failure == Failure::TimedOut {
                    self.timeouts.fetch_add(1, Ordering::Relaxed);
                }
                true
            }
        };
        if broken {
            self.retire(began);
        }
    }

    /// Retires all connections that were open when an exchange began. A failure of one connection
    /// mostly means a failure of all. A write on a dead connection ends with an unknown outcome.
    pub(in crate::redis) fn retire(&self, began: u64) {
        for lane in self
            .lanes
            .iter()
            .chain([&self.replicated.lane, &self.fsynced.lane])
        {
            lane.retire(began);
        }
    }

    /// A connection for a call with this many commands, opened if need be. It is the first that is
    /// not crowded, or the one with the fewest calls. Calls with several commands begin at the
    /// second connection. So few callers that ask for one thing wait behind all these answers.
    async fn ready(&self, commands: usize) -> Result<(Ready, Passage<'_>), Failure> {
        let mut lanes = self
            .lanes
            .iter()
            .cycle()
            .skip(usize::from(commands > 1))
            .take(self.lanes.len());
        let lane = lanes
            .find(|lane| lane.calls() < CROWD)
            .or_else(|| self.lanes.iter().min_by_key(|lane| lane.calls()))
            .ok_or_else(|| Failure::Settings("no connection is allowed".to_owned()))?;
        let passage = lane.enter();
        Ok((self.ready_in(lane).await?, passage))
    }

    pub(in crate::redis) fn judge(&self, info: &ServerInfo) {
        let mut policy = locked(&self.unsafe_policy);
        if *policy != info.unsafe_policy {
            if let Some(why) = &info.unsafe_policy {
                tracing::error!(node = %self.name, why, "writes are refused");
            }
            policy.clone_from(&info.unsafe_policy);
        }
    }
}

/// Sends commands over a connection and waits for their answers.
async fn send(
    connection: &mut MultiplexedConnection,
    commands: &[&Command],
    asking: bool,
) -> Result<Vec<Value>, Failure> {
    if let ([command], false) = (commands, asking) {
        return Ok(vec![connection.send_packed_command(&command.cmd).await?]);
    }
    let mut pipeline = Pipeline::with_capacity(commands.len() * 2);
    for command in commands {
        if asking {
            pipeline.cmd("ASKING");
        }
        pipeline.add_command(command.cmd.clone());
    }
    let count = pipeline.len();
    let values = connection.send_packed_commands(&pipeline, 0, count).await?;
    Ok(if asking {
        values.into_iter().skip(1).step_by(2).collect()
    } else {
        values
    })
}

/// The address as the driver gets it. The driver then sends nothing by itself over a new
/// connection, which would cost a round trip of its own. `opening.rs` sends all of that at once.
pub(in crate::redis) fn silent(info: &ConnectionInfo) -> ConnectionInfo {
    info.clone()
        .set_redis_settings(RedisConnectionInfo::default().set_skip_set_lib_name())
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Whether after this error the server may be another one, or may have forgotten the scripts.
fn changes_role(code: &str) -> bool {
    matches!(
        code,
        "READONLY" | "MOVED" | "LOADING" | "MASTERDOWN" | "NOSCRIPT"
    )
}
