//! How often each layer tries again. Each cause of a retry has one number, and one loop.
//!
//! A call that needs more attempts ends with an error, so the worst case of each call is known. The
//! book states it (`inside-connections.md`, Retries).

/// Sends of one command to the nodes of a cluster or of Sentinels. It covers redirections and the
/// time of a failover. No attempt begins after the time that a call may take.
pub const SENDS: u32 = 12;

/// Rounds in which a command meets a server whose records are not verified. The server may change
/// once more while its records are compared. The last round asks all connections first.
pub const VERIFICATIONS: u32 = 3;

/// Attempts of a call of writes to get a number. It gets none if another call began first.
pub const NUMBERS: u32 = 16;

/// Attempts of work on one owner. An attempt fails only if a write of the owner, or a takeover of
/// its partition, came in between. A load that another process makes counts, too.
pub const OWNER: u32 = 64;

/// Attempts to change an object. More than [`OWNER`], since many callers may change one object, and
/// one of them succeeds in each round.
pub const MODIFY: u32 = 256;

/// Looks at an owner that is compared in both tiers. A comparison only reports an owner that is
/// written each time.
pub const COMPARE: u32 = 5;

/// Adoptions that one write meets. Only one happens at a time.
pub const MOVES: u32 = 16;

/// Rounds of a preparation, a pairing or an adoption. More than any sequence of concurrent
/// takeovers needs.
pub const TAKEOVERS: u32 = 32;

/// Attempts of a landing step for one partition. An attempt fails only if another landing of the
/// partition committed in between.
pub const LANDING: u32 = 64;

/// Attempts of a landing step for several partitions in one transaction. Flushes may move one of
/// the many fences again and again. A partition alone gets through.
pub const LANDING_TOGETHER: u32 = 4;

/// Attempts of a flush, which is a landing of one owner. More than [`LANDING`], since flushes of
/// many callers in one partition move each other's fence.
pub const FLUSH: u32 = 256;
