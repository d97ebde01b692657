//! The searches. Within some bounds every rule must hold. For each rule there are bounds within
//! which its loss shows.

use super::{Bounds, Kind, Protocol, Searched, search};
use Kind::{Incr, Purge, Remove, Restore, Set, SetAll, SetIfLast, SetIfStale};

/// One search.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// The name of the search, or the switch of the broken rule.
    pub name: &'static str,
    /// Its bounds.
    pub bounds: Bounds,
}

impl Case {
    /// Runs the search.
    #[must_use]
    pub fn search(&self, states_max: usize) -> Searched {
        search(
            &Protocol {
                bounds: self.bounds,
            },
            states_max,
        )
    }
}

const LEAST: Bounds = Bounds::LEAST;
const TWO_WORKERS: Bounds = Bounds {
    writes: 2,
    workers: 2,
    crashes: 1,
    ..LEAST
};
const TWO_FIELDS: Bounds = Bounds {
    fields: 2,
    writes: 2,
    kinds: &[Set, SetAll],
    ..LEAST
};
/// Writes of one field and of all fields, between all steps of a worker.
const WHOLE: Bounds = Bounds {
    fields: 2,
    writes: 3,
    kinds: &[Set, SetAll],
    reads: 0,
    ..LEAST
};
const WHOLE_WORKERS: Bounds = Bounds {
    writes: 2,
    workers: 2,
    crashes: 1,
    ..WHOLE
};
const WHOLE_REFUSED: Bounds = Bounds {
    refusals: 1,
    ..WHOLE
};
const WHOLE_LOST: Bounds = Bounds {
    writes: 2,
    probation: true,
    losses: 1,
    windows: 1,
    ..WHOLE
};
/// Redis fails over to its replica, and back.
const WHOLE_BACK: Bounds = Bounds {
    writes: 2,
    kinds: &[Set],
    failovers: 2,
    swaps: true,
    ..WHOLE
};
/// The hashes are complete, since a hash of some fields does not know the others of its history.
const WHOLE_MET: Bounds = Bounds {
    stored: true,
    kinds: &[Incr],
    stands: true,
    ..WHOLE_BACK
};
/// Versions of two histories of one field meet.
const MET: Bounds = Bounds {
    writes: 2,
    reads: 0,
    failovers: 2,
    swaps: true,
    stands: true,
    ..LEAST
};
/// Another hash takes the place of one that was deleted in the middle of a landing.
const WHOLE_DELETED: Bounds = Bounds {
    stored: true,
    writes: 2,
    deletes: 1,
    reads: 1,
    ..WHOLE
};
const REMOVAL: Bounds = Bounds {
    fields: 2,
    kinds: &[Set, Remove, Restore, Purge],
    ..LEAST
};
const COUNTERS: Bounds = Bounds {
    writes: 2,
    kinds: &[Set, Incr, Remove],
    clients: 2,
    replies: 1,
    ..LEAST
};
const CONDITIONS: Bounds = Bounds {
    kinds: &[Set, SetIfLast, SetIfStale],
    replies: 1,
    ..LEAST
};
const LATE: Bounds = Bounds {
    kinds: &[Set, Remove, Restore],
    late: 1,
    reads: 0,
    ..LEAST
};
const EVICTION: Bounds = Bounds {
    writes: 2,
    evicts: true,
    ..LEAST
};
const FLUSH: Bounds = Bounds {
    writes: 2,
    kinds: &[Set, Incr],
    flushes: 1,
    ..LEAST
};
const REFUSED: Bounds = Bounds {
    writes: 2,
    refusals: 2,
    ..LEAST
};
const REFUSED_FLUSH: Bounds = Bounds {
    flushes: 1,
    ..REFUSED
};
const REFUSED_TWICE: Bounds = Bounds {
    writes: 2,
    workers: 2,
    refusals: 2,
    reads: 0,
    ..LEAST
};
const SINGLE: Bounds = Bounds {
    fields: 2,
    writes: 2,
    kinds: &[Set, Incr, Remove],
    partial: true,
    ..LEAST
};
const FAILOVER: Bounds = Bounds {
    writes: 2,
    failovers: 1,
    ..LEAST
};
const REWOUND_COUNTERS: Bounds = Bounds {
    writes: 3,
    kinds: &[Incr],
    reads: 0,
    ..FAILOVER
};
const REWOUND_REPLIES: Bounds = Bounds {
    writes: 2,
    kinds: &[Incr],
    reads: 0,
    replies: 1,
    late: 1,
    ..FAILOVER
};
const WIPED: Bounds = Bounds {
    writes: 2,
    kinds: &[Set, Incr],
    failovers: 1,
    wipes: true,
    ..LEAST
};
const PROBATION: Bounds = Bounds {
    writes: 2,
    reads: 0,
    probation: true,
    windows: 1,
    losses: 1,
    ..LEAST
};
const DELETED: Bounds = Bounds {
    stored: true,
    fields: 2,
    writes: 2,
    deletes: 1,
    ..LEAST
};
const DELETED_REFUSED: Bounds = Bounds {
    fields: 1,
    refusals: 1,
    ..DELETED
};
const REFILLED: Bounds = Bounds {
    stored: true,
    fields: 2,
    writes: 2,
    partial: true,
    clients: 2,
    reads: 2,
    ..LEAST
};
const VANISHED: Bounds = Bounds {
    writes: 2,
    vanishes: 2,
    ..LEAST
};
const REFUSED_PART: Bounds = Bounds {
    fields: 2,
    writes: 2,
    kinds: &[Set, SetAll],
    refusals: 2,
    ..PROBATION
};

/// Searches of one test. Every rule holds in them.
#[derive(Debug)]
pub struct Group {
    /// The searches that take some seconds together.
    pub cases: &'static [Case],
    /// The searches that take longer.
    pub large: &'static [Case],
}

/// Writes of all other kinds than removals.
pub const WRITES: Group = Group {
    cases: &[
        Case {
            name: "two fields",
            bounds: TWO_FIELDS,
        },
        Case {
            name: "counters",
            bounds: COUNTERS,
        },
        Case {
            name: "conditions",
            bounds: CONDITIONS,
        },
        Case {
            name: "copies that come late",
            bounds: LATE,
        },
    ],
    large: &[],
};

/// Removals, restorations and purges.
pub const REMOVALS: Group = Group {
    cases: &[Case {
        name: "removal and purge",
        bounds: REMOVAL,
    }],
    large: &[],
};

/// Workers that overlap and die, and rows that the database refuses.
pub const WORKERS: Group = Group {
    cases: &[
        Case {
            name: "overlapping workers",
            bounds: Bounds {
                crashes: 0,
                ..TWO_WORKERS
            },
        },
        Case {
            name: "overlapping workers, a crash",
            bounds: Bounds {
                reads: 0,
                ..TWO_WORKERS
            },
        },
        Case {
            name: "refused rows",
            bounds: REFUSED,
        },
        Case {
            name: "refused rows, a flush",
            bounds: Bounds {
                writes: 1,
                ..REFUSED_FLUSH
            },
        },
        Case {
            name: "refused rows, a flush of two writes",
            bounds: Bounds {
                reads: 0,
                ..REFUSED_FLUSH
            },
        },
        Case {
            name: "rows refused to two workers",
            bounds: REFUSED_TWICE,
        },
    ],
    large: &[
        Case {
            name: "overlapping workers, reads and a crash",
            bounds: TWO_WORKERS,
        },
        Case {
            name: "refused rows, reads and a flush",
            bounds: REFUSED_FLUSH,
        },
    ],
};

/// Owners of several fields, which land as a whole.
pub const OWNERS: Group = Group {
    cases: &[
        Case {
            name: "whole owners",
            bounds: WHOLE,
        },
        Case {
            name: "whole owners, two workers",
            bounds: Bounds {
                crashes: 0,
                ..WHOLE_WORKERS
            },
        },
        Case {
            name: "whole owners, rejected",
            bounds: WHOLE_REFUSED,
        },
        Case {
            name: "whole owners, rejected and torn",
            bounds: Bounds {
                writes: 2,
                refusals: 2,
                ..WHOLE
            },
        },
        Case {
            name: "whole owners, a failover",
            bounds: Bounds {
                writes: 2,
                failovers: 1,
                ..WHOLE
            },
        },
        Case {
            name: "whole owners, a database that forgets",
            bounds: WHOLE_LOST,
        },
    ],
    large: &[
        Case {
            name: "whole owners, two workers and a crash",
            bounds: WHOLE_WORKERS,
        },
        Case {
            name: "whole owners, rejected and torn, and a flush",
            bounds: Bounds {
                writes: 2,
                refusals: 2,
                flushes: 1,
                ..WHOLE
            },
        },
        Case {
            name: "whole owners, a failover and back",
            bounds: WHOLE_BACK,
        },
        Case {
            name: "a failover and back with versions that meet",
            bounds: MET,
        },
        Case {
            name: "whole owners, a deleted hash",
            bounds: WHOLE_DELETED,
        },
        Case {
            name: "whole owners, a deleted hash of fields without rows",
            bounds: Bounds {
                stored: false,
                ..WHOLE_DELETED
            },
        },
    ],
};

/// Flushes and evictions.
pub const FLUSHES: Group = Group {
    cases: &[
        Case {
            name: "flush",
            bounds: FLUSH,
        },
        Case {
            name: "eviction",
            bounds: EVICTION,
        },
    ],
    large: &[],
};

/// A hot tier that comes back older or empty, and a database that forgets.
pub const LOSSES: Group = Group {
    cases: &[
        Case {
            name: "failover",
            bounds: FAILOVER,
        },
        Case {
            name: "failover with copies under way",
            bounds: REWOUND_REPLIES,
        },
        Case {
            name: "wipe",
            bounds: WIPED,
        },
        Case {
            name: "probation",
            bounds: PROBATION,
        },
        Case {
            name: "probation of a mark that is rejected in part",
            bounds: Bounds {
                refusals: 1,
                ..REFUSED_PART
            },
        },
    ],
    large: &[Case {
        name: "probation of a mark with two rejected rows",
        bounds: REFUSED_PART,
    }],
};

/// Hashes that are deleted by hand.
pub const DELETIONS: Group = Group {
    cases: &[
        Case {
            name: "deleted hash",
            bounds: DELETED,
        },
        Case {
            name: "deleted hash of a rejected field",
            bounds: DELETED_REFUSED,
        },
    ],
    large: &[Case {
        name: "deleted hash, crash",
        bounds: Bounds {
            crashes: 1,
            ..DELETED
        },
    }],
};

/// Loads of owners with rows in the database.
pub const LOADS: Group = Group {
    cases: &[
        Case {
            name: "refills",
            bounds: REFILLED,
        },
        Case {
            name: "single fields",
            bounds: SINGLE,
        },
        Case {
            name: "markers that vanish",
            bounds: VANISHED,
        },
        Case {
            name: "markers that vanish beside refills",
            bounds: Bounds {
                fields: 1,
                vanishes: 1,
                ..REFILLED
            },
        },
    ],
    large: &[
        Case {
            name: "markers that vanish beside counters",
            bounds: Bounds {
                vanishes: 1,
                ..COUNTERS
            },
        },
        Case {
            name: "markers that vanish beside loads of stored rows",
            bounds: Bounds {
                vanishes: 1,
                ..REFILLED
            },
        },
        Case {
            name: "markers that vanish beside purges",
            bounds: Bounds {
                vanishes: 1,
                ..REMOVAL
            },
        },
        Case {
            name: "markers that vanish before a failover",
            bounds: Bounds {
                vanishes: 1,
                ..FAILOVER
            },
        },
    ],
};

/// All groups.
pub const GROUPS: [Group; 8] = [
    WRITES, REMOVALS, WORKERS, OWNERS, FLUSHES, LOSSES, DELETIONS, LOADS,
];

/// Rules, each with bounds within which the search finds the damage without the rule.
///
/// Five rules have no such bounds that can be searched. Other tests guard them.
/// - R4-whole: the one owner has one mark, so a snapshot is hardly ever settled in part.
/// - R6-older-row: no step of the model puts an older hash back.
/// - R5-marks-error: the mark of a later write proves its value by itself. A lower version of an
///   error mark harms only an operator's view.
/// - R5-older-error: an older error mark does harm only after three rejections. A third landing of
///   the field must also commit an equally old value in between.
/// - R15-settle-epoch: a settle of an earlier epoch also raises `landed`, mostly above the data
///   that is left in a database that forgot. The next look finds this. So it does harm only beside
///   a commit of another field that outlived the crash.
pub const BROKEN: &[Case] = &[
    Case {
        name: "R1-unmarked",
        bounds: LEAST,
    },
    Case {
        name: "R1-list",
        bounds: TWO_FIELDS,
    },
    Case {
        name: "R2-expires",
        bounds: LEAST,
    },
    Case {
        name: "R2-evicts",
        bounds: EVICTION,
    },
    Case {
        name: "R2-rejected",
        bounds: REFUSED,
    },
    Case {
        name: "R2-filled",
        bounds: REFUSED,
    },
    Case {
        name: "R3-unguarded",
        bounds: Bounds {
            writes: 2,
            workers: 2,
            ..LEAST
        },
    },
    Case {
        name: "R3-mark-version",
        bounds: Bounds {
            writes: 3,
            reads: 0,
            ..FAILOVER
        },
    },
    Case {
        name: "R3-apart",
        bounds: LEAST,
    },
    Case {
        name: "R4-overwrite",
        bounds: Bounds {
            crashes: 1,
            ..TWO_FIELDS
        },
    },
    Case {
        name: "R5-number",
        bounds: Bounds {
            crashes: 0,
            ..TWO_WORKERS
        },
    },
    Case {
        name: "R5-early",
        bounds: LEAST,
    },
    Case {
        name: "R5-flush",
        bounds: FLUSH,
    },
    Case {
        name: "R5-any-error",
        bounds: REFUSED_TWICE,
    },
    Case {
        name: "R5-kept-error",
        bounds: REFUSED,
    },
    Case {
        name: "R6-null",
        bounds: Bounds {
            workers: 2,
            ..TWO_FIELDS
        },
    },
    Case {
        name: "R6-birth",
        bounds: DELETED,
    },
    Case {
        name: "R6-unproven",
        bounds: DELETED,
    },
    Case {
        name: "R6-reborn",
        bounds: DELETED,
    },
    Case {
        name: "R6-gone",
        bounds: DELETED,
    },
    Case {
        name: "R6-aside",
        bounds: DELETED,
    },
    Case {
        name: "R6-before",
        bounds: DELETED_REFUSED,
    },
    Case {
        name: "R7-refill",
        bounds: Bounds {
            fields: 1,
            ..REFILLED
        },
    },
    Case {
        name: "R7-marker",
        bounds: LEAST,
    },
    Case {
        name: "R7-absent",
        bounds: VANISHED,
    },
    Case {
        name: "R7-presence",
        bounds: LEAST,
    },
    Case {
        name: "R7-unraised",
        bounds: LEAST,
    },
    Case {
        name: "R7-row-wins",
        bounds: LEAST,
    },
    Case {
        name: "R8-complete",
        bounds: TWO_FIELDS,
    },
    Case {
        name: "R8-trusted",
        bounds: WIPED,
    },
    Case {
        name: "R8-kept",
        bounds: LEAST,
    },
    Case {
        name: "R11-ids",
        bounds: COUNTERS,
    },
    Case {
        name: "R11-new-id",
        bounds: COUNTERS,
    },
    Case {
        name: "R11-void",
        bounds: LATE,
    },
    Case {
        name: "R11-forgotten",
        bounds: Bounds {
            late: 0,
            ..REWOUND_REPLIES
        },
    },
    Case {
        name: "R11-outlived",
        bounds: REWOUND_REPLIES,
    },
    Case {
        name: "R14-fence",
        bounds: Bounds {
            crashes: 1,
            ..FAILOVER
        },
    },
    Case {
        name: "R14-incarnation",
        bounds: FAILOVER,
    },
    Case {
        name: "R14-source",
        bounds: FAILOVER,
    },
    Case {
        name: "R14-generation",
        bounds: FAILOVER,
    },
    Case {
        name: "R14-suspect",
        bounds: REWOUND_COUNTERS,
    },
    Case {
        name: "R14-trusting",
        bounds: FAILOVER,
    },
    Case {
        name: "R14-untold",
        bounds: REWOUND_COUNTERS,
    },
    Case {
        name: "R15-guess",
        bounds: COUNTERS,
    },
    Case {
        name: "R15-version",
        bounds: CONDITIONS,
    },
    Case {
        name: "R15-fill-epoch",
        bounds: FAILOVER,
    },
    Case {
        name: "R16-named",
        bounds: WHOLE,
    },
    Case {
        name: "R16-snapshot",
        bounds: Bounds {
            writes: 2,
            workers: 2,
            ..WHOLE
        },
    },
    Case {
        name: "R16-errors",
        bounds: WHOLE_REFUSED,
    },
    Case {
        name: "R16-requeue",
        bounds: WHOLE_LOST,
    },
    Case {
        name: "R16-torn",
        bounds: WHOLE_REFUSED,
    },
    Case {
        name: "R16-met",
        bounds: MET,
    },
    Case {
        name: "R16-reborn",
        bounds: WHOLE_DELETED,
    },
    Case {
        name: "R16-buried",
        bounds: Bounds {
            stored: false,
            ..WHOLE_DELETED
        },
    },
    Case {
        name: "R16-unloaded",
        bounds: WHOLE_DELETED,
    },
    Case {
        name: "H33-off",
        bounds: PROBATION,
    },
    Case {
        name: "H33-forgotten",
        bounds: PROBATION,
    },
    Case {
        name: "H33-rejected",
        bounds: REFUSED_PART,
    },
    Case {
        name: "H33-hasty",
        bounds: PROBATION,
    },
    Case {
        name: "H33-unasked",
        bounds: PROBATION,
    },
    Case {
        name: "H33-kept",
        bounds: PROBATION,
    },
];

/// Such rules, with searches that take minutes.
pub const BROKEN_LARGE: &[Case] = &[
    Case {
        name: "R16-replaced",
        bounds: WHOLE_BACK,
    },
    Case {
        name: "R16-suspect",
        bounds: WHOLE_MET,
    },
];

/// Searches that are too large for any test.
pub const DEEP: &[Case] = &[
    Case {
        name: "overlapping workers",
        bounds: Bounds {
            writes: 3,
            reads: 2,
            ..TWO_WORKERS
        },
    },
    Case {
        name: "whole owners, a deleted hash",
        bounds: Bounds {
            writes: 3,
            ..WHOLE_DELETED
        },
    },
    Case {
        name: "whole owners, a failover and back with versions that meet",
        bounds: WHOLE_MET,
    },
];
