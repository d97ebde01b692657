//! The section `sessions`: one server at a time writes an owner.

use crate::section::prelude::*;

section! {
    /// How long a silent server keeps its owners, and how many owners it may hold.
    SessionSettings;

    /// The name of this server for other servers that ask it for an owner. Up to 64 bytes without
    /// control characters. Default: none (empty in a file), which means host and process id. The
    /// name is for people alone: two servers of one name are two holders.
    name: Option<String> = None, PROCESS;
    /// How long a server must be silent until its sessions lapse. 1 s to 10 min. Default: 10 s. A
    /// shorter lease frees the owners of a crashed server sooner. A longer lease tolerates longer
    /// pauses. All game servers and workers need the same value.
    lease: Duration as "crate::duration" = Duration::from_secs(10), Time("1s", "10m");
    /// The most sessions of one process. 1 to 10,000,000. Default: 100,000. Each session keeps its
    /// owner in Redis.
    max: u32 = 100_000, Number(1, 10_000_000);
}
