//! The simulator finds nothing wrong, and its result is reliable: a seed replays exactly.
#![expect(clippy::panic, reason = "a test that can't go on fails")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use storage_tests::sim::run::{Report, run};
use storage_tests::sim::summary::{SEEDS_FOR_ALL, Summary};
use storage_tests::size;

fn assert_sound(report: &Report) {
    if let Some(violation) = &report.violation {
        panic!("seed {}: {violation}", report.seed);
    }
}

#[test]
fn a_seed_replays_exactly() {
    for seed in 0..4 {
        let first = run(seed, false);
        let again = thread::spawn(move || run(seed, false)).join().unwrap();
        assert_eq!(
            (first.events, first.trace),
            (again.events, again.trace),
            "seed {seed}"
        );
        assert_eq!(
            (first.counts, first.hits),
            (again.counts, again.hits),
            "seed {seed}"
        );
        assert!(
            first.events > 100,
            "seed {seed} has but {} events",
            first.events
        );
    }
}

#[test]
fn seeds_that_once_found_something_find_nothing_any_more() {
    let list = include_str!("../fixtures/seeds.txt");
    let seeds = list
        .lines()
        .filter_map(|line| line.split_whitespace().next()?.parse().ok());
    let played = seeds.map(|seed| assert_sound(&run(seed, false))).count();
    assert!(played > 0, "the list is empty");
}

#[test]
fn no_seed_finds_anything_wrong_and_every_fault_hits() {
    let (begun, next) = (Instant::now(), AtomicU64::new(0));
    // Only the long form has enough seeds for cells of fault and point.
    let seeds = size(1, 3) * SEEDS_FOR_ALL;
    let play = || {
        let mut summary = Summary::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                break;
            }
            let report = run(seed, false);
            assert_sound(&report);
            summary.add(report);
        }
        summary
    };
    let mut all = Summary::default();
    thread::scope(|scope| {
        let jobs = [scope.spawn(play), scope.spawn(play)];
        jobs.into_iter()
            .for_each(|job| all.join(job.join().unwrap()));
    });
    println!("{all}{}", all.rate(begun.elapsed()));
    assert_eq!(all.unhit(), [], "faults that never hit anything");
    assert_eq!(
        all.unhit_cells(),
        Vec::<&str>::new(),
        "cells of fault and point that were never hit"
    );
}
