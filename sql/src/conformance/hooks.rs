//! D1: landings keep to the hooks that the database names, and to their definitions.

use std::sync::Arc;
use std::time::Duration;

use storage_model::{Epoch, HotId, LAYOUT, Paired, Partition, SeededIds, Stamp, Timestamp, Token};

use super::gate::Gate;
use super::{Harness, fence, land_on, live, owner, version};
use crate::{Batch, Cold, ColdKind, LandError, Pair, Raise, open};

/// Gives the database a hot tier of four partitions.
async fn paired(h: &Harness) {
    let ids = SeededIds::new(3);
    let hot = Paired {
        token: Token::draw(&ids),
        since: Timestamp(7),
        prefix: "game".into(),
        address: "localhost".into(),
    };
    let pair = Pair {
        identity: Token::draw(&ids),
        partitions: 4,
        layout: LAYOUT,
        hot,
        by: HotId::of("first"),
        stamp: Stamp(1),
        if_silent: None,
    };
    let seen = h.store.database.pairing().await.unwrap();
    assert!(h.store.database.pair(&seen, &pair).await.unwrap());
}

async fn land(store: &Cold, number: u64) -> Result<(), LandError> {
    land_on(store, 0, vec![live(&owner("ann"), "gold", "1", number)]).await
}

/// The order of names, and the number of each hook's changes.
pub async fn hooks_are_listed_with_their_changes(h: &Harness) {
    paired(h).await;
    assert!(h.store.hooks.hooks().await.unwrap().is_empty());
    for (name, is_needed) in [("views", true), ("index", false), ("views", false)] {
        h.store.hooks.define(name, is_needed).await.unwrap();
    }
    let hooks = h.store.hooks.hooks().await.unwrap();
    let listed: Vec<_> = hooks
        .iter()
        .map(|hook| (hook.name.as_str(), hook.definitions, hook.is_needed))
        .collect();
    assert_eq!(listed, [("index", 1, false), ("views", 2, false)]);
}

/// D1: nothing lands without a needed hook, and the error names it.
pub async fn nothing_lands_without_a_needed_hook(h: &Harness) {
    paired(h).await;
    h.init(&[0]).await;
    h.store.hooks.define("index", true).await.unwrap();
    assert!(h.store.hooks.hooks().await.unwrap()[0].is_lacked);
    match land(&h.store, 5).await {
        Err(LandError::Cold(error)) => {
            assert_eq!(error.kind, ColdKind::Operator);
            assert!(error.message.contains("\"index\""), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert!(h.rows(&owner("ann")).await.is_empty());
    h.store.hooks.define("index", false).await.unwrap();
    land(&h.store, 5).await.unwrap();
    assert_eq!(h.rows(&owner("ann")).await.len(), 1);
}

/// D1: a store that knows earlier definitions lands nothing, whatever record it has read.
pub async fn nothing_lands_by_earlier_definitions(h: &Harness) {
    h.shares();
    paired(h).await;
    h.init(&[0]).await;
    land(&h.store, 5).await.unwrap();
    let other = open(&h.backend.settings()).await.unwrap();
    other.hooks.define("index", true).await.unwrap();
    assert_eq!(
        land(&h.store, 9).await,
        Err(LandError::Fenced(vec![Partition(0)]))
    );
    // The store has looked at the definitions since.
    let landed = land(&h.store, 9).await;
    assert!(matches!(landed, Err(LandError::Cold(_))), "{landed:?}");
}

/// D1: a landing that was collected before a change of the definitions does not commit after it.
pub async fn a_change_of_definitions_ends_the_landings_before_it(h: &Harness) {
    paired(h).await;
    h.init(&[0]).await;
    let batch = Batch {
        fences: vec![fence(0, 1, 0, 9)],
        rows: vec![live(&owner("ann"), "gold", "1", 9)],
        ..Batch::default()
    };
    h.store.hooks.define("index", false).await.unwrap();
    for _ in 0..2 {
        let fenced = Err(LandError::Fenced(vec![Partition(0)]));
        assert_eq!(h.store.landing.land(&batch).await, fenced);
    }
    land(&h.store, 9).await.unwrap();
}

/// D1: a partition without a record gets one, so that no landing comes in between.
pub async fn a_change_of_definitions_creates_missing_records(h: &Harness) {
    h.shares();
    paired(h).await;
    let gate = Arc::new(Gate::before("hooks/define"));
    let changing = h.another(gate.clone()).await;
    let defined = tokio::spawn(async move { changing.hooks.define("index", false).await });
    gate.reached().await;
    let store = h.store.clone();
    let mut raised = tokio::spawn(async move {
        let raise = Raise::by_one(Partition(3), Epoch(0));
        store.partitions.raise(&[raise]).await
    });
    let waits = tokio::time::timeout(Duration::from_millis(200), &mut raised);
    assert!(waits.await.is_err(), "the record is locked");
    gate.open();
    defined.await.unwrap().unwrap();
    assert_eq!(raised.await.unwrap().unwrap()[0].record.epoch, Epoch(1));
}

/// D1: so the builder that comes after the change finds the rows of all landings before it.
pub async fn a_change_of_definitions_waits_for_a_landing_under_way(h: &Harness) {
    h.shares();
    paired(h).await;
    h.init(&[0]).await;
    let gate = Arc::new(Gate::before("commit"));
    let landing = h.another(gate.clone()).await;
    let landed = tokio::spawn(async move { land(&landing, 5).await });
    gate.reached().await;
    let store = h.store.clone();
    let defined = tokio::spawn(async move { store.hooks.define("index", false).await });
    tokio::task::yield_now().await;
    assert!(h.store.hooks.hooks().await.unwrap().is_empty() && !defined.is_finished());
    gate.open();
    landed.await.unwrap().unwrap();
    defined.await.unwrap().unwrap();
    let record = h
        .store
        .partitions
        .partitions(&[Partition(0)])
        .await
        .unwrap()[0];
    assert_eq!(record.last_version, version(6));
}

/// A name that can't be, and a database whose partitions nobody knows.
pub async fn a_hook_that_can_not_be_defined_changes_nothing(h: &Harness) {
    let error = h.store.hooks.define("index", true).await.unwrap_err();
    assert_eq!(error.kind, ColdKind::Operator);
    paired(h).await;
    for name in ["", &"x".repeat(65)] {
        let error = h.store.hooks.define(name, true).await.unwrap_err();
        assert_eq!(error.kind, ColdKind::Settings, "{error}");
    }
    assert!(h.store.hooks.hooks().await.unwrap().is_empty());
}
