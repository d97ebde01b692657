//! Opens the connections of a node when a call needs them. Before a later use it asks again which
//! server is behind a connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Pipeline, RedisError, Value};
use storage_model::times;
use tokio::time::{Instant, timeout};

use super::connect::{Node, silent};
use super::diagnose::diagnose;
use super::lane::{Lane, OpenConnection, Ready, RuntimeWatch};
use super::server::{self, ServerInfo};
use super::transport::Dial;
use crate::redis::error::Failure;
use crate::redis::reply;
use crate::redis::scripts::SCRIPTS;

impl Node {
    /// The connection of a lane, opened or checked if need be. Callers that come meanwhile share a
    /// failure. Otherwise a thousand callers would try one after the other.
    pub(in crate::redis) async fn ready_in(&self, lane: &Arc<Lane>) -> Result<Ready, Failure> {
        if let Some(ready) = lane.ready().filter(is_believed) {
            return Ok(ready);
        }
        let ended =
            || Failure::NoConnection(format!("{}: the opening of a connection ended", self.name));
        let node = self.me.upgrade().ok_or_else(ended)?;
        let opened = Arc::clone(lane);
        let open = || async move {
            let ready = timeout(node.common.patience(), node.known_or_opened(&opened)).await;
            ready.unwrap_or_else(|_| {
                Err(Failure::NoConnection(format!(
                    "{} did not answer in time",
                    node.name
                )))
            })
        };
        Box::pin(lane.opening.join(self.common.patience() * 2, open))
            .await
            .unwrap_or_else(|| Err(ended()))
    }

    /// Asks over all open connections which server they lead to. If one leads to another server
    /// than before, all are retired.
    pub(in crate::redis) async fn ask_all(&self) {
        for ready in self.lanes.iter().filter_map(|lane| lane.ready()) {
            // A broken connection shows at its next use.
            let _ = self.asked_again(ready).await;
        }
    }

    async fn known_or_opened(&self, lane: &Lane) -> Result<Ready, Failure> {
        if let Some(ready) = lane.ready()
            && let Some(known) = self.asked_again(ready).await?
        {
            lane.confirm(&known);
            return Ok(known);
        }
        Ok(lane.fill(self.open().await?))
    }

    /// Asks the server of a connection whether it is still the same one. If it is not, or if the
    /// connection is broken, all connections are retired. Nothing of a call was sent yet. So a
    /// connection that broke while nobody used it costs no call its answer.
    async fn asked_again(&self, ready: Ready) -> Result<Option<Ready>, Failure> {
        let began = self.common.next_serial();
        let mut known = Ready {
            asked: Instant::now(),
            ..ready
        };
        let mut ask = redis::cmd("INFO");
        ask.arg("server").arg("replication");
        let answer = known
            .connection
            .req_packed_command(&ask)
            .await
            .map_err(Failure::from);
        if answer == Err(Failure::TimedOut) {
            self.timeouts.fetch_add(1, Ordering::Relaxed);
            self.retire(began);
            return answer.map(|_| None).map_err(|failure| self.unsent(failure));
        }
        let incarnation = answer
            .and_then(reply::text)
            .ok()
            .and_then(|info| server::primary(&info));
        if incarnation
            .is_some_and(|incarnation| self.common.number_of(&incarnation) == known.incarnation)
        {
            return Ok(Some(known));
        }
        self.retire(began);
        Ok(None)
    }

    /// Opens a connection and checks the server, in one round trip. A second round trip loads the
    /// scripts into a server that does not have them yet.
    async fn open(&self) -> Result<OpenConnection, Failure> {
        let (pooled, connection) = match &self.common.dial {
            Some(dial) => (None, self.dialled(dial.as_ref()).await?),
            None => {
                let pooled = self
                    .pool
                    .get()
                    .await
                    .map_err(|error| self.unopened(error))?;
                let connection = MultiplexedConnection::clone(&pooled);
                (Some(pooled), connection)
            }
        };
        let serial = self.common.next_serial();
        let ready = Ready {
            connection,
            incarnation: 0,
            serial,
            asked: Instant::now(),
        };
        let mut line = OpenConnection {
            pooled,
            ready,
            driven: RuntimeWatch::here(),
        };
        let text = reply::text(self.greet(&mut line).await?)?;
        let info = ServerInfo::parse(&text)?;
        line.ready.incarnation = self.common.number_of(&info.incarnation);
        self.judge(&info);
        if self.equipped.load(Ordering::Relaxed) != line.ready.incarnation {
            let mut load = Pipeline::new();
            for script in SCRIPTS.all() {
                load.cmd("SCRIPT").arg("LOAD").arg(script.source());
            }
            self.ask_first(&mut line, &load).await?;
            self.equipped
                .store(line.ready.incarnation, Ordering::Relaxed);
        }
        self.note_reached();
        Ok(line)
    }

    /// Logs in, selects the database and reads INFO, together. The scripts do not go along. A
    /// server that wants a login closes the connection over such a long command, without an answer.
    async fn greet(&self, line: &mut OpenConnection) -> Result<Value, Failure> {
        let settings = self.info.redis_settings();
        let mut greeting = Pipeline::new();
        let logs_in = settings.password().map(|password| {
            let login = greeting.cmd("AUTH");
            settings.username().map(|user| login.arg(user));
            login.arg(password);
        });
        let selects = (settings.db() != 0).then(|| greeting.cmd("SELECT").arg(settings.db()));
        let (logs_in, selects) = (logs_in.is_some(), selects.is_some());
        // A name for the server's list of clients. A server that does not know the command, or
        // forbids it, is used all the same.
        greeting
            .cmd("CLIENT")
            .arg("SETINFO")
            .arg("LIB-NAME")
            .arg("storage");
        greeting.cmd("INFO");
        let answers = line
            .ready
            .connection
            .send_packed_commands(&greeting, 0, greeting.len())
            .await;
        let mut answers = match answers {
            Ok(answers) => answers.into_iter(),
            Err(error) => return Err(self.broken(error).await),
        };
        let mut next = || answers.next().unwrap_or_default();
        if logs_in && let Value::ServerError(error) = next() {
            let failure = Failure::from(&error);
            if let Failure::NoConnection(_) = failure {
                return Err(self.unsent(failure));
            }
            return Err(self.unsent(Failure::server(
                "WRONGPASS",
                "the server refused user or password",
            )));
        }
        if selects && let Value::ServerError(error) = next() {
            let text = error.details().unwrap_or_default();
            return Err(self.unsent(Failure::server(
                "ERR",
                &format!("the server refused to switch database: {text}"),
            )));
        }
        drop(next());
        next()
            .extract_error()
            .map_err(|error| self.unsent(Failure::from(error)))
    }

    /// The meaning of a connection that broke before its first answer.
    async fn broken(&self, error: RedisError) -> Failure {
        let failure = Failure::from(error);
        // A server that was reached before is away for a moment, and callers wait for it.
        if let (Failure::Lost(_), None, false) = (&failure, &self.common.dial, self.was_reached())
            && let Some(cause) = diagnose(&self.info).await
        {
            return self.unsent(cause);
        }
        self.unsent(failure)
    }

    /// A connection over a stream that a test provides.
    async fn dialled(&self, dial: &dyn Dial) -> Result<MultiplexedConnection, Failure> {
        let stream = dial
            .dial(&self.name)
            .await
            .map_err(|error| Failure::NoConnection(format!("{}: {error}", self.name)))?;
        let config = self.common.connection_config();
        let connected = MultiplexedConnection::new_with_config(
            silent(&self.info).redis_settings(),
            stream,
            config,
        )
        .await;
        let (connection, driver) = connected.map_err(|error| self.unsent(Failure::from(error)))?;
        tokio::spawn(driver);
        Ok(connection)
    }

    /// The answers of a new connection. Nothing of a call was sent yet, so after any failure here
    /// the call did not take place.
    async fn ask_first(
        &self,
        line: &mut OpenConnection,
        pipeline: &Pipeline,
    ) -> Result<Vec<Value>, Failure> {
        let answers = line
            .ready
            .connection
            .req_packed_commands(pipeline, 0, pipeline.len())
            .await;
        let values = match answers {
            Ok(values) => values,
            Err(error) => return Err(self.broken(error).await),
        };
        values
            .into_iter()
            .map(|value| {
                value
                    .extract_error()
                    .map_err(|error| self.unsent(Failure::from(error)))
            })
            .collect()
    }
}

fn is_believed(ready: &Ready) -> bool {
    ready.asked.elapsed() < times::CONNECTION
}
