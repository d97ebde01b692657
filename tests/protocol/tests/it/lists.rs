//! A list shows every acknowledged change, and a collection counts its items.

use storage_protocol::lists::{Broken, Lists};
use storage_protocol::search;

/// Far above the need of any search.
const STATES_MAX: usize = 10_000_000;

const EMPTY: Lists = Lists {
    changes: 3,
    writers: 1,
    stored: false,
    apart: false,
    lists: true,
    paged: false,
    broken: None,
};
const STORED: Lists = Lists {
    changes: 4,
    stored: true,
    ..EMPTY
};
const PAGED: Lists = Lists {
    paged: true,
    ..STORED
};
const APART: Lists = Lists {
    apart: true,
    changes: 3,
    ..STORED
};
const WRITERS: Lists = Lists {
    writers: 2,
    changes: 3,
    ..STORED
};
const COUNTS: Lists = Lists {
    lists: false,
    writers: 2,
    ..STORED
};
const COUNTS_EMPTY: Lists = Lists {
    lists: false,
    writers: 2,
    ..EMPTY
};

#[test]
fn in_every_interleaving_a_list_shows_each_item_as_it_was_while_the_list_was_read() {
    for (name, bounds) in [
        ("empty", EMPTY),
        ("stored", STORED),
        ("paged", PAGED),
        ("apart", APART),
        ("two clients", WRITERS),
        ("counts", COUNTS),
        ("counts of an empty collection", COUNTS_EMPTY),
    ] {
        let found = search(&bounds, STATES_MAX);
        println!("{name}: {found}");
        assert!(
            found.complete && found.counterexample.is_none(),
            "{name}: {found}"
        );
    }
}

#[test]
fn every_rule_of_lists_that_is_broken_has_a_counterexample() {
    for (broken, bounds) in [
        (Broken::RowsFirst, STORED),
        (Broken::NoOverlay, STORED),
        (Broken::AnyGeneration, STORED),
        (Broken::HeadOfRow, STORED),
        (Broken::HeadLast, STORED),
        (Broken::NoteApart, STORED),
        (Broken::TrimFirst, STORED),
        (Broken::SettleFirst, STORED),
        (Broken::NoteUnlinked, APART),
        (Broken::AnyHead, COUNTS),
        (Broken::AnyItem, COUNTS),
        (Broken::CountWritten, COUNTS),
        (Broken::DeleteUnconditional, COUNTS),
        (Broken::DeleteUnraised, COUNTS),
    ] {
        let found = search(
            &Lists {
                broken: Some(broken),
                ..bounds
            },
            STATES_MAX,
        );
        println!("{broken:?}: {found}");
        assert!(found.counterexample.is_some(), "{broken:?}: {found}");
    }
}
