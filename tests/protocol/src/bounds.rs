//! The bounds of one search.

use crate::world::Left;

/// The kind of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A field is set.
    Set,
    /// All fields are set at once.
    SetAll,
    /// A field is incremented.
    Incr,
    /// A field is removed.
    Remove,
    /// A removed field is restored.
    Restore,
    /// A removed field is purged.
    Purge,
    /// A field is set if the owner still has its last version.
    SetIfLast,
    /// A field is set if the owner has a version that it no longer has.
    SetIfStale,
}

/// The bounds of a search. Eviction of landed data and expiry are not bounded.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The number of fields that the owner may have: 1 or 2.
    pub fields: usize,
    /// Whether the database has rows of the fields at first that the hot tier does not know.
    pub stored: bool,
    /// The number of writes.
    pub writes: u8,
    /// The kinds of writes.
    pub kinds: &'static [Kind],
    /// The number of clients that read and write at once.
    pub clients: usize,
    /// The number of loads for reads.
    pub reads: u8,
    /// Whether loads bring single fields, as for owners with too many rows.
    pub partial: bool,
    /// The number of workers that land at once.
    pub workers: usize,
    /// The number of marks that a worker takes at once.
    pub page: usize,
    /// How often a worker stops anywhere and begins again.
    pub crashes: u8,
    /// The number of rows that the database rejects.
    pub refusals: u8,
    /// How often a flush lands the owner at once.
    pub flushes: u8,
    /// The number of lost replies to writes.
    pub replies: u8,
    /// The number of copies of writes that are held up on their way while their clients repeat
    /// them.
    pub late: u8,
    /// Whether the partition is unprepared at first.
    pub unprepared: bool,
    /// The number of processes that prepare the partition at once.
    pub preparers: usize,
    /// Whether a client asks for the owner's eviction.
    pub evicts: bool,
    /// How often the owner's hash is deleted by hand, landed or not.
    pub deletes: u8,
    /// How often the owner's marker vanishes, by eviction or because it ran out.
    pub vanishes: u8,
    /// How often the hot tier is replaced by an older copy.
    pub failovers: u8,
    /// Whether the copy is then that of the server before, which may take over again.
    pub swaps: bool,
    /// Whether the clock of each later server is behind, so that versions of two histories meet.
    pub stands: bool,
    /// Whether it may also be replaced by an empty one.
    pub wipes: bool,
    /// Whether landed marks stay on probation.
    pub probation: bool,
    /// The number of windows of probation that leave.
    pub windows: u8,
    /// How often the database is replaced and loses its unflushed data.
    pub losses: u8,
}

impl Bounds {
    /// Sets of one field, and one worker that never stops.
    pub const LEAST: Self = Self {
        fields: 1,
        stored: false,
        writes: 3,
        kinds: &[Kind::Set],
        clients: 1,
        reads: 1,
        partial: false,
        workers: 1,
        page: usize::MAX,
        crashes: 0,
        refusals: 0,
        flushes: 0,
        replies: 0,
        late: 0,
        unprepared: false,
        preparers: 1,
        evicts: false,
        deletes: 0,
        vanishes: 0,
        failovers: 0,
        swaps: false,
        stands: false,
        wipes: false,
        probation: false,
        windows: 0,
        losses: 0,
    };

    pub(super) fn left(&self) -> Left {
        Left {
            writes: self.writes,
            reads: self.reads,
            flushes: self.flushes,
            crashes: self.crashes,
            deletes: self.deletes,
            vanishes: self.vanishes,
            failovers: self.failovers,
            windows: self.windows,
            losses: self.losses,
            refusals: self.refusals,
            replies: self.replies,
            late: self.late,
        }
    }
}
