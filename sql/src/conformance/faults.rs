//! Data that survives faults.

use std::sync::Arc;
use std::time::Duration;

use storage_model::{Epoch, Partition, SeededIds, Token};

use super::fences::pair;
use super::gate::{Gate, Losing, Lost};
use super::{Harness, fence, land_on, live, owner};
use crate::{
    Batch, ColdKind, LandError, Opening, Raise, SchemaState, migrate, open, pending_sql,
    schema_state,
};

fn kind(error: &LandError) -> Option<ColdKind> {
    match error {
        LandError::Cold(error) => Some(error.kind),
        _ => None,
    }
}

/// H38: the caller learns that the batch is at fault, with the database's own number, and can halve
/// the batch.
pub async fn one_refused_row_refuses_the_batch_and_nothing_is_written(h: &Harness) {
    h.init(&[0]).await;
    h.needs("reject a field", h.backend.poison().await);
    let mut rows: Vec<_> = (0..999)
        .map(|i| live(&owner(&i.to_string()), "gold", "1", 1))
        .collect();
    rows.push(live(&owner("500"), "poison", "1", 1));
    match land_on(&h.store, 0, rows.clone()).await {
        Err(LandError::Refused(fault)) => {
            assert!(fault.code > 0 && !fault.message.is_empty(), "{fault:?}")
        }
        other => panic!("{other:?}"),
    }
    let owners: Vec<_> = rows.iter().map(|row| row.owner.clone()).collect();
    assert!(
        h.store
            .rows
            .load(&owners, 9)
            .await
            .unwrap()
            .iter()
            .all(|loaded| loaded.rows.is_empty())
    );
    rows.pop();
    land_on(&h.store, 0, rows).await.unwrap();
}

/// H37: a value beyond every packet would break the connection, which looks like an outage.
pub async fn a_value_above_the_limit_is_refused_without_being_sent(h: &Harness) {
    h.init(&[0]).await;
    let (ann, limit) = (owner("ann"), h.store.landing.value_bytes_max());
    let error = land_on(
        &h.store,
        0,
        vec![
            live(&ann, "a", "1", 1),
            live(&ann, "b", vec![7; limit + 1], 1),
        ],
    )
    .await
    .unwrap_err();
    match error {
        LandError::Refused(fault) => {
            assert!(fault.message.contains(&limit.to_string()), "{fault:?}")
        }
        other => panic!("{other:?}"),
    }
    assert!(h.rows(&ann).await.is_empty());
    land_on(&h.store, 0, vec![live(&ann, "b", vec![7; limit], 1)])
        .await
        .unwrap();
    assert_eq!(h.rows(&ann).await[0].cell.value().len(), limit);
}

/// Each statement of a landing fails in turn before it is sent. The rows are either not there or
/// complete. A statement that writes rows is sent again, because the database takes other rows.
pub async fn a_lost_statement_writes_nothing_and_the_next_call_works(h: &Harness) {
    h.shares();
    h.init(&[0]).await;
    let losing = Arc::new(Losing::new(Lost::Before));
    let store = h.another(losing.clone()).await;
    let rows = |n: usize| {
        vec!["a", "b", "c"]
            .into_iter()
            .map(|f| live(&owner(&n.to_string()), f, "v", 1))
            .collect::<Vec<_>>()
    };
    let mut again = 0;
    for n in 0.. {
        let record = store.partitions.partitions(&[Partition(0)]).await.unwrap()[0];
        let fences = vec![fence(0, record.epoch.0, record.last_version.get(), 1)];
        losing.arm(n);
        let landed = store
            .landing
            .land(&Batch {
                whole: false,
                trial: false,
                events: Vec::new(),
                leads: Vec::new(),
                fences,
                rows: rows(n),
            })
            .await;
        if losing.disarm() {
            landed.unwrap();
            assert!(
                n >= 4 && again > 0,
                "a landing has more than {n} statements, and some of them write rows"
            );
            return;
        }
        match landed {
            Ok(()) => again += 1,
            Err(error) => {
                assert_eq!(kind(&error), Some(ColdKind::Unwell));
                assert!(
                    h.rows(&owner(&n.to_string())).await.is_empty(),
                    "statement {n}"
                );
                land_on(&store, 0, rows(n)).await.unwrap();
            }
        }
        assert_eq!(h.rows(&owner(&n.to_string())).await, rows(n));
    }
}

/// H34: a commit with a lost reply may have happened. A repeat is fenced or changes nothing.
pub async fn a_lost_reply_of_the_commit_is_harmless_to_repeat(h: &Harness) {
    h.shares();
    h.init(&[0]).await;
    let losing = Arc::new(Losing::new(Lost::After));
    let store = h.another(losing.clone()).await;
    let batch = Batch {
        whole: false,
        trial: false,
        events: Vec::new(),
        leads: Vec::new(),
        fences: vec![fence(0, 1, 0, 7)],
        rows: vec![live(&owner("ann"), "gold", "1", 7)],
    };
    losing.arm(4); // the hooks, begin, fence and upsert pass; the commit's reply is lost
    assert_eq!(
        kind(&store.landing.land(&batch).await.unwrap_err()),
        Some(ColdKind::Unwell)
    );
    assert_eq!(
        store.landing.land(&batch).await,
        Err(LandError::Fenced(vec![Partition(0)])),
        "the record shows that it was committed"
    );
    land_on(&store, 0, batch.rows.clone()).await.unwrap();
    assert_eq!(h.rows(&owner("ann")).await, batch.rows);
}

/// H36: a lock wait that times out undoes only one statement. The statements before it must not be
/// committed.
pub async fn a_lock_wait_leaves_nothing_of_the_batch(h: &Harness) {
    h.shares();
    h.init(&[0, 1]).await;
    let gate = Arc::new(Gate::before("commit"));
    let holder = h.another(gate.clone()).await;
    let held = tokio::spawn(async move {
        land_on(&holder, 0, vec![live(&owner("c"), "gold", "held", 5)]).await
    });
    gate.reached().await;
    let mut settings = h.backend.settings();
    settings.statement_timeout = Duration::from_secs(2); // a lock wait of 1 s
    let store = open(&settings).await.unwrap();
    // Three rows take two statements. The second one meets the held row.
    let rows: Vec<_> = ["a", "b", "c"]
        .map(|id| live(&owner(id), "gold", "1", 9))
        .to_vec();
    let error = land_on(&store, 1, rows.clone()).await.unwrap_err();
    assert_eq!(kind(&error), Some(ColdKind::Unwell), "{error}");
    gate.open();
    held.await.unwrap().unwrap();
    assert!(h.rows(&owner("a")).await.is_empty() && h.rows(&owner("b")).await.is_empty());
    assert_eq!(
        h.rows(&owner("c")).await,
        [live(&owner("c"), "gold", "held", 5)]
    );
    land_on(&store, 1, rows.clone()).await.unwrap();
    assert_eq!(h.rows(&owner("c")).await, rows[2..]);
}

/// H43: calls that are dropped at any await neither use the pool up nor leave a broken connection.
pub async fn a_storm_of_cut_calls_leaves_the_store_alive(h: &Harness) {
    h.init(&[0]).await;
    let ann = owner("ann");
    h.land(
        (0..200)
            .map(|i| live(&ann, &i.to_string(), vec![7; 2_000], 1))
            .collect(),
    )
    .await;
    // A call that is not cut must not notice the others' cuts.
    let calls = (0..6_000_u64).map(|i| {
        let (store, ann) = (h.store.clone(), ann.clone());
        let limit = Duration::from_micros(i * 37 % 20_000);
        tokio::time::timeout(limit, async move {
            if i % 3 == 0 {
                let rows: Vec<_> = (0..50)
                    .map(|f| live(&ann, &f.to_string(), vec![8; 2_000], 1 + i))
                    .collect();
                match land_on(&store, 0, rows).await {
                    Ok(()) | Err(LandError::Fenced(_)) => {}
                    Err(other) => panic!("a landing that was not cut: {other}"),
                }
            } else {
                assert_eq!(
                    store.rows.load(&[ann], 1_000).await.unwrap()[0].rows.len(),
                    200,
                    "a load that was not cut"
                );
            }
        })
    });
    let mut tasks = tokio::task::JoinSet::new();
    let mut cut = 0;
    for call in calls {
        tasks.spawn(call);
        if tasks.len() >= 12 {
            cut += usize::from(tasks.join_next().await.unwrap().unwrap().is_err());
        }
    }
    cut += tasks
        .join_all()
        .await
        .iter()
        .filter(|ended| ended.is_err())
        .count();
    assert!(cut > 300, "only {cut} calls were cut");
    for _ in 0..20 {
        assert_eq!(h.rows(&ann).await.len(), 200);
    }
    h.land(vec![live(&ann, "after", "1", 9_999)]).await;
    let raised = h
        .store
        .partitions
        .raise(&[Raise::by_one(Partition(0), Epoch(1))])
        .await
        .unwrap();
    assert_eq!(raised[0].record.epoch, Epoch(2));
}

/// Acknowledged data is there after the store was closed and opened again.
pub async fn reopening_keeps_everything(h: &Harness) {
    h.shares();
    h.init(&[0]).await;
    let pairing = h.store.database.pairing().await.unwrap();
    h.land(vec![live(&owner("ann"), "gold", "1", 7)]).await;
    h.store.database.close().await;
    let store = open(&h.backend.settings()).await.unwrap();
    assert_eq!(
        store.rows.load(&[owner("ann")], 9).await.unwrap()[0].rows,
        [live(&owner("ann"), "gold", "1", 7)]
    );
    assert_eq!(
        store.partitions.partitions(&[Partition(0)]).await.unwrap()[0].epoch,
        Epoch(1)
    );
    assert_eq!(store.database.pairing().await.unwrap(), pairing);
}

/// A program meets a missing schema, its own, and a later one.
pub async fn the_schema_is_made_once_and_a_newer_one_is_refused(h: &Harness) {
    h.shares();
    let mut settings = h.backend.settings();
    settings.table = "other_rows".into();
    assert_eq!(schema_state(&settings).await.unwrap(), SchemaState::Empty);
    let pending = pending_sql(&settings).await.unwrap();
    assert!(
        pending.iter().any(|sql| sql.contains("`other_partition`")),
        "{pending:?}"
    );
    assert_eq!(
        schema_state(&settings).await.unwrap(),
        SchemaState::Empty,
        "asking changes nothing"
    );
    let openings = futures::future::join_all((0..4).map(|_| open(&settings))).await;
    assert!(openings.iter().all(Result::is_ok), "{openings:?}");
    assert_eq!(migrate(&settings).await.unwrap(), SchemaState::Current);
    assert!(pending_sql(&settings).await.unwrap().is_empty());

    let insert = "INSERT INTO other_migration (version, description, success, checksum, execution_time) VALUES (99, 'x', 1, '', 1)";
    h.needs(
        "run a statement beside the store",
        h.backend.sql(insert).await,
    );
    assert_eq!(schema_state(&settings).await.unwrap(), SchemaState::Newer);
    assert_eq!(open(&settings).await.unwrap_err().kind, ColdKind::Schema);
    assert_eq!(migrate(&settings).await.unwrap_err().kind, ColdKind::Schema);
}

/// A program that died while it created the tables leaves a part of them. Nobody has used them, so
/// the next program completes them. Tables in use are never changed without a command.
pub async fn tables_that_nobody_has_used_are_completed_and_others_are_not(h: &Harness) {
    h.shares();
    let mut settings = h.backend.settings();
    settings.table = "half_rows".into();
    let cut = "DELETE FROM half_migration";
    migrate(&settings).await.unwrap();
    h.needs("run a statement beside the store", h.backend.sql(cut).await);
    assert_eq!(schema_state(&settings).await.unwrap(), SchemaState::Empty);
    let store = Opening::new(&settings).for_pairing().open().await.unwrap();
    let seen = store.database.pairing().await.unwrap();
    assert_eq!(
        (seen.identity, schema_state(&settings).await.unwrap()),
        (None, SchemaState::Empty),
        "only a pairing creates tables"
    );
    let ids = SeededIds::new(7);
    let first = pair(&ids, Token::draw(&ids), 4);
    assert!(store.database.pair(&seen, &first).await.unwrap());
    assert_eq!(schema_state(&settings).await.unwrap(), SchemaState::Current);
    h.needs("run a statement beside the store", h.backend.sql(cut).await);
    assert_eq!(schema_state(&settings).await.unwrap(), SchemaState::Older);
    assert_eq!(open(&settings).await.unwrap_err().kind, ColdKind::Schema);
}

/// Tables that another program has made are enough, also if nobody has used them.
pub async fn a_store_for_layers_makes_no_tables(h: &Harness) {
    h.shares();
    let mut settings = h.backend.settings();
    settings.table = "layer_rows".into();
    let refused = Opening::new(&settings).for_layers().open().await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind, ColdKind::Schema, "{refused}");
    assert!(
        refused.message.contains("landing-worker migrate"),
        "{refused}"
    );
    assert_eq!(schema_state(&settings).await.unwrap(), SchemaState::Empty);
    migrate(&settings).await.unwrap();
    let store = Opening::new(&settings).for_layers().open().await.unwrap();
    let pairing = store.database.pairing().await.unwrap();
    assert_eq!((pairing.identity, pairing.partitions), (None, None));
    let raises = [Raise::by_one(Partition(0), Epoch(0))];
    assert!(store.partitions.raise(&raises).await.unwrap()[0].moved);
}

/// Closing waits for the running statements. Later calls fail at once.
pub async fn a_closed_store_says_so(h: &Harness) {
    let gate = Arc::new(Gate::before("partitions"));
    let store = Opening::new(&h.backend.settings())
        .through(gate.clone())
        .open()
        .await
        .unwrap();
    let reader = store.clone();
    let reading = tokio::spawn(async move { reader.partitions.partitions(&[Partition(0)]).await });
    gate.reached().await;
    let closer = store.clone();
    let closing = tokio::spawn(async move { closer.database.close().await });
    gate.open();
    reading.await.unwrap().unwrap();
    closing.await.unwrap();
    let error = store
        .partitions
        .partitions(&[Partition(0)])
        .await
        .unwrap_err();
    assert!(
        error.kind == ColdKind::Unwell && error.message.ends_with(": the store is closed"),
        "{error}"
    );
}
