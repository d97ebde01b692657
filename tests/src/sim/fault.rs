//! The faults that can hit the system.

use std::fmt;

macro_rules! faults {
    ($($(#[doc = $doc:literal])* $name:ident)*) => {
        /// A fault.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Fault { $($(#[doc = $doc])* $name,)* }

        impl Fault {
            /// Every fault.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

faults! {
    /// A connection to Redis breaks before a request is read.
    RequestLost
    /// A connection to Redis breaks after a request is applied.
    ReplyLost
    /// A request comes in after its sender has given up.
    RequestLate
    /// An answer comes after its receiver has given up.
    ReplyLate
    /// A request is carried out twice. Its sender gets the second answer.
    RequestCopied
    /// A future of the SDK is dropped.
    CallDropped
    /// Redis restarts with all its data.
    RedisRestarts
    /// Redis comes back with its data of some time ago.
    RedisRewinds
    /// Redis becomes a replica. Then it becomes the primary again with the data that it was sent as
    /// a replica. Its connections stay open.
    RedisDemoted
    /// Redis comes back empty.
    RedisWiped
    /// Redis is emptied from outside. Its connections stay open.
    RedisFlushed
    /// Redis does not answer for some time.
    RedisHangs
    /// Redis forgets its scripts.
    ScriptsFlushed
    /// Redis is at its memory limit for some time.
    RedisFull
    /// Redis evicts a key that has a time to live.
    KeyEvicted
    /// Redis' clock is set forward.
    ClockForward
    /// Redis' clock is set back.
    ClockBack
    /// A worker is killed, and another takes its place.
    WorkerKilled
    /// A worker stands still for longer than its locks last.
    WorkerStopped
    /// A worker is told to end, and another takes its place.
    WorkerEnds
    /// A game server is killed, and another takes its place.
    GameKilled
    /// A game server stands still.
    GameStopped
    /// The database ends a transaction because of a deadlock, or a lock that was not free in time.
    Deadlock
    /// The database's connection breaks at a statement that is not a commit.
    StatementLost
    /// The answer to a commit is lost, after the commit was carried out or before.
    CommitUnknown
    /// The database is slow.
    DatabaseSlow
    /// Rows from the database come late.
    RowsLate
    /// The database restarts without its last commits.
    DatabaseForgets
    /// The database takes no writes for some time.
    ReadOnly
    /// The database is away for some time.
    DatabaseAway
    /// The database rejects some values.
    RowRefused
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
