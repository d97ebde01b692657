//! The section `sessions`: one server at a time writes an owner.

use std::time::Duration;

use crate::entry::{Entry, Section, between, matching};
use crate::landing::{NAME, is_name};

/// How long a silent server keeps its owners, and how many owners it may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSettings {
    /// The name of this server for other servers that ask it for an owner. Up to 64 bytes without
    /// control characters. Default: none (empty in a file), which means host and process id. The
    /// name is for people alone: two servers of one name are two holders.
    pub name: Option<String>,
    /// How long a server must be silent until its sessions lapse. 1 s to 10 min. Default: 10 s. A
    /// shorter lease frees the owners of a crashed server sooner. A longer lease tolerates longer
    /// pauses. All game servers and workers need the same value.
    pub lease: Duration,
    /// The most sessions of one process. 1 to 10,000,000. Default: 100,000. Each session keeps its
    /// owner in Redis.
    pub max: u32,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            name: None,
            lease: Duration::from_secs(10),
            max: 100_000,
        }
    }
}

impl Section for SessionSettings {
    fn entries(&mut self) -> Vec<Entry<'_>> {
        vec![
            Entry::new("name", &mut self.name, matching(NAME, is_name)),
            Entry::new(
                "lease",
                &mut self.lease,
                between(Duration::from_secs(1), Duration::from_mins(10)),
            ),
            Entry::new("max", &mut self.max, between(1, 10_000_000)),
        ]
    }
}
