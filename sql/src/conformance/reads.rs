//! The answers of reads.

use storage_model::{Bytes, Cell, Owner, Row, Scope};

use crate::RowRange;

use super::{Harness, field, live, owner, sorted};

/// Many owners of several logic types. Some are unknown, and one is requested twice.
pub async fn owners_are_loaded_in_the_order_asked(h: &Harness) {
    h.init(&[0]).await;
    let guild = |id: &str| Owner::new("game", "eu", "guild", id).unwrap();
    let mut owners: Vec<Owner> = (0..600).map(|i| owner(&i.to_string())).collect();
    owners.extend((0..5).map(|i| guild(&i.to_string())));
    let rows = |owner: &Owner| {
        vec![
            live(owner, "a", owner.to_string(), 1),
            live(owner, "b", "x", 2),
        ]
    };
    h.land(owners.iter().flat_map(rows).collect()).await;
    owners.reverse();
    owners.insert(3, owner("nobody"));
    owners.push(owners[0].clone());
    let loaded = h.store.rows.load(&owners, 2).await.unwrap();
    assert_eq!(loaded.len(), owners.len());
    for (asked, got) in owners.iter().zip(loaded) {
        let expected = if asked.id() == "nobody" {
            vec![]
        } else {
            rows(asked)
        };
        assert_eq!(sorted(got), expected, "{asked}");
    }
}

/// An owner above the limit is never partly there, alone or with others.
pub async fn an_owner_with_too_many_rows_comes_back_empty(h: &Harness) {
    h.init(&[0]).await;
    let (few, many) = (owner("few"), owner("many"));
    let mut rows: Vec<Row> = (0..10)
        .map(|i| live(&many, &i.to_string(), "v", 1))
        .collect();
    rows.extend((0..9).map(|i| live(&few, &i.to_string(), "v", 1)));
    h.land(rows).await;
    for asked in [vec![many.clone()], vec![few.clone(), many.clone()]] {
        let loaded = h.store.rows.load(&asked, 9).await.unwrap();
        let last = loaded.last().unwrap();
        assert!(!last.complete && last.rows.is_empty());
        if loaded.len() == 2 {
            assert!(loaded[0].complete && loaded[0].rows.len() == 9);
        }
    }
    assert!(
        h.store
            .rows
            .load(std::slice::from_ref(&many), 10)
            .await
            .unwrap()[0]
            .complete
    );
    assert!(
        !h.store
            .rows
            .load(std::slice::from_ref(&many), 0)
            .await
            .unwrap()[0]
            .complete
    );
    assert!(h.store.rows.load(&[owner("nobody")], 0).await.unwrap()[0].complete);
}

/// Fields without a row are left out. A field named twice comes once.
pub async fn named_fields_are_loaded_alone(h: &Harness) {
    h.init(&[0]).await;
    let ann = owner("ann");
    h.land(vec![
        live(&ann, "a", "1", 1),
        live(&ann, "b", "2", 2),
        live(&ann, "c", "3", 3),
    ])
    .await;
    let mut rows = h
        .store
        .rows
        .load_fields(&ann, &[field("c"), field("x"), field("a"), field("c")])
        .await
        .unwrap();
    rows.sort_by(|a, b| a.field.cmp(&b.field));
    assert_eq!(rows, [live(&ann, "a", "1", 1), live(&ann, "c", "3", 3)]);
}

/// The newest row may be a tombstone or empty. Of two of one version the first by field counts.
/// Other owners' rows do not count.
pub async fn the_newest_row_of_an_owner_is_found_whatever_it_holds(h: &Harness) {
    h.init(&[0]).await;
    let (ann, bo) = (owner("ann"), owner("bo"));
    let newest = async |owner: &Owner| h.store.rows.load_newest(owner).await.unwrap();
    assert_eq!(newest(&ann).await, None);
    h.land(vec![
        live(&ann, "a", "1", 7),
        live(&ann, "b", "2", 9),
        live(&ann, "c", "3", 9),
        live(&bo, "a", "4", 20),
    ])
    .await;
    assert_eq!(newest(&ann).await, Some(live(&ann, "b", "2", 9)));
    for (number, cell) in [(10, Cell::Removed(Bytes::from("3"))), (11, Cell::Purged)] {
        let row = Row {
            cell,
            ..live(&ann, "c", "", number)
        };
        h.land(vec![row.clone()]).await;
        assert_eq!(newest(&ann).await, Some(row));
    }
}

/// An owner exists while it has a live field.
pub async fn pages_of_owners_leave_out_those_without_a_live_row(h: &Harness) {
    h.init(&[0]).await;
    let world = Scope::new("game", "eu").unwrap();
    let guild = |id: &str| world.owner("guild", id).unwrap();
    let mut rows: Vec<Row> = (0..25)
        .flat_map(|i| ["a", "b"].map(|f| live(&owner(&format!("{i:02}")), f, "v", 1)))
        .collect();
    rows.extend((0..3).map(|i| live(&guild(&i.to_string()), "a", "v", 1)));
    for row in rows
        .iter_mut()
        .filter(|row| row.owner.id() == "07" || (row.owner.id() == "08" && row.field == field("a")))
    {
        row.cell = Cell::Removed(Bytes::from("v"));
    }
    rows.push(Row {
        cell: Cell::Purged,
        ..live(&owner("99"), "a", "", 1)
    });
    let elsewhere = Owner::new("game", "us", "player", "01").unwrap();
    rows.push(live(&elsewhere, "a", "v", 1));
    h.land(rows).await;

    let players: Vec<Owner> = (0..25)
        .filter(|i| *i != 7)
        .map(|i| owner(&format!("{i:02}")))
        .collect();
    let guilds: Vec<Owner> = (0..3).map(|i| guild(&i.to_string())).collect();
    let all: Vec<Owner> = guilds
        .iter()
        .chain(&players)
        .chain([&elsewhere])
        .cloned()
        .collect();
    for (logic_type, expected) in [
        (Some("player"), players),
        (Some("guild"), guilds),
        (Some("none"), Vec::new()),
        (None, all),
    ] {
        let mut got: Vec<Owner> = Vec::new();
        loop {
            let page = match logic_type {
                Some(logic_type) => h
                    .store
                    .rows
                    .owners(&world, logic_type, got.last(), 4)
                    .await
                    .unwrap(),
                None => h.store.rows.all_owners(got.last(), 4).await.unwrap(),
            };
            assert!(page.len() <= 4);
            if page.is_empty() {
                break;
            }
            got.extend(page);
        }
        assert_eq!(got, expected);
    }
}

/// Key order goes through app, region, logic type and id, by bytes.
pub async fn pages_go_across_worlds(h: &Harness) {
    h.init(&[0]).await;
    let parts = ["A", "a", "a-", "é"];
    let mut owners = Vec::new();
    for app in parts {
        for region in parts {
            for logic_type in parts {
                owners.extend(parts.map(|id| Owner::new(app, region, logic_type, id).unwrap()));
            }
        }
    }
    h.land(
        owners
            .iter()
            .rev()
            .map(|owner| live(owner, "f", "v", 1))
            .collect(),
    )
    .await;
    for limit in [1, 7, 1_000] {
        let mut got: Vec<Owner> = Vec::new();
        loop {
            let page = h.store.rows.all_owners(got.last(), limit).await.unwrap();
            if page.is_empty() {
                break;
            }
            got.extend(page);
        }
        assert_eq!(got, owners, "pages of {limit}");
    }
}

/// Empty questions need no database.
pub async fn nothing_asked_is_nothing_answered(h: &Harness) {
    h.store.database.close().await;
    let world = Scope::new("game", "eu").unwrap();
    assert!(h.store.rows.load(&[], 9).await.unwrap().is_empty());
    assert!(
        h.store
            .rows
            .load_fields(&owner("ann"), &[])
            .await
            .unwrap()
            .is_empty()
    );
    assert!(h.store.partitions.partitions(&[]).await.unwrap().is_empty());
    assert!(h.store.partitions.raise(&[]).await.unwrap().is_empty());
    assert!(
        h.store
            .rows
            .owners(&world, "player", None, 0)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(h.store.rows.all_owners(None, 0).await.unwrap().is_empty());
    h.store
        .landing
        .land(&crate::Batch::default())
        .await
        .unwrap();
}

/// A page has the live fields of one name between two ids, from either end.
pub async fn items_come_in_pages_from_either_end(h: &Harness) {
    h.init(&[0]).await;
    let item = |id: &str| Owner::new("game", "eu", "item", id).unwrap();
    let mut rows = Vec::new();
    for i in 0..9 {
        rows.push(live(&item(&format!("{{c~}}1/{i}")), "d", format!("{i}"), 1));
        rows.push(live(&item(&format!("{{c~}}1/{i}")), "x", "other", 1));
    }
    rows.push(live(&item("{c~}0/1"), "d", "before", 1));
    rows.push(live(&item("{c~}10/1"), "d", "behind", 1));
    rows.push(Row {
        cell: Cell::Removed(Bytes::from("4")),
        ..live(&item("{c~}1/4"), "d", "", 2)
    });
    rows.push(Row {
        cell: Cell::Purged,
        ..live(&item("{c~}1/9"), "d", "", 2)
    });
    h.land(rows).await;
    let page = |from: &str, before: &str, backwards: bool, limit: usize| {
        let scope = Scope::new("game", "eu").unwrap();
        let range = RowRange::new(scope, "item", vec![field("d")])
            .between(from, before)
            .limit(limit);
        if backwards { range.backwards() } else { range }
    };
    let read = async |page: RowRange| {
        let rows = h.store.ranges.between(&page).await.unwrap();
        let values = rows.iter().map(|row| match &row.cell {
            Cell::Live(value) | Cell::Removed(value) => String::from_utf8(value.to_vec()).unwrap(),
            Cell::Purged => panic!("a purged row"),
        });
        values.collect::<Vec<_>>().join("")
    };
    let all = ("{c~}1/", "{c~}10");
    assert_eq!(read(page(all.0, all.1, false, 100)).await, "01235678");
    assert_eq!(read(page(all.0, all.1, false, 3)).await, "012");
    assert_eq!(read(page("{c~}1/2", all.1, false, 3)).await, "235");
    assert_eq!(read(page(all.0, all.1, true, 3)).await, "876");
    assert_eq!(read(page(all.0, "{c~}1/6", true, 9)).await, "53210");
    assert_eq!(read(page(all.0, all.1, false, 0)).await, "");
    for backwards in [false, true] {
        let removed = page(all.0, all.1, backwards, 9).removed();
        assert_eq!(read(removed).await, "4");
    }
}
