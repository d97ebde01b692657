//! The fate of rows that land.

use storage_model::{Bytes, Cell, Row};

use super::{Harness, live, owner, version};

/// R3: versions decide, in any order of arrival.
pub async fn an_older_row_never_replaces_a_newer_one(h: &Harness) {
    h.init(&[0]).await;
    let ann = owner("ann");
    for (value, number) in [("ten", 10), ("five", 5), ("twenty", 20), ("eleven", 11)] {
        h.land(vec![live(&ann, "gold", value, number)]).await;
    }
    assert_eq!(h.rows(&ann).await, [live(&ann, "gold", "twenty", 20)]);
}

/// R3: landing the same version again changes nothing, for any content.
pub async fn a_row_of_the_same_version_is_ignored(h: &Harness) {
    h.init(&[0]).await;
    let ann = owner("ann");
    h.land(vec![live(&ann, "gold", "first", 10)]).await;
    h.land(vec![live(&ann, "gold", "second", 10)]).await;
    assert_eq!(h.rows(&ann).await, [live(&ann, "gold", "first", 10)]);
}

/// H31: a version raised before the value is compared would keep the old value for ever.
pub async fn value_state_and_version_change_together(h: &Harness) {
    h.init(&[0]).await;
    let ann = owner("ann");
    let removed = Row {
        cell: Cell::Removed(Bytes::from("new")),
        ..live(&ann, "gold", "", 20)
    };
    h.land(vec![live(&ann, "gold", "old", 10)]).await;
    h.land(vec![removed.clone()]).await;
    assert_eq!(h.rows(&ann).await, [removed]);
    h.land(vec![live(&ann, "gold", "again", 30)]).await;
    assert_eq!(h.rows(&ann).await, [live(&ann, "gold", "again", 30)]);
}

/// A batch may name a field twice.
pub async fn of_two_rows_of_one_field_the_newer_counts(h: &Harness) {
    h.init(&[0]).await;
    let ann = owner("ann");
    h.land(vec![
        live(&ann, "gold", "new", 9),
        live(&ann, "gold", "old", 3),
        live(&ann, "bag", "x", 4),
    ])
    .await;
    assert_eq!(
        h.rows(&ann).await,
        [live(&ann, "bag", "x", 4), live(&ann, "gold", "new", 9)]
    );
}

/// H41: case, accents, trailing spaces and Unicode forms all make another key. The longest names
/// fit.
pub async fn keys_are_exact_to_the_byte(h: &Harness) {
    h.init(&[0]).await;
    let long = "é".repeat(127);
    let names = [
        "Bob",
        "bob",
        "bob ",
        "böb",
        "bo\u{308}b",
        "bob'`\\",
        "%",
        "_",
        "ＢＯＢ",
        long.as_str(),
    ];
    let rows: Vec<Row> = names
        .iter()
        .flat_map(|id| names.map(|name| live(&owner(id), name, format!("{id}|{name}"), 1)))
        .collect();
    h.land(rows).await;
    for id in names {
        let rows = h.rows(&owner(id)).await;
        assert_eq!(rows.len(), names.len(), "{id}");
        for row in rows {
            assert_eq!(
                row.cell,
                Cell::Live(Bytes::from(format!("{id}|{}", row.field)))
            );
        }
    }
}

/// H41: values are neither cut nor folded, from zero bytes to some megabytes.
pub async fn any_bytes_of_any_size_come_back(h: &Harness) {
    h.init(&[0]).await;
    let ann = owner("ann");
    let pattern = |length: usize| {
        (0..length)
            .map(|i| i.to_le_bytes()[0] ^ i.to_le_bytes()[1])
            .collect::<Vec<u8>>()
    };
    let rows: Vec<Row> = [0, 1, 255, 256, 65_535, 65_536, 70_000, 3 << 20]
        .iter()
        .map(|&length| live(&ann, &format!("{length:08}"), pattern(length), 1))
        .collect();
    h.land(rows.clone()).await;
    assert!(h.rows(&ann).await == rows, "some value came back changed");
}

/// A removed field keeps its last value, a purged one only its version.
pub async fn removed_and_purged_fields_stay_as_rows(h: &Harness) {
    h.init(&[0]).await;
    let ann = owner("ann");
    let removed = Row {
        cell: Cell::Removed(Bytes::from("last")),
        ..live(&ann, "a", "", 5)
    };
    let purged = Row {
        cell: Cell::Purged,
        ..live(&ann, "b", "", 6)
    };
    h.land(vec![live(&ann, "a", "last", 1), live(&ann, "b", "gone", 2)])
        .await;
    h.land(vec![removed.clone(), purged.clone()]).await;
    h.land(vec![live(&ann, "b", "late", 3)]).await;
    assert_eq!(h.rows(&ann).await, [removed, purged]);
}

/// A batch that takes statements of several sizes is still one transaction.
pub async fn a_batch_of_a_thousand_rows_lands_whole(h: &Harness) {
    h.init(&[0]).await;
    let rows: Vec<Row> = (0..1_001_u64)
        .rev()
        .map(|i| live(&owner(&format!("{}", i % 77)), &i.to_string(), "v", i + 1))
        .collect();
    h.land(rows).await;
    let mut landed = 0;
    for i in 0..77 {
        for row in h.rows(&owner(&i.to_string())).await {
            let number: u64 = row.field.as_str().parse().unwrap();
            assert_eq!(row.version, version(number + 1));
            landed += 1;
        }
    }
    assert_eq!(landed, 1_001);
}
