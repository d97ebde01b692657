//! Streams of Redis that hold the events of the feed, for programs that read streams.

use std::fmt;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionInfo, Pipeline, Value};
use storage_config::{HotUrl, RedisSettings};
use storage_model::{Content, Event, Owner, Partition, Token};
use tokio::sync::Mutex;

use crate::HotError;
use crate::redis::connections::address::{self, Addresses};
use crate::redis::error::{Failure, hot_error};

/// One stream for each partition, on a Redis that is not the hot tier.
///
/// An entry's id is the position of its event. Redis takes only ids above the last one. So an event
/// that comes again changes nothing.
pub struct EventStream {
    info: ConnectionInfo,
    key_prefix: String,
    keep: u32,
    timeout: Duration,
    feed: Token,
    /// The connection, once it is open and the streams belong to the feed. Held for a whole call,
    /// so that calls follow each other.
    connection: Mutex<Option<MultiplexedConnection>>,
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream")
            .field("address", &address::label(&self.info))
            .field("key_prefix", &self.key_prefix)
            .finish_non_exhaustive()
    }
}

impl EventStream {
    /// Streams at `url`, which names one server. Their keys are `key_prefix` and the number of the
    /// partition. Redis keeps about `keep` entries of each, or all if it is 0. `feed` is the identity
    /// of the database with the events. Connects to nothing.
    ///
    /// # Errors
    /// The URL names no single server.
    pub fn new(
        url: &HotUrl,
        key_prefix: &str,
        keep: u32,
        timeout: Duration,
        feed: Token,
    ) -> Result<Self, HotError> {
        let info = match Addresses::of(&RedisSettings::new(url.clone())) {
            Ok(Addresses::Server(info)) => Ok(info),
            Ok(_) => Err(Failure::Settings(
                "a stream needs the URL of one server".to_owned(),
            )),
            Err(failure) => Err(failure),
        };
        Ok(Self {
            info: info.map_err(|failure| hot_error(failure, "open the streams", false, None))?,
            key_prefix: key_prefix.to_owned(),
            keep,
            timeout,
            feed,
            connection: Mutex::new(None),
        })
    }

    /// Appends events of a partition, in their order. Those that the stream has already change
    /// nothing. All are appended in one step, or none.
    ///
    /// # Errors
    /// Redis is away, full or refuses the login. Or the streams hold the events of another database.
    ///
    /// # Cancel safety
    /// The events of a dropped call may be in the stream or not. Repeating the call is harmless.
    pub async fn append(&self, partition: Partition, events: &[Event]) -> Result<(), HotError> {
        let appended = self.try_append(partition, events).await;
        appended.map_err(|failure| hot_error(failure, "append to a stream", true, None))
    }

    async fn try_append(&self, partition: Partition, events: &[Event]) -> Result<(), Failure> {
        let mut held = self.connection.lock().await;
        // Taken out, so that a connection with a failure or a dropped call is not used again.
        let mut connection = match held.take() {
            Some(connection) => connection,
            None => self.open().await?,
        };
        // ORDER: one transaction. If Redis took a later event and not an earlier one, for example
        // since it was full for a moment, it would never take the earlier one.
        let mut pipeline = Pipeline::with_capacity(events.len() + 2);
        pipeline.cmd("MULTI");
        for event in events {
            pipeline.add_command(self.entry(partition, event));
        }
        pipeline.cmd("EXEC");
        let count = pipeline.len();
        let answers = connection.send_packed_commands(&pipeline, 0, count).await?;
        judge(answers)?;
        *held = Some(connection);
        Ok(())
    }

    /// Opens a connection. The first one ever marks the streams as those of the feed.
    async fn open(&self) -> Result<MultiplexedConnection, Failure> {
        let client = Client::open(self.info.clone())?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            .set_response_timeout(Some(self.timeout));
        let opened = client.get_multiplexed_async_connection_with_config(&config);
        let mut connection = opened.await?;
        let (key, feed) = (format!("{}feed", self.key_prefix), self.feed.to_string());
        let mut pipeline = Pipeline::new();
        pipeline.cmd("SET").arg(&key).arg(&feed).arg("NX").ignore();
        pipeline.cmd("GET").arg(&key);
        let (known,): (String,) = pipeline.query_async(&mut connection).await?;
        if known == feed {
            return Ok(connection);
        }
        let prefix = &self.key_prefix;
        Err(Failure::Settings(format!(
            "the streams {prefix}… hold the events of another database: choose another key_prefix, or delete them and {key}"
        )))
    }

    /// The command that appends an event.
    fn entry(&self, partition: Partition, event: &Event) -> Cmd {
        let mut cmd = redis::cmd("XADD");
        cmd.arg(format!("{}{partition}", self.key_prefix));
        if self.keep > 0 {
            cmd.arg("MAXLEN").arg("~").arg(self.keep);
        }
        cmd.arg(event.position.to_string());
        match &event.content {
            Content::Note(note) => {
                cmd.arg("kind").arg("note");
                add_owner(&mut cmd, &note.owner);
                cmd.arg("version").arg(note.version.get());
                if let Some(previous) = note.previous {
                    cmd.arg("previous").arg(previous.get());
                }
                let counters: Vec<String> = note.counters.iter().map(i64::to_string).collect();
                cmd.arg("counters").arg(counters.join(" "));
                cmd.arg("body").arg(&note.body[..]);
            }
            Content::Resync { owner } => {
                cmd.arg("kind").arg("resync");
                add_owner(&mut cmd, owner);
            }
            _ => {
                cmd.arg("kind").arg("gap");
            }
        }
        cmd
    }
}

fn add_owner(cmd: &mut Cmd, owner: &Owner) {
    cmd.arg("app").arg(owner.app());
    cmd.arg("region").arg(owner.region());
    cmd.arg("logic_type").arg(owner.logic_type());
    cmd.arg("owner_id").arg(owner.id());
}

/// Whether a transaction appended all events, or found them there.
fn judge(answers: Vec<Value>) -> Result<(), Failure> {
    for answer in answers {
        match answer {
            Value::ServerError(error) => return Err(Failure::from(&error)),
            Value::Array(entries) => {
                for entry in entries {
                    match entry {
                        Value::ServerError(error) if !is_repeat(error.details()) => {
                            return Err(Failure::from(&error));
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether Redis refused an entry because it has its id, or a later one.
fn is_repeat(details: Option<&str>) -> bool {
    details.is_some_and(|details| details.contains("equal or smaller than the target stream"))
}
