//! How much may happen in one search.

use crate::world::Left;

/// What kind of write there may be.
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
    /// How many fields the owner may have: 1 or 2.
    pub fields: usize,
    /// Whether the database has rows of them at first, of which the hot tier knows nothing.
    pub stored: bool,
    /// How many writes there are, and of which kinds.
    pub writes: u8,
    /// Which kinds.
    pub kinds: &'static [Kind],
    /// How many clients read and write at once.
    pub clients: usize,
    /// How many loads there are for reads.
    pub reads: u8,
    /// Whether loads bring single fields, as of owners with too many rows.
    pub partial: bool,
    /// How many workers land at once.
    pub workers: usize,
    /// How many marks a worker takes at once.
    pub page: usize,
    /// How often a worker stops anywhere and begins anew.
    pub crashes: u8,
    /// How many rows the database refuses.
    pub refusals: u8,
    /// How often somebody lands the owner at once.
    pub flushes: u8,
    /// How many replies to writes are lost.
    pub replies: u8,
    /// How many copies of writes are held up on their way, while their clients repeat them.
    pub late: u8,
    /// Whether nobody has prepared the partition at first.
    pub unprepared: bool,
    /// How many processes prepare the partition at once.
    pub preparers: usize,
    /// Whether somebody asks for the owner's eviction.
    pub evicts: bool,
    /// How often somebody deletes the owner's hash by hand, whatever has landed of it.
    pub deletes: u8,
    /// How often the hot tier is replaced by an older copy.
    pub failovers: u8,
    /// Whether it may also be replaced by an empty one.
    pub wipes: bool,
    /// Whether landed marks stay on probation.
    pub probation: bool,
    /// How many windows of probation leave.
    pub windows: u8,
    /// How often the database is replaced, without what it has not flushed.
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
        failovers: 0,
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
            failovers: self.failovers,
            windows: self.windows,
            losses: self.losses,
            refusals: self.refusals,
            replies: self.replies,
            late: self.late,
        }
    }
}
