//! Histories that no sound storage has.

use super::*;

/// Asserts that a check rejects a history for this reason.
#[track_caller]
fn refused(case: Case, check: &str, reason: &str) {
    let flaws = case.flaws();
    let fits = flaws
        .iter()
        .any(|flaw| flaw.check == check && flaw.detail.contains(reason));
    assert!(fits, "no flaw of {check} with {reason:?} among {flaws:#?}");
}

#[test]
fn the_last_acknowledged_write_is_not_in_the_database() {
    refused(
        Case::default()
            .set(10, "f0", "a", 1)
            .set(20, "f0", "b", 2)
            .holds("f0", "a", 1),
        "V2",
        "the database holds Live(\"a\")",
    );
    refused(
        Case::default().set(10, "f0", "a", 1),
        "V2",
        "the database holds Absent",
    );
}

#[test]
fn a_row_holds_what_nobody_wrote() {
    refused(
        Case::default().set(10, "f0", "a", 1).holds("f0", "x", 1),
        "V2",
        "the database holds Live(\"x\")",
    );
    let name = "player/p0-99/f0";
    refused(
        Case::default().stored(name, &value_of("a"), 1, 0),
        "V2",
        "no operation wrote this row",
    );
}

#[test]
fn a_write_that_was_said_not_to_be_applied_is_stored() {
    let case = Case::default().set(10, "f0", "a", 1).own(
        20,
        25,
        sets(&[("f0", "b")]),
        End::NotApplied("full".to_owned()),
    );
    refused(case.holds("f0", "b", 2), "V2", "may hold {Live(\"a\")}");
}

#[test]
fn a_write_that_was_said_to_conflict_is_read() {
    let case =
        Case::default()
            .set(10, "f0", "a", 1)
            .own(20, 25, sets(&[("f0", "b")]), End::Conflict);
    refused(
        case.read(30, "f0", Some("b"), 2).holds("f0", "a", 1),
        "V4",
        "found Some(\"b\")",
    );
}

#[test]
fn a_write_of_unknown_outcome_is_applied_after_its_deadline() {
    let case = Case::default()
        .own(10, 20, sets(&[("f0", "ghost")]), unknown())
        .set(2_000, "f0", "b", 5);
    refused(case.holds("f0", "ghost", 6), "V2", "may hold {Live(\"b\")}");
}

#[test]
fn a_read_is_older_than_what_was_acknowledged_before_it() {
    let case = Case::default().set(10, "f0", "a", 1).set(20, "f0", "b", 2);
    refused(
        case.read(30, "f0", Some("a"), 2).holds("f0", "b", 2),
        "V4",
        "possible were {Live(\"b\")}",
    );
}

#[test]
fn a_read_finds_nothing_where_something_was_acknowledged() {
    let case = Case::default().set(10, "f0", "a", 1);
    refused(
        case.read(30, "f0", None, 1).holds("f0", "a", 1),
        "V4",
        "found None",
    );
}

#[test]
fn a_record_is_no_one_moment_of_its_owner() {
    // The read began before the second write, but its version lies after the write.
    let case = Case::default()
        .set(10, "f0", "a", 1)
        .own(20, 90, sets(&[("f0", "b")]), acked(2))
        .set(95, "f1", "c", 3);
    let case = case.by(
        1,
        OWN,
        15,
        99,
        Call::Read(Some(vec!["f0".to_owned()])),
        End::Found {
            version: 3,
            fields: vec![("f0".to_owned(), "a".to_owned())],
        },
    );
    refused(
        case.holds("f0", "b", 2).holds("f1", "c", 3),
        "V4",
        "found Some(\"a\") at version 3",
    );
}

#[test]
fn a_writer_does_not_find_what_it_wrote() {
    let case = Case::default()
        .set(10, "f0", "a", 1)
        .set(20, "f0", "b", 2)
        .read_by(0, OWN, 30, "f0", Some("a"), 2);
    refused(
        case.holds("f0", "b", 2),
        "V6",
        "could only hold {Live(\"b\")}",
    );
}

#[test]
fn a_value_is_damaged() {
    let case =
        Case::default()
            .set(10, "f0", "a", 1)
            .read(20, "f0", Some("damaged value of 3 bytes"), 1);
    refused(case.holds("f0", "a", 1), "V4", "damaged");
    refused(
        Case::default()
            .set(10, "f0", "a", 1)
            .stored("player/p0-0/f0", b"a~123", 1, 0),
        "V2",
        "damaged",
    );
}

#[test]
fn versions_go_back() {
    let case = Case::default().set(10, "f0", "a", 7).set(20, "f1", "b", 6);
    refused(
        case.holds("f0", "a", 7).holds("f1", "b", 6),
        "V1",
        "version 6 at 20 came after version 7",
    );
}

#[test]
fn two_writes_have_one_version() {
    let case = Case::default().set(10, "f0", "a", 7).set(20, "f1", "b", 7);
    refused(
        case.holds("f0", "a", 7).holds("f1", "b", 7),
        "V1",
        "version 7 at 20 came after version 7",
    );
}

#[test]
fn a_reader_sees_an_owner_go_back() {
    let case = Case::default()
        .set(10, "f0", "a", 7)
        .read(20, "f0", Some("a"), 5);
    refused(
        case.holds("f0", "a", 7),
        "V4",
        "version 5 at 20 came after version 7",
    );
}

#[test]
fn a_removed_value_is_stored_as_live() {
    let case =
        Case::default()
            .set(10, "f0", "a", 1)
            .own(20, 25, one("f0", Effect::Remove), acked(2));
    refused(case.holds("f0", "a", 1), "V2", "may hold {Removed(\"a\")}");
}

#[test]
fn a_removed_value_is_read() {
    let case =
        Case::default()
            .set(10, "f0", "a", 1)
            .own(20, 25, one("f0", Effect::Remove), acked(2));
    refused(
        case.read(30, "f0", Some("a"), 2)
            .holds_removed("f0", "a", 2),
        "V4",
        "found Some(\"a\")",
    );
}

#[test]
fn a_removal_says_it_removed_something_though_nothing_was_there() {
    let case =
        Case::default()
            .set(10, "f1", "a", 1)
            .own(20, 25, one("f0", Effect::Remove), acked(2));
    refused(case.holds("f1", "a", 1), "V6", "could only hold {Absent}");
}

#[test]
fn a_restored_value_is_not_the_last_one() {
    let case = Case::default().set(10, "f0", "a", 1).set(20, "f0", "b", 2);
    let case = case.own(30, 35, one("f0", Effect::Remove), acked(3)).own(
        40,
        45,
        one("f0", Effect::Restore),
        acked(4),
    );
    refused(case.holds("f0", "a", 4), "V2", "may hold {Live(\"b\")}");
}

#[test]
fn a_counter_of_one_writer_skips_an_increment() {
    let case = Case::default().own(10, 15, one("c0", Effect::Incr(5)), counted("c0", 5, 1));
    let case = case.own(20, 25, one("c0", Effect::Incr(3)), counted("c0", 3, 2));
    refused(
        case.stored("player/p0-0/c0", b"3", 2, 0),
        "V6",
        "could only hold {Live(\"5\")}",
    );
}

#[test]
fn a_shared_counter_lost_an_acknowledged_increment() {
    refused(
        Case::default()
            .incr(0, 10, 5, 5, 1)
            .incr(1, 20, 7, 12, 2)
            .holds_gold(5),
        "V3",
        "5 is stored",
    );
    refused(
        Case::default()
            .incr(0, 10, 5, 5, 1)
            .incr(1, 20, 7, 7, 2)
            .holds_gold(7),
        "V3",
        "an increment by 7 from 5 was answered 7",
    );
}

#[test]
fn a_shared_counter_counted_an_acknowledged_increment_twice() {
    refused(
        Case::default()
            .incr(0, 10, 5, 5, 1)
            .incr(1, 20, 7, 17, 2)
            .holds_gold(17),
        "V3",
        "was answered 17",
    );
    refused(
        Case::default().incr(0, 10, 5, 5, 1).holds_gold(10),
        "V3",
        "10 is stored",
    );
}

#[test]
fn an_increment_of_unknown_outcome_counted_twice() {
    let case = Case::default().by(
        1,
        "guild/g0",
        10,
        15,
        one("gold", Effect::Incr(7)),
        unknown(),
    );
    refused(
        case.incr(0, 20, 5, 19, 2).holds_gold(19),
        "V3",
        "was answered 19",
    );
}

#[test]
fn a_reader_finds_a_shared_counter_below_what_was_acknowledged() {
    let case = Case::default()
        .incr(0, 10, 5, 5, 1)
        .incr(0, 20, 5, 10, 2)
        .read_by(1, "guild/g0", 30, "gold", Some("5"), 2);
    refused(case.holds_gold(10), "V4", "found 5; 10 was acknowledged");
}

#[test]
fn a_chain_forks() {
    let case = Case::default()
        .link(0, 10, "a", "", 1)
        .link(0, 20, "b", "a", 2)
        .link(1, 20, "c", "a", 2);
    refused(case.holds_room(2, "c"), "V6", "are both link 2");
}

#[test]
fn a_chain_lost_a_link() {
    let case = Case::default()
        .link(0, 10, "a", "", 1)
        .link(0, 20, "b", "a", 2);
    refused(
        case.holds_room(1, "a"),
        "V6",
        "the last acknowledged link was (2, \"b\")",
    );
}

#[test]
fn a_chain_has_a_link_that_nobody_put_there() {
    let case = Case::default()
        .link(0, 10, "a", "", 1)
        .link(0, 20, "c", "x", 3);
    refused(
        case.holds_room(3, "c"),
        "V6",
        "c became link 3 behind \"x\"",
    );
}

#[test]
fn a_later_link_stands_before_an_earlier_one() {
    let case = Case::default()
        .link(0, 10, "a", "", 1)
        .link(1, 30, "b", "a", 2)
        .link(0, 20, "c", "b", 3);
    refused(
        case.holds_room(3, "c"),
        "V6",
        "link 2 was put there after link 3",
    );
}

#[test]
fn a_write_on_the_newest_version_meets_a_conflict() {
    let call = Call::Write {
        changes: vec![("f0".to_owned(), Effect::Set("b".to_owned()))],
        if_version: Some(1),
    };
    let case = Case::default()
        .set(10, "f0", "a", 1)
        .own(20, 25, call, End::Conflict);
    refused(case.holds("f0", "a", 1), "V9", "met a conflict");
}

#[test]
fn the_sdk_reads_something_else_than_the_database_holds() {
    let case = || Case::default().set(10, "f0", "a", 1).holds("f0", "a", 1);
    let read = |token: &str| Values::from([(format!("{OWN}/f0"), value_of(token))]);
    refused(case().sdk_reads(read("b"), read("a")), "V2", "(cached)");
    refused(case().sdk_reads(read("a"), Values::new()), "V2", "(loaded)");
}

#[test]
fn what_had_landed_is_gone_after_the_hot_tier_came_back_older() {
    let landed = row("player/p0-0/f0", &value_of("b"), 2, 0);
    let case = Case::default()
        .set(10, "f0", "a", 1)
        .set(20, "f0", "b", 2)
        .rewound(50, 60, vec![landed]);
    refused(
        case.read(70, "f0", Some("a"), 1).holds("f0", "b", 2),
        "V4",
        "found Some(\"a\")",
    );
    let landed = row("guild/g0/gold", b"12", 2, 0);
    let case = Case::default()
        .incr(0, 10, 5, 5, 1)
        .incr(0, 20, 7, 12, 2)
        .rewound(50, 60, vec![landed]);
    refused(
        case.incr(0, 70, 1, 6, 9).holds_gold(6),
        "V3",
        "was answered 6",
    );
    let landed = row("room/0/data", &room(2, "b"), 2, 0);
    let case = Case::default()
        .link(0, 10, "a", "", 1)
        .link(0, 20, "b", "a", 2)
        .rewound(50, 60, vec![landed]);
    refused(
        case.link(0, 70, "c", "a", 2).holds_room(2, "c"),
        "V6",
        "landed: 2",
    );
}

#[test]
fn a_value_that_was_overwritten_before_the_landed_one_is_back_in_the_end() {
    let landed = row("player/p0-0/f0", &value_of("b"), 2, 0);
    let case = Case::default()
        .set(10, "f0", "a", 1)
        .set(20, "f0", "b", 2)
        .set(30, "f0", "c", 3)
        .rewound(50, 60, vec![landed]);
    refused(
        case.holds("f0", "a", 9),
        "V2",
        "the database holds Live(\"a\")",
    );
}

#[test]
fn a_flush_said_that_something_is_in_the_database_which_is_not() {
    let landed = row("player/p0-0/f0", &value_of("a"), 1, 0);
    let case = Case::default()
        .set(10, "f0", "a", 1)
        .set(20, "f0", "b", 2)
        .own(30, 35, Call::Flush, End::Flushed(2));
    refused(
        case.rewound(50, 60, vec![landed]).holds("f0", "b", 2),
        "V2",
        "a flush said that 2 is in the database",
    );
}
