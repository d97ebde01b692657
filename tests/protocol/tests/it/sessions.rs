//! One session at a time writes an owner, and a live session loses nothing when the hot tier comes
//! back older or empty.

use storage_protocol::search;
use storage_protocol::sessions::{Sessions, Sweeps};

use crate::form::of_this_form;

/// Far above the need of any search.
const STATES_MAX: usize = 4_000_000;

const STEALS: Sessions = Sessions {
    servers: 2,
    edits: 3,
    opens: 3,
    writes: 1,
    failovers: 0,
    wipes: 0,
    pauses: 0,
    lapses: 1,
    late: 0,
    sweeps: Sweeps::Known,
    evicts: true,
    stored: true,
    sets_back: false,
};
const THREE: Sessions = Sessions {
    servers: 3,
    edits: 2,
    writes: 0,
    lapses: 0,
    evicts: false,
    stored: false,
    ..STEALS
};
const FAILOVER: Sessions = Sessions {
    writes: 0,
    failovers: 1,
    pauses: 1,
    lapses: 0,
    evicts: false,
    stored: false,
    ..STEALS
};
const WIPE: Sessions = Sessions {
    writes: 0,
    wipes: 1,
    pauses: 1,
    lapses: 0,
    evicts: false,
    stored: false,
    ..STEALS
};
/// A session that was cut off during the grace comes back, with versions above those of another
/// session or of a plain write.
const SET_BACK: Sessions = Sessions {
    edits: 3,
    opens: 2,
    writes: 1,
    sets_back: true,
    ..WIPE
};
const SET_BACK_FAILOVER: Sessions = Sessions {
    edits: 3,
    opens: 2,
    writes: 1,
    sets_back: true,
    ..FAILOVER
};
const LAPSE: Sessions = Sessions {
    edits: 2,
    opens: 2,
    writes: 1,
    failovers: 1,
    lapses: 1,
    evicts: true,
    stored: false,
    ..STEALS
};

const LATE: Sessions = Sessions {
    edits: 1,
    opens: 2,
    writes: 0,
    lapses: 1,
    pauses: 1,
    late: 2,
    evicts: false,
    stored: false,
    ..STEALS
};
const LATE_FAILOVER: Sessions = Sessions {
    lapses: 0,
    pauses: 0,
    failovers: 1,
    ..LATE
};
const LATE_WIPE: Sessions = Sessions {
    lapses: 0,
    pauses: 0,
    wipes: 1,
    ..LATE
};
/// A claim of one epoch may come in the next but one.
const LATE_CLAIM: Sessions = Sessions {
    wipes: 2,
    late: 1,
    ..LATE_WIPE
};

type Case = (&'static str, Sessions);

fn assert_sound(cases: &[Case], large: &[Case]) {
    for (name, bounds) in of_this_form(cases, large, |(name, _)| name) {
        let found = search(&bounds, STATES_MAX);
        println!("{name}: {found}");
        assert!(
            found.complete && found.counterexample.is_none(),
            "{name}: {found}"
        );
    }
}

#[test]
fn in_every_interleaving_one_session_writes_an_owner_and_a_live_one_loses_nothing() {
    let fewer_edits = Sessions {
        edits: 2,
        ..FAILOVER
    };
    let fewer_opens = Sessions {
        opens: 2,
        ..FAILOVER
    };
    let no_pause = Sessions {
        pauses: 0,
        ..FAILOVER
    };
    assert_sound(
        &[
            ("steals", STEALS),
            ("three servers", THREE),
            ("failover, fewer edits", fewer_edits),
            ("failover, fewer opens", fewer_opens),
            ("failover, no pause", no_pause),
            ("wipe", WIPE),
            ("lapse", LAPSE),
        ],
        &[("failover", FAILOVER)],
    );
}

#[test]
fn in_every_interleaving_a_session_that_was_cut_off_comes_back_above_all_others() {
    assert_sound(
        &[
            ("a clock set back, wipe", SET_BACK),
            ("a clock set back, failover", SET_BACK_FAILOVER),
        ],
        &[],
    );
}

#[test]
fn calls_about_sessions_that_come_late_or_twice_leave_no_owner_that_can_not_be_had_again() {
    let one_late = Sessions {
        late: 1,
        ..LATE_FAILOVER
    };
    assert_sound(
        &[
            ("late", LATE),
            ("failover, one late call", one_late),
            ("wipe", LATE_WIPE),
            ("claim", LATE_CLAIM),
        ],
        &[("failover", LATE_FAILOVER)],
    );
}

#[test]
fn each_rule_of_sweeps_that_is_broken_has_a_counterexample() {
    let broken = [
        (Sweeps::Never, LATE, "the owner can't be opened again"),
        (Sweeps::Unregistered, LATE, "a sweep ends a session"),
    ];
    for (sweeps, bounds, wrong) in broken {
        let found = search(&Sessions { sweeps, ..bounds }, STATES_MAX);
        println!("{sweeps:?}: {found}");
        assert!(
            found
                .counterexample
                .is_some_and(|found| found.violation.starts_with(wrong)),
            "{sweeps:?}"
        );
    }
}

#[test]
#[cfg(debug_assertions)]
fn every_rule_of_sessions_that_is_broken_has_a_counterexample() {
    let failover = Sessions {
        edits: 2,
        opens: 2,
        ..FAILOVER
    };
    let late = Sessions {
        late: 1,
        ..LATE_FAILOVER
    };
    let broken = [
        ("S1-unfenced", STEALS),
        ("S1-plain", STEALS),
        ("S1-below", SET_BACK),
        ("S2-any", THREE),
        ("S2-part", STEALS),
        ("S2-unpinned", STEALS),
        ("S7-unconditional", LAPSE),
        ("S7-later", SET_BACK),
        ("S8-ended", failover),
        ("S8-late", late),
        ("S8-greatest", failover),
        ("S8-grace", failover),
    ];
    for (switch, bounds) in broken {
        let found = storage_model::sabotage::breaking(switch, || search(&bounds, STATES_MAX));
        println!("{switch}: {found}");
        assert!(found.counterexample.is_some(), "{switch}: {found}");
    }
}
