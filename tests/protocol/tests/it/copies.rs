//! Of two living copies of one hot tier, one lands. A replaced one never lands again by itself.

#[cfg(debug_assertions)]
use storage_protocol::copies::Broken;
use storage_protocol::copies::{Copies, Faults};
use storage_protocol::search;

use crate::form::of_this_form;

/// Far above the need of any search.
const STATES_MAX: usize = 3_000_000;

const NONE: Faults = Faults {
    writes: 0,
    starts: 0,
    deaths: 0,
    wipes: 0,
    adoptions: 0,
    restores: 0,
    crashes: 0,
    names: 0,
    cuts: 0,
    outages: 0,
    blanks: 0,
};

const COPY: Faults = Faults {
    writes: 2,
    starts: 1,
    crashes: 1,
    ..NONE
};
const RESTART: Faults = Faults {
    writes: 1,
    starts: 2,
    deaths: 1,
    ..NONE
};
const REWIND: Faults = Faults {
    writes: 1,
    starts: 1,
    deaths: 1,
    crashes: 1,
    ..NONE
};
const LATE: Faults = Faults {
    starts: 2,
    deaths: 1,
    crashes: 1,
    ..NONE
};
const FORGET: Faults = Faults {
    starts: 1,
    restores: 1,
    crashes: 1,
    ..NONE
};
const CUT: Faults = Faults {
    writes: 1,
    starts: 1,
    cuts: 1,
    ..NONE
};
const OUTAGE: Faults = Faults {
    writes: 1,
    starts: 1,
    outages: 1,
    ..NONE
};
const PAUSE: Faults = Faults {
    starts: 2,
    cuts: 1,
    ..NONE
};
const SENTINEL: Faults = Faults {
    writes: 1,
    starts: 2,
    names: 1,
    ..NONE
};
const WIPE: Faults = Faults {
    writes: 1,
    starts: 1,
    wipes: 1,
    crashes: 1,
    ..NONE
};
const ADOPT: Faults = Faults {
    writes: 1,
    starts: 1,
    adoptions: 1,
    ..NONE
};
const RESTORE: Faults = Faults {
    writes: 1,
    starts: 2,
    restores: 1,
    ..NONE
};
const FLUSH: Faults = Faults {
    starts: 1,
    wipes: 1,
    restores: 1,
    ..NONE
};
const BLANK: Faults = Faults {
    writes: 1,
    starts: 1,
    blanks: 1,
    crashes: 1,
    ..NONE
};
const BLANK_AND_WIPED: Faults = Faults {
    writes: 1,
    blanks: 1,
    wipes: 1,
    deaths: 1,
    ..NONE
};

/// Two copies, one after the other or one of the other, and programs that die.
const COPIES: Faults = Faults { starts: 2, ..COPY };
const RESTARTS: Faults = Faults {
    crashes: 1,
    ..RESTART
};
const OUTAGE_AND_RESTART: Faults = Faults {
    starts: 2,
    crashes: 1,
    ..OUTAGE
};
const SENTINEL_AND_CUT: Faults = Faults {
    cuts: 1,
    ..SENTINEL
};
const RESTORE_AND_DEATH: Faults = Faults {
    deaths: 1,
    ..RESTORE
};
const BLANK_AND_COPY: Faults = Faults { starts: 2, ..BLANK };

/// The name of a case, and its bounds.
type Case = (&'static str, Faults);

fn nothing_is_found(cases: &[Case], large: &[Case]) {
    for (name, faults) in of_this_form(cases, large, |case| case.0) {
        let found = search(&Copies::new(faults, None), STATES_MAX);
        println!("{name}: {found}");
        assert!(found.complete && found.counterexample.is_none(), "{found}");
    }
}

#[test]
fn of_two_living_copies_one_lands_and_a_replaced_one_stays_replaced() {
    nothing_is_found(
        &[
            ("copy", COPY),
            ("restart", RESTART),
            ("rewind", REWIND),
            ("late", LATE),
            ("cut", CUT),
            ("outage", OUTAGE),
            ("pause", PAUSE),
            ("sentinel", SENTINEL),
            ("adopt", ADOPT),
        ],
        &[
            ("copies", COPIES),
            ("restarts", RESTARTS),
            ("outage and restart", OUTAGE_AND_RESTART),
            ("sentinel and cut", SENTINEL_AND_CUT),
        ],
    );
}

#[test]
fn a_restored_database_gives_no_epoch_to_two_hot_tiers() {
    nothing_is_found(
        &[("restore", RESTORE), ("forget", FORGET), ("flush", FLUSH)],
        &[("restore and death", RESTORE_AND_DEATH)],
    );
}

#[test]
fn a_blank_hot_tier_waits_for_one_that_is_used_and_a_wiped_one_waits_for_nobody() {
    nothing_is_found(
        &[
            ("wipe", WIPE),
            ("blank", BLANK),
            ("blank and wiped", BLANK_AND_WIPED),
        ],
        &[("blank and copy", BLANK_AND_COPY)],
    );
}

#[cfg(debug_assertions)]
#[test]
fn every_rule_of_two_copies_that_is_broken_has_a_counterexample() {
    for (broken, faults) in [
        (Broken::Untold, COPY),
        (Broken::Unfenced, COPY),
        (Broken::Unnamed, COPY),
        (Broken::Refused, REWIND),
        (Broken::Untouched, RESTART),
        (Broken::BlindTouch, RESTART),
        (Broken::BlindAdoption, RESTART),
        (Broken::Hasty, RESTART),
        (Broken::LateTouch, CUT),
        (Broken::Unwatched, OUTAGE),
        (Broken::Unheeded, SENTINEL),
        (Broken::Blank, BLANK),
    ] {
        let found = search(&Copies::new(faults, Some(broken)), STATES_MAX);
        println!("{broken:?}: {found}");
        assert!(found.counterexample.is_some(), "{broken:?}: {found}");
    }
    for (switch, faults) in [
        ("R14-replaced", COPY),
        ("R14-stamp", RESTORE),
        ("R14-behind", RESTART),
        ("R14-older", RESTART),
        ("R14-landed-since", COPY),
        ("R14-own-raise", FORGET),
        ("R14-adopted-after", LATE),
        ("R14-raised-blindly", COPY),
    ] {
        let found = storage_model::sabotage::breaking(switch, || {
            search(&Copies::new(faults, None), STATES_MAX)
        });
        println!("{switch}: {found}");
        assert!(found.counterexample.is_some(), "{switch}: {found}");
    }
}
