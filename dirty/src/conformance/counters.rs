//! Counting (R10).

use storage_model::{Change, Owner};

use super::field;
use super::harness::{Harness, live, owner, set};
use crate::{Mutated, Refusal};

async fn absent(h: &Harness, id: &str) -> Owner {
    let owner = owner(id);
    h.make_absent(&owner).await;
    owner
}

/// The simple case.
pub async fn incr_counts_from_what_is_there_and_from_nothing(h: &Harness) {
    let ann = absent(h, "ann").await;
    assert_eq!(
        h.apply(&ann, vec![("gold", Change::Incr(5))])
            .await
            .counters,
        vec![5]
    );
    let applied = h
        .apply(
            &ann,
            vec![
                ("gems", Change::Incr(-2)),
                ("gold", Change::Incr(-7)),
                ("name", set("Ann")),
            ],
        )
        .await;
    assert_eq!((applied.counters, applied.changed), (vec![-2, -2], 3));
    assert_eq!(h.cell(&ann, "gold").await, Some(live("-2")));
    assert_eq!(
        h.apply(&ann, vec![("gold", Change::Incr(0))])
            .await
            .counters,
        vec![-2]
    );
}

/// Also where floating-point numbers are not exact.
pub async fn incr_is_exact_to_the_last_bit(h: &Harness) {
    let ann = absent(h, "ann").await;
    let cases = [
        ((1 << 53) + 1, 1, (1 << 53) + 2),
        ((1 << 53) + 1, 0, (1 << 53) + 1),
        (i64::MAX - 1, 1, i64::MAX),
        (i64::MAX, 0, i64::MAX),
        (i64::MAX, i64::MIN, -1),
        (i64::MIN, i64::MAX, -1),
        (i64::MIN + 1, -1, i64::MIN),
        (i64::MIN, 0, i64::MIN),
        (0, i64::MIN, i64::MIN),
        (0, i64::MAX, i64::MAX),
        (-1, 1, 0),
        (1, -1, 0),
        (-5, 3, -2),
        (999_999_999_999_999_999, 1, 1_000_000_000_000_000_000),
        (-1_000_000_000_000_000_000, 1, -999_999_999_999_999_999),
        (
            1_234_567_890_123_456_789,
            -987_654_321_098_765_432,
            246_913_569_024_691_357,
        ),
    ];
    for (held, by, sum) in cases {
        h.set(&ann, "gold", &held.to_string()).await;
        let applied = h.apply(&ann, vec![("gold", Change::Incr(by))]).await;
        assert_eq!(applied.counters, vec![sum], "{held} + {by}");
        assert_eq!(
            h.cell(&ann, "gold").await,
            Some(live(&sum.to_string())),
            "{held} + {by}"
        );
    }
}

/// Accepts only integers that an incr would have written itself.
pub async fn incr_refuses_what_is_not_a_canonical_integer(h: &Harness) {
    let ann = absent(h, "ann").await;
    let texts = [
        "",
        "-",
        "+1",
        "01",
        "-0",
        "00",
        "1.0",
        "1e3",
        " 1",
        "1 ",
        "0x10",
        "abc",
        "9223372036854775808",
        "-9223372036854775809",
    ];
    for text in texts
        .into_iter()
        .chain(["99999999999999999999", "1\n", "1\0", "١"])
    {
        h.set(&ann, "gold", text).await;
        let before = h.read(&ann).await;
        let refused = Mutated::Refused(Refusal::NotInteger(field("gold")));
        assert_eq!(
            h.change(&ann, vec![("gold", Change::Incr(1))]).await,
            refused,
            "{text:?}"
        );
        assert_eq!(h.read(&ann).await, before, "{text:?}");
    }
    h.apply(&ann, vec![("gold", Change::Set(vec![0xff, 0x31].into()))])
        .await;
    assert!(matches!(
        h.change(&ann, vec![("gold", Change::Incr(1))]).await,
        Mutated::Refused(Refusal::NotInteger(_))
    ));
}

/// All or nothing.
pub async fn an_overflow_of_any_field_changes_nothing(h: &Harness) {
    let ann = absent(h, "ann").await;
    let max = i64::MAX.to_string();
    let min = i64::MIN.to_string();
    h.apply(
        &ann,
        vec![("a", set("1")), ("b", set(&max)), ("c", set(&min))],
    )
    .await;
    let before = h.read(&ann).await;
    for (name, by) in [("b", 1), ("b", i64::MAX), ("c", -1), ("c", i64::MIN)] {
        let changes = vec![
            ("a", Change::Incr(1)),
            (name, Change::Incr(by)),
            ("d", set("new")),
        ];
        assert_eq!(
            h.change(&ann, changes).await,
            Mutated::Refused(Refusal::Overflow(field(name))),
            "{name} + {by}"
        );
        assert_eq!(h.read(&ann).await, before, "{name} + {by}");
    }
}

/// A tombstone is no number.
pub async fn incr_after_remove_starts_at_zero(h: &Harness) {
    let ann = absent(h, "ann").await;
    h.set(&ann, "gold", "no number").await;
    h.apply(&ann, vec![("gold", Change::Remove)]).await;
    assert_eq!(
        h.apply(&ann, vec![("gold", Change::Incr(3))])
            .await
            .counters,
        vec![3]
    );
    assert_eq!(h.cell(&ann, "gold").await, Some(live("3")));
}
