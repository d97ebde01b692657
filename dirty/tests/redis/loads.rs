//! Loads from the cold tier: the conditions for accepting them, and their results (R7, R8, R14,
//! R15).

use storage_dirty::*;
use storage_model::*;
use storage_servers::Reply;

use crate::support::*;

fn version(number: u64) -> Version {
    Version::new(number).unwrap()
}

async fn observe(store: &RedisStore, owner: &Owner) -> Observed {
    store
        .observe(std::slice::from_ref(owner))
        .await
        .pop()
        .unwrap()
        .unwrap()
}

async fn fill(store: &RedisStore, load: &Load) -> Filled {
    store
        .fill(std::slice::from_ref(load))
        .await
        .pop()
        .unwrap()
        .unwrap()
}

fn load(owner: &Owner, observed: Observed, rows: &[(&str, Cell, u64)]) -> Load {
    let rows = rows
        .iter()
        .map(|(name, cell, number)| (field(name), cell.clone(), version(*number)))
        .collect();
    Load {
        owner: owner.clone(),
        observed,
        rows,
        complete: true,
    }
}

fn live(value: &str) -> Cell {
    Cell::Live(Bytes::copy_from_slice(value.as_bytes()))
}

#[tokio::test]
async fn an_owner_without_rows_is_remembered_as_absent_and_a_first_write_replaces_that() {
    let server = server().await;
    let store = prepared(settings(&server.url())).await;
    let ann = owner("ann");
    let key = format!("slug-exist:{{{}}}:game:eu:player:ann", ann.partition(4));
    let observed = observe(&store, &ann).await;
    assert!(observed.marker.is_unknown() && !observed.present);
    assert_eq!(observed.epoch, Epoch(1));
    assert_eq!(
        mutate(&store, &ann, &[("gold", Change::Incr(1))]).await,
        Ok(Mutated::Load(observed))
    );
    assert_eq!(
        fill(&store, &load(&ann, observed, &[])).await,
        Filled::Accepted(HotRead::default())
    );
    assert!(observe(&store, &ann).await.marker.is_absent());
    assert!(
        matches!(server.call(&["PTTL", &key]).await.unwrap(), Reply::Integer(left) if left > 0)
    );
    assert_eq!(
        fill(&store, &load(&ann, observed, &[("gold", live("9"), 5)])).await,
        Filled::Refused
    );
    let applied = apply(&store, &ann, &[("gold", Change::Incr(1))]).await;
    assert_eq!(applied.counters, [1]);
    assert!(matches!(observe(&store, &ann).await.marker, Marker::At(_)));
    assert!(
        matches!(server.call(&["PTTL", &key]).await.unwrap(), Reply::Integer(left) if left > 60_000),
        "the marker of a hash goes, too"
    );
    assert!(read(&store, &ann).await.header.unwrap().complete);
}

#[tokio::test]
async fn a_load_is_written_only_if_nothing_happened_since_it_was_observed() {
    let server = server().await;
    let store = prepared(settings(&server.url())).await;
    let ann = owner("ann");
    let unknown = observe(&store, &ann).await;
    let rows = [
        ("gold", live("9"), 5),
        ("old", Cell::Removed("1".into()), 3),
        ("gone", Cell::Purged, 2),
    ];
    apply(&store, &ann, &[("name", set("Ann"))]).await;
    assert_eq!(
        fill(&store, &load(&ann, unknown, &rows)).await,
        Filled::Refused
    );
    let observed = observe(&store, &ann).await;
    let with_name = [
        rows[0].clone(),
        rows[1].clone(),
        rows[2].clone(),
        ("name", live("older"), 4),
    ];
    let Filled::Accepted(whole) = fill(&store, &load(&ann, observed, &with_name)).await else {
        panic!()
    };
    let cells = [
        ("gold", live("9")),
        ("gone", Cell::Purged),
        ("name", live("Ann")),
        ("old", Cell::Removed("1".into())),
    ];
    assert_eq!(whole.cells, cells.map(|(name, cell)| (field(name), cell)));
    assert!(whole.header.unwrap().complete);
    assert_eq!(read(&store, &ann).await, whole);
    // A tombstone wins over a row.
    apply(&store, &ann, &[("gold", Change::Remove)]).await;
    let Filled::Accepted(whole) = fill(&store, &load(&ann, observed, &rows)).await else {
        panic!()
    };
    assert!(
        whole
            .cells
            .contains(&(field("gold"), Cell::Removed("9".into())))
    );
    // A purged name wins, too (H15).
    drain(&store).await;
    apply(&store, &ann, &[("gold", Change::Purge)]).await;
    let Filled::Accepted(whole) = fill(&store, &load(&ann, observed, &rows)).await else {
        panic!()
    };
    assert!(whole.cells.contains(&(field("gold"), Cell::Purged)));
    // After the eviction, only a new observation counts.
    drain(&store).await;
    store
        .evict(std::slice::from_ref(&ann))
        .await
        .pop()
        .unwrap()
        .unwrap();
    assert_eq!(
        fill(&store, &load(&ann, observed, &rows)).await,
        Filled::Refused
    );
    let now = observe(&store, &ann).await;
    let Filled::Accepted(whole) = fill(&store, &load(&ann, now, &rows)).await else {
        panic!()
    };
    assert_eq!(
        whole.header.unwrap().version,
        version(5),
        "the newest row's"
    );
    assert_ne!(
        observe(&store, &ann).await.marker,
        now.marker,
        "each hash has a number of its own"
    );
    assert_eq!(
        store.marked(std::slice::from_ref(&ann), None).await,
        [Ok(false)]
    );
    let key = format!("slug-data:{{{}}}:game:eu:player:ann", ann.partition(4));
    assert!(
        matches!(server.call(&["PTTL", &key]).await.unwrap(), Reply::Integer(left) if left > 0)
    );
    // Another epoch invalidates every observation.
    let before = observe(&store, &ann).await;
    adopt_all(&store, 2).await;
    assert_eq!(
        fill(&store, &load(&ann, before, &rows)).await,
        Filled::Refused
    );
}

#[tokio::test]
async fn a_mutation_and_its_load_are_one_step() {
    let server = server().await;
    let store = prepared(settings(&server.url())).await;
    let ann = owner("ann");
    let rows = [
        ("gold", live("40"), 5),
        ("bag", live("b"), 6),
        ("old", Cell::Removed("x".into()), 3),
    ];
    let observed = observe(&store, &ann).await;
    let changes = [
        ("gold", Change::Incr(2)),
        ("bag", Change::Remove),
        ("old", Change::Restore),
        ("none", Change::Remove),
    ];
    let mutation = mutation(&store, &ann, &changes)
        .await
        .when(Condition::Version(version(6)));
    let mutated = store
        .mutate(&[(mutation, vec![load(&ann, observed, &rows)])])
        .await
        .pop()
        .unwrap()
        .unwrap();
    let Mutated::Applied(applied) = mutated else {
        panic!("{mutated:?}")
    };
    assert_eq!((applied.changed, &applied.counters[..]), (3, &[42][..]));
    let cells = [
        ("bag", Cell::Removed("b".into())),
        ("gold", live("42")),
        ("old", live("x")),
    ];
    assert_eq!(
        read(&store, &ann).await.cells,
        cells.map(|(name, cell)| (field(name), cell))
    );
    let lock = lock("w");
    let partition = ann.partition(4);
    store
        .lock(&[partition], &lock, std::time::Duration::from_secs(9))
        .await
        .pop()
        .unwrap()
        .unwrap();
    store.snapshot(partition, &lock).await.unwrap();
    let entry = store
        .scan(partition, storage_dirty::Map::Snapshot, 0, 10)
        .await
        .unwrap()
        .entries
        .pop()
        .unwrap();
    assert_eq!(
        entry.mark.unwrap().fields,
        [field("bag"), field("gold"), field("old")]
    );
    assert_eq!(entry.version, applied.version);
}

#[tokio::test]
async fn a_rewound_hash_is_compared_with_its_rows_before_anything_builds_on_it() {
    let server = server().await;
    let store = prepared(settings(&server.url())).await;
    let ann = owner("ann");
    let old = apply_new(&store, &ann, &[("gold", set("1")), ("name", set("Ann"))])
        .await
        .version;
    // The server turns out to have forgotten data that the database has landed since.
    let partition = ann.partition(4);
    let landed = version(old.get() + 1_000_000_000);
    let seen = store
        .partition_states(&[partition])
        .await
        .pop()
        .unwrap()
        .unwrap();
    let adopt = Adopt {
        partition,
        seen,
        epoch: Epoch(2),
        stamp: storage_model::Stamp::NONE,
        until: storage_model::Timestamp(u64::MAX),
        last_version: landed,
        landed_here: false,
        compare_all: false,
        feed: storage_model::Position::ZERO,
        database: None,
    };
    assert_eq!(store.adopt(&[adopt]).await, [Ok(true)]);
    let suspect = read(&store, &ann).await.header.unwrap();
    assert!(suspect.generation < Epoch(2));
    let observed = observe(&store, &ann).await;
    let write = mutation(&store, &ann, &[("bag", set("b"))]).await;
    assert_eq!(
        send(&store, write.clone()).await,
        Ok(Mutated::Load(observed))
    );
    // A row is newer than the owner's version, so all rows win.
    let rows = [
        ("gold", live("9"), landed.get()),
        ("name", live("older"), old.get() - 1),
    ];
    let load = load(&ann, observed, &rows);
    let partial = Load {
        complete: false,
        ..load.clone()
    };
    assert_eq!(
        store.mutate(&[(write.clone(), vec![partial])]).await,
        [Ok(Mutated::Load(observed))]
    );
    let Filled::Accepted(healed) = fill(&store, &load).await else {
        panic!()
    };
    assert_eq!(
        healed.cells,
        [("gold", live("9")), ("name", live("older"))].map(|(name, cell)| (field(name), cell))
    );
    let header = healed.header.unwrap();
    assert_eq!((header.generation, header.version), (Epoch(2), landed));
    let Mutated::Applied(applied) = send(&store, write).await.unwrap() else {
        panic!()
    };
    assert!(applied.version > landed);
    assert_eq!(drain(&store).await, 1);
}
