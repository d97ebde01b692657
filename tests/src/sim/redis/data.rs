//! All that a server holds and says of itself.

use super::keyspace::Keyspace;

/// A server's keys, its time and its names.
#[derive(Debug, Clone, Default)]
pub struct Data {
    /// The keys.
    pub keys: Keyspace,
    /// The server's time, microseconds since 1970. It stands still while a script runs.
    pub now: i64,
    /// How often the process was started, which names it.
    pub run: u64,
    /// How often the server became a primary, which names its history.
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

    /// What INFO says.
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
