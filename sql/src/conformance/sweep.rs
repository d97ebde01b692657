//! D2: the sweep deletes purged rows and no others.

use std::time::Duration;

use storage_model::{Bytes, Cell, Field, Owner, Row};

use super::{Harness, fence, field, live, owner, version};
use crate::{PurgedPage, RowKey};

fn purged(of: &Owner, name: &str, number: u64) -> Row {
    let cell = Cell::Purged;
    Row {
        cell,
        ..live(of, name, "", number)
    }
}

/// A page of rows that are older than nothing. Rows of this very millisecond are not, so it asks
/// until `count` are.
async fn page(h: &Harness, after: Option<&RowKey>, limit: usize, count: usize) -> PurgedPage {
    loop {
        let page = h
            .store
            .sweep
            .purged(after, Duration::ZERO, limit)
            .await
            .unwrap();
        if page.purged.len() >= count {
            return page;
        }
        tokio::task::yield_now().await;
    }
}

fn key(of: &Owner, name: &str) -> (Owner, Field) {
    (of.clone(), field(name))
}

/// The table is read page by page, and only purged rows are found.
pub async fn purged_rows_are_found_page_by_page(h: &Harness) {
    h.init(&[0]).await;
    let (ann, bob) = (owner("ann"), owner("bob"));
    let removed = Row {
        cell: Cell::Removed(Bytes::from("1")),
        ..live(&ann, "b", "", 2)
    };
    h.land(vec![
        purged(&ann, "a", 1),
        removed,
        live(&ann, "c", "1", 3),
        purged(&bob, "a", 4),
        purged(&bob, "b", 5),
    ])
    .await;
    let first = page(h, None, 2, 1).await;
    assert_eq!(first.purged, [key(&ann, "a")]);
    let second = page(h, first.last.as_ref(), 2, 1).await;
    assert_eq!(second.purged, [key(&bob, "a")]);
    let third = page(h, second.last.as_ref(), 2, 1).await;
    assert_eq!((third.purged, third.last), (vec![key(&bob, "b")], None));
    let hour = Duration::from_hours(1);
    let young = h.store.sweep.purged(None, hour, 9).await.unwrap();
    assert!(young.purged.is_empty() && young.last.is_none());
}

/// D2: a row that was written again since it was found stays.
pub async fn a_sweep_deletes_purged_rows_alone(h: &Harness) {
    h.init(&[0]).await;
    let ann = owner("ann");
    let removed = Row {
        cell: Cell::Removed(Bytes::from("1")),
        ..live(&ann, "b", "", 2)
    };
    let rows = vec![purged(&ann, "a", 1), removed, live(&ann, "c", "1", 3)];
    h.land(rows.clone()).await;
    page(h, None, 9, 1).await;
    let keys = ["a", "b", "c", "d"].map(|name| key(&ann, name));
    let fence = fence(0, 1, 3, 3);
    let hour = Duration::from_hours(1);
    let swept = h.store.sweep.sweep(&fence, &keys, hour).await.unwrap();
    assert_eq!(swept, Some(0), "it was purged again since it was found");
    let swept = h
        .store
        .sweep
        .sweep(&fence, &keys, Duration::ZERO)
        .await
        .unwrap();
    assert_eq!(swept, Some(1));
    assert_eq!(h.rows(&ann).await, rows[1..]);
}

/// D2: a landing since the record was read keeps all rows.
pub async fn a_sweep_under_another_record_deletes_nothing(h: &Harness) {
    h.init(&[0]).await;
    let ann = owner("ann");
    h.land(vec![purged(&ann, "a", 5)]).await;
    page(h, None, 9, 1).await;
    let sweep = async |fence| {
        let rows = [key(&ann, "a")];
        h.store
            .sweep
            .sweep(&fence, &rows, Duration::ZERO)
            .await
            .unwrap()
    };
    for wrong in [fence(0, 1, 4, 4), fence(0, 2, 5, 5), fence(0, 0, 5, 5)] {
        assert_eq!(sweep(wrong).await, None, "{wrong:?}");
    }
    assert_eq!(h.rows(&ann).await.len(), 1);
    assert_eq!(sweep(fence(0, 1, 5, 5)).await, Some(1));
    // The record is as it was, so landings go on.
    let record = h
        .store
        .partitions
        .partitions(&[storage_model::Partition(0)])
        .await
        .unwrap()[0];
    assert_eq!(record.last_version, version(5));
}
