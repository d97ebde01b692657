//! The steps that both engines of the hot tier get.

use storage_model::Change;

/// One call, or a few that belong together.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// A write, with the load if it needs one.
    Mutate {
        owner: u8,
        changes: Vec<(&'static str, Change)>,
        condition: When,
    },
    /// The last write once more.
    Again,
    Read {
        owner: u8,
        fields: What,
    },
    /// Observes an owner and keeps its rows for a fill.
    Observe {
        owner: u8,
    },
    /// Fills from an observation that may be old.
    Fill {
        kept: usize,
    },
    Evict {
        owner: u8,
    },
    /// A landing of one partition, up to some point.
    Land {
        partition: u32,
        to: LandTo,
    },
    /// Adopts another epoch. With `rewound`, the cold tier is found ahead.
    Adopt {
        partition: u32,
        rewound: bool,
    },
}

#[derive(Debug, Clone, Copy)]
pub(super) enum When {
    Always,
    Absent,
    /// The owner's version is its last one.
    Last,
    /// The owner was never written.
    Never,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    Live,
    Cells,
    All,
    Names,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum LandTo {
    Snapshot,
    Commit,
    Half,
    Settled,
    Rejected,
}
