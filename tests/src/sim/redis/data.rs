//! All data of a server, and its description of itself.

use super::keyspace::Keyspace;

/// A server's keys, its time and its names.
#[derive(Debug, Clone, Default)]
pub struct Data {
    /// The keys.
    pub keys: Keyspace,
    /// The server's time, in microseconds since 1970. It stands still while a script runs.
    pub now: i64,
    /// The number of times that the process was started. It names the process.
    pub run: u64,
    /// The number of times that the server became a primary. It names the server's history.
    pub replication: u64,
    /// Whether it follows another server.
    pub replica: bool,
    /// Whether it is at its memory limit.
    pub full: bool,
}

impl Data {
    /// Sets the time.
    pub fn set_now(&mut self, now: i64) {
        self.now = now;
        self.keys.set_now(now.div_euclid(1_000));
    }

    /// The answer to INFO.
    #[must_use]
    pub fn info(&self) -> String {
        let Self {
            run, replication, ..
        } = self;
        let role = if self.replica { "slave" } else { "master" };
        format!(
            "# Server\r\nredis_version:7.0.15\r\nrun_id:{run:040x}\r\n# Memory\r\nmaxmemory_policy:volatile-lru\r\n\
             # Replication\r\nrole:{role}\r\nconnected_slaves:0\r\nmaster_replid:{replication:040x}\r\n"
        )
    }
}
