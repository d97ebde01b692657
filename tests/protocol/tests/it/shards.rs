//! Servers that answer reads from shards: each shard has a server, an answer is as fresh as it says,
//! and a client knows which server has a key.

use storage_protocol::search;
use storage_protocol::search::Model;
use storage_protocol::shards::claims::{self, Claims};
use storage_protocol::shards::freshness::{self, Freshness};
use storage_protocol::shards::map::{self, Map};

use crate::form::of_this_form;

/// Far above the need of any search.
const STATES_MAX: usize = 20_000_000;

const CLAIMS: Claims = Claims {
    pauses: 2,
    deaths: 1,
    outages: 3,
    losses: 1,
    broken: None,
};
const FRESHNESS: Freshness = Freshness {
    ticks: 4,
    versions: 1,
    others: 1,
    replacement: false,
    broken: None,
};
const REPLACEMENT: Freshness = Freshness {
    ticks: 2,
    others: 0,
    replacement: true,
    ..FRESHNESS
};
const REPLACEMENT_AND_OTHERS: Freshness = Freshness {
    others: 1,
    ..REPLACEMENT
};
const MAP: Map = Map {
    requests: 3,
    broken: None,
};

fn assert_sound<M: Model>(model: &M) {
    let found = search(model, STATES_MAX);
    println!("{found}");
    assert!(found.complete && found.counterexample.is_none(), "{found}");
}

fn assert_broken<M: Model>(name: &str, model: &M) {
    let found = search(model, STATES_MAX);
    println!("{name}: {found}");
    assert!(found.counterexample.is_some(), "{name}: {found}");
}

#[test]
fn in_every_interleaving_a_claim_is_taken_only_from_a_server_that_does_not_renew_and_each_shard_has_a_server_again()
 {
    assert_sound(&CLAIMS);
}

#[test]
fn in_every_interleaving_an_answer_reflects_all_that_was_told_before_its_mark() {
    assert_sound(&FRESHNESS);
}

#[test]
fn in_every_interleaving_an_older_copy_of_the_database_leaves_no_answer_older_than_its_mark() {
    let case = ("older copy", REPLACEMENT);
    let large = (
        "older copy and an event of another owner",
        REPLACEMENT_AND_OTHERS,
    );
    for (name, bounds) in of_this_form(&[case], &[large], |(name, _)| name) {
        println!("{name}:");
        assert_sound(&bounds);
    }
}

#[test]
fn in_every_interleaving_a_client_knows_the_newest_range_of_each_server_and_gets_no_answer_from_another_one()
 {
    assert_sound(&MAP);
}

#[test]
fn every_rule_of_claims_that_is_broken_has_a_counterexample() {
    use claims::Broken;
    for broken in [
        Broken::Compare,
        Broken::Token,
        Broken::Hasty,
        Broken::Burst,
        Broken::Blind,
        Broken::Unknown,
        Broken::Fence,
        Broken::Never,
        Broken::Foreign,
    ] {
        let claims = Claims {
            broken: Some(broken),
            ..CLAIMS
        };
        assert_broken(&format!("{broken:?}"), &claims);
    }
}

#[test]
fn every_rule_of_freshness_that_is_broken_has_a_counterexample() {
    use freshness::Broken;
    for (broken, bounds) in [
        (Broken::Cursor, FRESHNESS),
        (Broken::Touched, FRESHNESS),
        (Broken::Received, FRESHNESS),
        (Broken::Partial, FRESHNESS),
        (Broken::Age, FRESHNESS),
        (Broken::Join, FRESHNESS),
        (Broken::Place, FRESHNESS),
        (Broken::Back, REPLACEMENT),
        (Broken::Number, REPLACEMENT),
        (Broken::Events, REPLACEMENT),
        (Broken::Entries, REPLACEMENT),
        (Broken::Load, REPLACEMENT),
        (Broken::Row, REPLACEMENT),
        (Broken::Position, REPLACEMENT),
        (Broken::Identity, REPLACEMENT),
    ] {
        let freshness = Freshness {
            broken: Some(broken),
            ..bounds
        };
        assert_broken(&format!("{broken:?}"), &freshness);
    }
}

#[test]
fn every_rule_of_the_map_that_is_broken_has_a_counterexample() {
    use map::Broken;
    for broken in [Broken::Range, Broken::Once, Broken::Arrival] {
        let map = Map {
            broken: Some(broken),
            ..MAP
        };
        assert_broken(&format!("{broken:?}"), &map);
    }
}
