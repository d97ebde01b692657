//! The faults, by name.
//!
//! | module | breaks |
//! | --- | --- |
//! | [`process`] | landing workers and game servers |
//! | [`hot`] | Redis, a single server |
//! | [`rewind`] | Redis comes back older, or empty |
//! | [`cluster`] | a Redis Cluster |
//! | [`cold`] | the database |
//! | [`link`] | the links between them |
//! | [`phase`] | the phase of landing in which a fault hits |

pub mod cluster;
pub mod cold;
pub mod hot;
pub mod link;
pub mod phase;
pub mod process;
pub mod rewind;

use anyhow::Result;
use rand::RngExt as _;
use rand::rngs::StdRng;

use super::arena::Arena;
use super::args::Topology;
use Topology::{Cluster, Embedded, Single};
pub use phase::Phase;

/// The part that a fault breaks. Faults of different groups happen at the same time, and those of
/// one group one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Processes.
    Process,
    /// The hot tier and the links to it.
    Hot,
    /// The cold tier and the links to it.
    Cold,
}

macro_rules! faults {
    ($($(#[doc = $doc:literal])* $fault:ident $name:literal $group:ident [$($topology:ident),*] [$($phase:ident),*];)*) => {
        /// A fault.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Fault { $($(#[doc = $doc])* $fault,)* }

        impl Fault {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$fault,)*];

            /// Its name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$fault => $name,)* }
            }

            /// Its group.
            #[must_use]
            pub fn group(self) -> Group {
                match self { $(Self::$fault => Group::$group,)* }
            }

            /// The topologies where it makes sense.
            #[must_use]
            pub fn topologies(self) -> &'static [Topology] {
                match self { $(Self::$fault => &[$($topology),*],)* }
            }

            /// The phases that a fault must hit in a run that is long enough.
            #[must_use]
            pub fn phases(self) -> &'static [Phase] {
                match self { $(Self::$fault => &[$(Phase::$phase),*],)* }
            }
        }
    };
}

faults! {
    /// SIGKILL of a landing worker.
    WorkerKill "worker-kill" Process [Single, Cluster] [Marked, Snapshot, HalfSettled];
    /// SIGSTOP of a landing worker for longer than its locks live.
    WorkerPause "worker-pause" Process [Single, Cluster] [Marked, Snapshot, HalfSettled];
    /// SIGTERM of a landing worker.
    WorkerTerm "worker-term" Process [Single, Cluster] [Snapshot, HalfSettled];
    /// SIGKILL of a game server.
    GameKill "game-kill" Process [Single, Cluster, Embedded] [Writing];
    /// SIGSTOP of a game server for longer than the deadline of its writes.
    GamePause "game-pause" Process [Single, Cluster, Embedded] [Writing];
    /// A game server closes its storage in order, and opens it again.
    GameReopen "game-reopen" Process [Embedded] [Writing];
    /// Another program holds the database's file.
    FileLock "file-lock" Process [Embedded] [Writing];
    /// SIGKILL of Redis and a restart with its append-only file.
    RedisKill "redis-kill" Hot [Single] [Writing, Snapshot];
    /// SIGSTOP of Redis for longer than the wait for replies.
    RedisPause "redis-pause" Hot [Single] [Writing, Snapshot];
    /// Redis comes back with its data of some time ago.
    RedisRewind "redis-rewind" Hot [Single] [Writing, Snapshot];
    /// Redis comes back empty.
    RedisWipe "redis-wipe" Hot [Single] [Writing];
    /// SCRIPT FLUSH.
    ScriptFlush "script-flush" Hot [Single, Cluster] [Writing, Snapshot];
    /// A memory limit at which Redis evicts clean hashes and then rejects writes.
    Memory "memory" Hot [Single, Cluster] [Writing, Snapshot];
    /// Redis' clock steps back and forth.
    Clock "clock" Hot [Single, Cluster] [Writing, Snapshot];
    /// SIGKILL of a master. Its replica takes over, and the old master comes back as a replica.
    MasterKill "master-kill" Hot [Cluster] [Writing, Snapshot];
    /// SIGSTOP of a master, in most cases long enough for its replica to take over.
    MasterPause "master-pause" Hot [Cluster] [Writing, Snapshot];
    /// A slot moves to another master.
    SlotMove "slot-move" Hot [Cluster] [Writing, Snapshot];
    /// Requests to Redis and replies of Redis arrive late.
    HotDelay "hot-delay" Hot [Single] [Writing];
    /// Connections to Redis are cut.
    HotCut "hot-cut" Hot [Single] [Writing, Snapshot];
    /// Connections to Redis fall silent. The bytes that they held back arrive later.
    HotSilent "hot-silent" Hot [Single] [Writing, Snapshot];
    /// Present connections to Redis fall silent, and new ones do not. The bytes of the old ones
    /// arrive after those of the new ones.
    HotStuck "hot-stuck" Hot [Single] [Writing, Snapshot];
    /// Replies of Redis are lost after the command was carried out.
    HotLost "hot-lost" Hot [Single] [Writing, Snapshot];
    /// Bytes to and from Redis come in pieces.
    HotThrottle "hot-throttle" Hot [Single] [Writing];
    /// SIGKILL of the database and a restart.
    DbKill "db-kill" Cold [Single, Cluster] [Writing, Snapshot];
    /// SIGSTOP of the database, which makes it very slow.
    DbPause "db-pause" Cold [Single, Cluster] [Writing, Snapshot];
    /// The database takes no writes.
    DbReadOnly "db-read-only" Cold [Single, Cluster] [Snapshot];
    /// The database has no connections left.
    DbConnections "db-connections" Cold [Single, Cluster] [Snapshot];
    /// A foreign transaction holds rows that wait to land.
    DbLock "db-lock" Cold [Single, Cluster] [Snapshot];
    /// Foreign transactions lock rows in the opposite order.
    DbDeadlock "db-deadlock" Cold [Single, Cluster] [Snapshot];
    /// Sessions are killed, some in the middle of a batch.
    DbSessions "db-sessions" Cold [Single, Cluster] [Writing, Snapshot];
    /// The database rejects some values for a while.
    DbPoison "db-poison" Cold [Single, Cluster] [Writing];
    /// The database takes smaller packets than some values.
    DbPacket "db-packet" Cold [Single, Cluster] [Writing];
    /// Statements to the database and its replies arrive late.
    ColdDelay "cold-delay" Cold [Single, Cluster] [Writing, Snapshot];
    /// Connections to the database are cut.
    ColdCut "cold-cut" Cold [Single, Cluster] [Writing, Snapshot];
    /// Connections to the database fall silent. The bytes that they held back arrive later.
    ColdSilent "cold-silent" Cold [Single, Cluster] [Snapshot];
    /// Present connections to the database fall silent, and new ones do not. The bytes of the old
    /// ones arrive later.
    ColdStuck "cold-stuck" Cold [Single, Cluster] [Snapshot];
    /// Replies of the database are lost after the statement was carried out. The reply to a COMMIT
    /// is among them.
    ColdLost "cold-lost" Cold [Single, Cluster] [Snapshot];
    /// Bytes to and from the database come in pieces.
    ColdThrottle "cold-throttle" Cold [Single, Cluster] [Snapshot];
}

impl Fault {
    /// The fault of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|fault| fault.name() == name)
    }

    /// The kind of process that it ends by SIGKILL, if there is one.
    #[must_use]
    pub fn kills(self) -> Option<&'static str> {
        match self {
            Self::WorkerKill => Some("landing worker"),
            Self::GameKill => Some("game server"),
            Self::RedisKill | Self::RedisRewind | Self::RedisWipe | Self::MasterKill => {
                Some("Redis")
            }
            Self::DbKill => Some("database"),
            _ => None,
        }
    }

    /// Makes it happen, in this phase if possible, and repairs the damage. Returns the phase in
    /// which it hit.
    ///
    /// # Errors
    /// The fault can't be made, or its damage can't be repaired.
    pub async fn inject(
        self,
        arena: &Arena,
        wanted: Phase,
        rng: &mut StdRng,
    ) -> Result<Option<Phase>> {
        match self {
            Self::WorkerKill | Self::WorkerPause | Self::WorkerTerm => {
                process::worker(self, arena, wanted, rng).await
            }
            Self::GameKill => process::game_kill(arena, rng).await,
            Self::GamePause => process::game_pause(arena, rng).await,
            Self::GameReopen | Self::FileLock => {
                anyhow::bail!("an embedded game server has faults of its own")
            }
            Self::MasterKill | Self::MasterPause | Self::SlotMove => {
                cluster::inject(self, arena, wanted, rng).await
            }
            Self::RedisRewind | Self::RedisWipe => rewind::inject(self, arena, wanted, rng).await,
            Self::RedisKill | Self::RedisPause | Self::ScriptFlush | Self::Memory | Self::Clock => {
                hot::inject(self, arena, wanted, rng).await
            }
            Self::HotDelay
            | Self::HotCut
            | Self::HotSilent
            | Self::HotStuck
            | Self::HotLost
            | Self::HotThrottle => link::inject(self, arena, wanted, rng).await,
            Self::ColdDelay
            | Self::ColdCut
            | Self::ColdSilent
            | Self::ColdStuck
            | Self::ColdLost
            | Self::ColdThrottle => {
                let _calm = arena.calm.lock().await;
                link::inject(self, arena, wanted, rng).await
            }
            _ => {
                let _calm = arena.calm.lock().await;
                cold::inject(self, arena, wanted, rng).await
            }
        }
    }
}

/// A random time between these numbers of milliseconds.
fn pause(rng: &mut StdRng, between: std::ops::Range<u64>) -> std::time::Duration {
    std::time::Duration::from_millis(rng.random_range(between))
}
