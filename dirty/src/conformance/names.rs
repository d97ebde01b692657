//! Names and values (R9, H14).

use storage_model::{Change, Owner};

use super::field;
use super::harness::{Harness, live, owner, set};

const ODD: [&str; 24] = [
    ":",
    "::",
    ":x",
    "x:",
    "%",
    "%25",
    "%3A",
    "{",
    "}",
    "{a}",
    "{}",
    "&",
    "a&b",
    "del",
    ":del",
    ":delFlag",
    "cachedAllKey",
    "*",
    "?",
    "[a]",
    "'\"`",
    "名前",
    " ",
    "\\0",
];

/// As fields and as owners, all beside each other.
pub async fn any_name_is_a_name_of_its_own(h: &Harness) {
    for id in ODD {
        let owner = owner(id);
        let changes = ODD
            .iter()
            .map(|name| (*name, set(&format!("{id}/{name}"))))
            .collect();
        h.apply(&owner, changes).await;
    }
    for id in ODD {
        let owner = owner(id);
        let read = h.read(&owner).await;
        assert_eq!(read.cells.len(), ODD.len(), "{id:?}");
        for name in ODD {
            assert_eq!(
                h.cell(&owner, name).await,
                Some(live(&format!("{id}/{name}"))),
                "{id:?} {name:?}"
            );
        }
        h.apply(
            &owner,
            ODD.iter().map(|name| (*name, Change::Remove)).collect(),
        )
        .await;
        assert!(
            h.read(&owner)
                .await
                .cells
                .iter()
                .all(|(_, cell)| cell.live().is_none())
        );
    }
    let mut marked = std::collections::BTreeSet::new();
    for id in ODD {
        for entry in h.land(&owner(id)).await {
            let mark = entry.mark.unwrap();
            assert_eq!(mark.fields.len(), ODD.len());
            marked.insert(mark.owner);
        }
    }
    assert_eq!(marked, ODD.iter().map(|id| owner(id)).collect());
}

/// `a:b` + `c` is not `a` + `b:c`.
pub async fn owners_whose_joined_names_are_equal_are_different(h: &Harness) {
    let parts = [
        ["a:b", "c", "d", "e"],
        ["a", "b:c", "d", "e"],
        ["a", "b", "c:d", "e"],
        ["a", "b", "c", "d:e"],
        ["a%3Ab", "c", "d", "e"],
    ];
    let owners = parts.map(|[app, region, logic, id]| Owner::new(app, region, logic, id).unwrap());
    for (n, owner) in owners.iter().enumerate() {
        h.set(owner, "gold", &n.to_string()).await;
    }
    for (n, owner) in owners.iter().enumerate() {
        assert_eq!(
            h.cell(owner, "gold").await,
            Some(live(&n.to_string())),
            "{owner}"
        );
    }
}

/// Also by accent and by trailing space (H41).
pub async fn names_differ_by_case(h: &Harness) {
    for name in ["Bob", "bob", "bób", "bob "] {
        h.set(&owner(name), name, name).await;
    }
    for name in ["Bob", "bob", "bób", "bob "] {
        assert_eq!(
            h.read(&owner(name)).await.cells,
            vec![(field(name), live(name))]
        );
    }
}

/// No value means anything to the store.
pub async fn any_bytes_are_a_value(h: &Harness) {
    let ann = owner("ann");
    let all: Vec<u8> = (0..=255).collect();
    let values: [&[u8]; 8] = [
        b"",
        b"\0",
        b":delFlag",
        b"del",
        b"\r\n$-1\r\n",
        b"\xff\xfe",
        b"0",
        &all,
    ];
    for value in values {
        h.apply(
            &ann,
            vec![("v", Change::Set(bytes::Bytes::copy_from_slice(value)))],
        )
        .await;
        assert_eq!(h.live(&ann, "v").await.as_deref(), Some(value));
        h.apply(&ann, vec![("v", Change::Remove)]).await;
        assert_eq!(
            h.cell(&ann, "v").await.unwrap().value(),
            value,
            "as a tombstone"
        );
        h.apply(&ann, vec![("v", Change::Restore)]).await;
        assert_eq!(h.live(&ann, "v").await.as_deref(), Some(value));
    }
}

/// As long as the table's columns, also if every byte must be escaped.
pub async fn the_longest_names_are_kept(h: &Harness) {
    for unit in ["x", ":", "%"] {
        let (short, long) = (unit.repeat(64), unit.repeat(255));
        let owner = Owner::new(&short, &short, &short, &long).unwrap();
        h.set(&owner, &long, "1").await;
        assert_eq!(h.cell(&owner, &long).await, Some(live("1")));
        let mark = h.land(&owner).await.remove(0).mark.unwrap();
        assert_eq!((mark.owner, mark.fields), (owner, vec![field(&long)]));
    }
}
