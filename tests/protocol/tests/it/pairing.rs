//! The pairing of the tiers repairs itself, and never lets two hot tiers land.

use storage_protocol::pairing::{Broken, Pairing};
use storage_protocol::search;

/// Far above the need of any search.
const STATES_MAX: usize = 2_000_000;

/// The bounds are wider for fewer programs, so that each search ends within seconds.
fn pairing(programs: &[usize], broken: Option<Broken>) -> Pairing {
    let (losses, take_overs) = if programs.len() > 2 { (1, 3) } else { (2, 4) };
    Pairing {
        programs: programs.to_vec(),
        losses,
        take_overs,
        broken,
    }
}

#[test]
fn a_cut_take_over_and_programs_that_meet_a_blank_hot_tier_at_once_heal_themselves() {
    for programs in [&[0][..], &[0, 0], &[0, 0, 0]] {
        let found = search(&pairing(programs, None), STATES_MAX);
        println!("{programs:?}: {found}");
        assert!(found.complete && found.counterexample.is_none(), "{found}");
    }
}

#[test]
fn of_two_hot_tiers_one_lands_and_the_other_is_refused() {
    for programs in [&[0, 1][..], &[0, 0, 1]] {
        let found = search(&pairing(programs, None), STATES_MAX);
        println!("{programs:?}: {found}");
        assert!(found.complete && found.counterexample.is_none(), "{found}");
    }
}

#[test]
fn every_rule_of_the_pairing_that_is_broken_has_a_counterexample() {
    for broken in [
        Broken::HotFirst,
        Broken::AnyServer,
        Broken::Blind,
        Broken::Unraised,
        Broken::Once,
    ] {
        let found = search(&pairing(&[0, 0, 1], Some(broken)), STATES_MAX);
        println!("{broken:?}: {found}");
        assert!(found.counterexample.is_some(), "{broken:?}: {found}");
    }
}

#[test]
fn two_blank_servers_never_get_one_token() {
    let found = search(&pairing(&[0, 1], None), STATES_MAX);
    assert!(found.complete && found.counterexample.is_none(), "{found}");
    #[cfg(debug_assertions)]
    {
        let shared = || search(&pairing(&[0, 1], None), STATES_MAX);
        let found = storage_model::sabotage::breaking("H76-shared", shared);
        println!("{found}");
        assert!(found.counterexample.is_some(), "{found}");
    }
}
