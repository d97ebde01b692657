//! Copies of a SQLite file.

use std::path::Path;
use std::time::Duration;

use storage_config::{ColdUrl, SqlSettings};
use storage_model::{Cell, Field, Owner, Row, Version};
use storage_sql::{Batch, ColdKind, open};

/// The bytes of each unfinished copy.
fn parts(folder: &Path) -> Vec<u64> {
    let files = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let parts = files.filter(|file| file.path().extension().is_some_and(|it| it == "part"));
    parts
        .filter_map(|file| Some(file.metadata().ok()?.len()))
        .collect()
}

#[tokio::test]
async fn a_copy_whose_caller_is_gone_ends_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let url = ColdUrl::SqliteFile(folder.path().join("game.db"));
    let store = open(&SqlSettings::new(url)).await.unwrap();
    let owner = Owner::new("a", "r", "t", "1").unwrap();
    let rows = (0..20_000_u32).map(|number| Row {
        owner: owner.clone(),
        field: Field::new(&number.to_string()).unwrap(),
        version: Version::new(1).unwrap(),
        cell: Cell::Live(vec![7; 1_000].into()),
    });
    let batch = Batch {
        rows: rows.collect(),
        ..Batch::default()
    };
    store.landing.land(&batch).await.unwrap();
    let to = folder.path().join("copy.db");
    let grows = async {
        while !parts(folder.path()).iter().any(|bytes| *bytes > 0) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        biased;
        done = store.database.backup(&to) => panic!("the copy was faster than a look at it: {done:?}"),
        () = grows => {}
    }
    assert!(!to.exists());
    assert_eq!(parts(folder.path()), Vec::<u64>::new());
    // The file is as before, and the next copy is whole.
    store.database.backup(&to).await.unwrap();
    let taken = store.database.backup(&to).await.unwrap_err();
    assert_eq!(taken.kind, ColdKind::Settings, "{taken}");
    let copy = open(&SqlSettings::new(ColdUrl::SqliteFile(to)))
        .await
        .unwrap();
    let loaded = copy.rows.load(&[owner], usize::MAX).await.unwrap();
    assert_eq!(loaded[0].rows.len(), 20_000);
    assert_eq!(copy.database.pairing().await.unwrap().identity, None);
}
