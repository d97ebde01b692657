//! Histories that a sound storage may have.

use super::*;

#[track_caller]
fn passes(case: Case) {
    assert_eq!(case.flaws(), []);
}

#[test]
fn writes_reads_and_removals_in_order() {
    let case = Case::default()
        .set(10, "f0", "a", 1)
        .read(12, "f0", None, 0)
        .read(20, "f0", Some("a"), 1);
    let case = case.own(30, 35, one("f0", Effect::Remove), acked(2)).own(
        40,
        45,
        one("f0", Effect::Restore),
        acked(3),
    );
    passes(
        case.read(50, "f0", Some("a"), 3)
            .own(60, 65, one("f0", Effect::Remove), acked(4))
            .holds_removed("f0", "a", 4),
    );
}

#[test]
fn a_write_of_unknown_outcome_is_applied_late_or_never() {
    let case = || {
        Case::default()
            .own(10, 20, sets(&[("f0", "ghost")]), unknown())
            .set(30, "f0", "b", 5)
    };
    passes(
        case()
            .read(40, "f0", Some("b"), 5)
            .read(50, "f0", Some("ghost"), 6)
            .holds("f0", "ghost", 6),
    );
    passes(case().holds("f0", "b", 5));
}

#[test]
fn a_killed_writer_leaves_a_write_without_an_end() {
    let case =
        Case::default()
            .set(10, "f0", "a", 1)
            .own(20, Micros::MAX, sets(&[("f0", "b")]), unknown());
    passes(case.read(30, "f0", Some("b"), 2).holds("f0", "b", 2));
}

#[test]
fn shared_counters_and_chains_with_unknown_outcomes() {
    let case = Case::default().incr(0, 10, 5, 5, 1).by(
        1,
        "guild/g0",
        11,
        15,
        one("gold", Effect::Incr(7)),
        unknown(),
    );
    passes(case.incr(0, 20, 1, 13, 3).holds_gold(13));
    let case = Case::default().link(0, 10, "a", "", 1).by(
        1,
        "room/0",
        11,
        15,
        Call::Append("b".to_owned()),
        unknown(),
    );
    passes(case.link(0, 20, "c", "b", 3).holds_room(3, "c"));
}

#[test]
fn a_session_that_ends_before_its_first_link_leaves_a_chain_without_links() {
    let case = Case::default().by(0, "room/0", 10, 15, Call::Start, End::Done(0));
    passes(case.holds_room(0, ""));
}

#[test]
fn what_had_not_landed_may_be_gone_after_the_hot_tier_came_back_older() {
    let landed = || row("player/p0-0/f0", &value_of("b"), 2, 0);
    let case = || {
        Case::default()
            .set(10, "f0", "a", 1)
            .set(20, "f0", "b", 2)
            .set(30, "f0", "c", 3)
            .rewound(50, 60, vec![landed()])
    };
    passes(
        case()
            .read(70, "f0", Some("b"), 2)
            .set(80, "f0", "d", 4)
            .holds("f0", "d", 4),
    );
    passes(case().read(70, "f0", Some("c"), 3).holds("f0", "c", 3));
    let landed = || row("guild/g0/gold", b"5", 1, 0);
    let case = Case::default()
        .incr(0, 10, 5, 5, 1)
        .incr(0, 20, 7, 12, 2)
        .rewound(50, 60, vec![landed()]);
    passes(case.incr(1, 70, 1, 6, 9).holds_gold(6));
    // The second copy is from the time right after the first came back, and nothing has landed
    // since.
    let case = Case::default()
        .incr(0, 10, 5, 5, 1)
        .incr(0, 20, 7, 12, 2)
        .rewound(50, 60, vec![landed()])
        .incr(0, 70, 1, 13, 9);
    passes(
        case.rewound(80, 90, vec![landed()])
            .incr(1, 100, 2, 14, 12)
            .holds_gold(14),
    );
}

#[test]
fn what_was_written_after_a_flush_may_be_gone() {
    let landed = row("player/p0-0/f0", &value_of("a"), 1, 0);
    let case = Case::default()
        .set(10, "f0", "a", 1)
        .own(12, 15, Call::Flush, End::Flushed(1))
        .set(20, "f0", "b", 2);
    passes(case.rewound(50, 60, vec![landed]).holds("f0", "a", 1));
}
