//! Tests that need a MySQL server: outages, hangs, modes, limits.

use std::sync::Arc;
use std::time::Duration;

use sqlx::Connection as _;
use storage_config::{Secret, SqlSettings};
use storage_model::{
    Bytes, Content, Epoch, Event, HotId, Lead, Note, Owner, Partition, Position, Row, Stamp,
};
use storage_servers::{MariaDbOptions, MariaDbServer};
use storage_sql::claims::{ClaimToken, DataCentre, Holder, Ranges, ServiceName};
use storage_sql::conformance::gate::Gate;
use storage_sql::conformance::plans::{Planned, planned};
use storage_sql::conformance::{Backend, fence, land_on, live, owner, version};
use storage_sql::{Batch, Cold, ColdKind, Events, LandError, Opening, Raise, open};

use crate::backend::{mysql, server};

async fn with_args(args: &[&str]) -> MariaDbServer {
    let args = args.iter().map(|&arg| arg.to_owned()).collect();
    MariaDbServer::start(MariaDbOptions {
        args,
        ..MariaDbOptions::default()
    })
    .await
    .unwrap()
}

fn settings(server: &MariaDbServer) -> SqlSettings {
    SqlSettings::new(server.url().parse().unwrap())
        .with(|sql| sql.acquire_timeout = Duration::from_millis(500))
}

async fn init(store: &Cold) {
    store
        .partitions
        .raise(&[storage_sql::Raise::by_one(Partition(0), Epoch(0))])
        .await
        .unwrap();
}

fn ann(value: &str, version: u64) -> Vec<Row> {
    vec![live(&owner("ann"), "gold", value.to_owned(), version)]
}

fn kind(result: Result<(), LandError>) -> ColdKind {
    match result {
        Err(LandError::Cold(error)) => error.kind,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_killed_server_is_unwell_and_works_again_after_its_restart() {
    let server = with_args(&[]).await;
    let store = open(&settings(&server)).await.unwrap();
    init(&store).await;
    land_on(&store, 0, ann("1", 1)).await.unwrap();
    server.kill().unwrap();
    for _ in 0..3 {
        assert_eq!(
            kind(land_on(&store, 0, ann("2", 2)).await),
            ColdKind::Unwell
        );
        assert_eq!(
            store.rows.load(&[owner("ann")], 9).await.unwrap_err().kind,
            ColdKind::Unwell
        );
    }
    let late = open(&settings(&server)).await.unwrap();
    server.restart().await.unwrap();
    land_on(&store, 0, ann("2", 2)).await.unwrap();
    assert_eq!(
        late.rows.load(&[owner("ann")], 9).await.unwrap()[0].rows,
        ann("2", 2),
        "a store that was opened in between works too"
    );
}

/// Whoever comes while another program upgrades the tables waits for it.
#[tokio::test]
async fn a_schema_that_is_being_upgraded_is_waited_for() {
    let server = with_args(&[]).await;
    let settings = settings(&server);
    let store = open(&settings).await.unwrap();
    let seen = store.database.pairing().await.unwrap();
    let ids = storage_model::SeededIds::new(3);
    let identity = storage_model::Token::draw(&ids);
    let hot = storage_model::Paired {
        token: identity,
        since: storage_model::Timestamp(1),
        prefix: "game".into(),
        address: "localhost".into(),
    };
    let pair = storage_sql::Pair {
        identity,
        partitions: 4,
        layout: storage_model::LAYOUT,
        hot,
        by: storage_model::HotId::of("first"),
        stamp: storage_model::Stamp(1),
        if_silent: None,
    };
    assert!(store.database.pair(&seen, &pair).await.unwrap());
    let mut other = sqlx::mysql::MySqlConnection::connect(&server.url())
        .await
        .unwrap();
    let lock = "SELECT GET_LOCK(CONCAT(LEFT(DATABASE(), 12), '/landing_migration'), 0)";
    for statement in ["DELETE FROM landing_migration", lock] {
        sqlx::raw_sql(statement).execute(&mut other).await.unwrap();
    }
    let waits = storage_sql::schema_state(&settings).await.unwrap_err();
    assert_eq!(waits.kind, ColdKind::Unwell, "{waits}");
    let late = open(&settings).await.unwrap();
    assert_eq!(
        late.database.pairing().await.unwrap_err().kind,
        ColdKind::Unwell
    );
    sqlx::raw_sql("DO RELEASE_ALL_LOCKS()")
        .execute(&mut other)
        .await
        .unwrap();
    assert_eq!(
        late.database.pairing().await.unwrap_err().kind,
        ColdKind::Schema
    );
    storage_sql::migrate(&settings).await.unwrap();
    assert_eq!(
        late.database.pairing().await.unwrap().identity,
        Some(identity)
    );
}

/// H33: after a restart commits may be missing, so the server counts as another one.
#[tokio::test]
async fn a_restarted_server_is_another_database_and_says_whether_it_forgets() {
    let flush = |flush_log_at_trx_commit| MariaDbOptions {
        flush_log_at_trx_commit,
        ..MariaDbOptions::default()
    };
    let server = MariaDbServer::start(flush(1)).await.unwrap();
    let store = open(&settings(&server)).await.unwrap();
    let database = async |store: &Cold| {
        store.partitions.partitions(&[Partition(0)]).await.unwrap()[0].database
    };
    let before = database(&store).await;
    assert_eq!(store.database.forgets().await.unwrap(), None);
    server
        .sql("SET GLOBAL innodb_flush_log_at_trx_commit = 0")
        .await
        .unwrap();
    let warned = open(&settings(&server))
        .await
        .unwrap()
        .database
        .forgets()
        .await
        .unwrap();
    assert!(warned.is_some_and(|why| why.contains("innodb_flush_log_at_trx_commit is 0")));
    server.kill().unwrap();
    server.restart().await.unwrap();
    let after = database(&open(&settings(&server)).await.unwrap()).await;
    assert_ne!(after, before);
    // The store's old connection is broken. The store may notice that only by its next call.
    let _ = store.partitions.partitions(&[Partition(0)]).await;
    assert_eq!(
        database(&store).await,
        after,
        "a store that was open learns it with its next connection"
    );
}

#[tokio::test]
async fn a_hung_server_holds_no_caller_longer_than_the_time_limits() {
    let server = with_args(&[]).await;
    let store =
        open(&settings(&server).with(|sql| sql.statement_timeout = Duration::from_millis(700)))
            .await
            .unwrap();
    init(&store).await;
    server.pause().unwrap();
    let late = open(&settings(&server)).await.unwrap();
    let call =
        |store: Cold| async move { store.rows.load(&[owner("ann")], 9).await.unwrap_err().kind };
    // If the callers of either store waited one after another, they would take longer than this.
    let calls = (0..100).flat_map(|_| [call(store.clone()), call(late.clone())]);
    let kinds = tokio::time::timeout(Duration::from_secs(30), futures::future::join_all(calls))
        .await
        .unwrap();
    assert!(kinds.iter().all(|kind| *kind == ColdKind::Unwell));
    server.resume().unwrap();
    // The server must first work through the connections that were given up in the meantime.
    let lands = async {
        while let Err(error) = land_on(&store, 0, ann("1", 1)).await {
            assert_eq!(kind(Err(error)), ColdKind::Unwell);
        }
        while let Err(error) = late.rows.load(&[owner("ann")], 9).await {
            assert_eq!(error.kind, ColdKind::Unwell);
        }
    };
    tokio::time::timeout(Duration::from_secs(30), lands)
        .await
        .unwrap();
    assert_eq!(
        late.rows.load(&[owner("ann")], 9).await.unwrap()[0].rows,
        ann("1", 1)
    );
}

#[tokio::test]
async fn a_server_without_strict_mode_cuts_nothing() {
    let server = with_args(&[
        "--sql-mode=",
        "--character-set-server=utf8mb4",
        "--collation-server=utf8mb4_unicode_ci",
    ])
    .await;
    let store = open(&settings(&server)).await.unwrap();
    init(&store).await;
    // A column that an operator made shorter than the values.
    server
        .sql("ALTER TABLE storage.landing_rows MODIFY value VARBINARY(4) NOT NULL")
        .await
        .unwrap();
    match land_on(&store, 0, ann("12345", 1)).await {
        Err(LandError::Refused(fault)) => assert_eq!(fault.code, 1406),
        other => panic!("{other:?}"),
    }
    land_on(&store, 0, ann("1234", 1)).await.unwrap();
    // The store also does not fold names that the column's collation treats as equal.
    let names = ["gold", "Gold", "g\u{f6}ld", "gold ", "gold\u{a0}"];
    land_on(
        &store,
        0,
        names
            .iter()
            .map(|name| live(&owner(name), name, "1", 2))
            .collect(),
    )
    .await
    .unwrap();
    for (name, loaded) in names
        .iter()
        .zip(store.rows.load(&names.map(owner), 9).await.unwrap())
    {
        assert_eq!(loaded.rows, [live(&owner(name), name, "1", 2)]);
    }
}

#[tokio::test]
async fn values_and_batches_at_the_packets_limit_land_or_are_refused_and_never_break_the_connection()
 {
    let server = with_args(&["--max-allowed-packet=1M"]).await;
    let store = open(&settings(&server)).await.unwrap();
    init(&store).await;
    let limit = store.landing.value_bytes_max();
    assert_eq!(limit, 512 << 10);
    for (bytes, fits) in [(limit - 1, true), (limit, true), (limit + 1, false)] {
        let landed = land_on(
            &store,
            0,
            vec![live(&owner("ann"), &bytes.to_string(), vec![1; bytes], 1)],
        )
        .await;
        assert_eq!(landed.is_ok(), fits, "{bytes}: {landed:?}");
    }
    // Together these rows are far above one packet.
    let rows = (0..1_000)
        .map(|i| live(&owner("bob"), &i.to_string(), vec![1; 5_000], 1))
        .collect();
    land_on(&store, 0, rows).await.unwrap();
    assert_eq!(
        store.rows.load(&[owner("bob")], 1_000).await.unwrap()[0]
            .rows
            .len(),
        1_000
    );
    let few = with_args(&["--max-allowed-packet=512K"]).await;
    assert_eq!(
        open(&settings(&few)).await.unwrap_err().kind,
        ColdKind::Operator
    );
}

#[tokio::test]
async fn a_server_that_became_read_only_is_unwell_and_a_missing_table_the_operators_matter() {
    let server = with_args(&[]).await;
    let store = open(&settings(&server)).await.unwrap();
    init(&store).await;
    server.sql("SET GLOBAL read_only = 1").await.unwrap();
    assert_eq!(
        kind(land_on(&store, 0, ann("1", 1)).await),
        ColdKind::Unwell
    );
    server
        .sql("SET GLOBAL read_only = 0; RENAME TABLE storage.landing_rows TO storage.away")
        .await
        .unwrap();
    assert_eq!(
        kind(land_on(&store, 0, ann("1", 1)).await),
        ColdKind::Operator
    );
    server
        .sql("RENAME TABLE storage.away TO storage.landing_rows")
        .await
        .unwrap();
    land_on(&store, 0, ann("1", 1)).await.unwrap();
}

/// H38: a fault that hits every row is no row's own fault. Otherwise an operator's mistake would
/// move all rows to the error map.
#[tokio::test]
async fn a_database_that_refuses_every_row_blames_none() {
    let backend = mysql().await;
    let store = open(&backend.settings()).await.unwrap();
    init(&store).await;
    backend
        .sql("ALTER TABLE landing_rows ADD CONSTRAINT mistake CHECK (up_version IS NULL)")
        .await;
    assert_eq!(
        kind(land_on(&store, 0, ann("1", 1)).await),
        ColdKind::Operator
    );
    backend
        .sql("ALTER TABLE landing_rows DROP CONSTRAINT mistake")
        .await;
    backend.poison().await;
    let poison = vec![live(&owner("ann"), "poison", "1", 1)];
    assert!(matches!(
        land_on(&store, 0, poison).await,
        Err(LandError::Refused(_))
    ));
    land_on(&store, 0, ann("1", 1)).await.unwrap();
    let owners = store.rows.all_owners(None, 9).await.unwrap();
    assert_eq!(owners, [owner("ann")], "nothing of the trial is left");
}

/// H39: a server that turns read-only in the middle of a transaction takes none of it. No row is
/// blamed.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_turns_read_only_at_any_statement_takes_nothing_of_the_batch() {
    let server = with_args(&[]).await;
    let store = open(&settings(&server)).await.unwrap();
    init(&store).await;
    for (number, statement) in (1..).zip(["begin", "fence", "upsert", "commit"]) {
        let gate = Arc::new(Gate::before(statement));
        let held = Opening::new(&settings(&server))
            .through(gate.clone())
            .open()
            .await
            .unwrap();
        let landing =
            tokio::spawn(async move { land_on(&held, 0, ann("refused", 10 * number)).await });
        gate.reached().await;
        server.sql("SET GLOBAL read_only = 1").await.unwrap();
        gate.open();
        assert_eq!(
            kind(landing.await.unwrap()),
            ColdKind::Unwell,
            "{statement:?}"
        );
        assert_eq!(
            kind(land_on(&store, 0, ann("refused", 10 * number)).await),
            ColdKind::Unwell
        );
        server.sql("SET GLOBAL read_only = 0").await.unwrap();
        let rows = ann(&number.to_string(), 10 * number - 1);
        land_on(&store, 0, rows.clone()).await.unwrap();
        assert_eq!(
            store.rows.load(&[owner("ann")], 9).await.unwrap()[0].rows,
            rows,
            "{statement:?}"
        );
    }
}

#[tokio::test]
async fn a_wrong_password_is_the_operators_matter_and_is_not_shown() {
    let url = mysql().await.settings().url;
    let error =
        open(&SqlSettings::new(url).with(|sql| sql.password = Some(Secret::new("hunter2"))))
            .await
            .unwrap_err();
    assert_eq!(error.kind, ColdKind::Operator);
    assert!(
        error.message.contains("1045") && !error.message.contains("hunter2"),
        "{error}"
    );
}

#[tokio::test]
async fn a_migration_that_was_cut_is_completed_by_the_next_opening() {
    let backend = mysql().await;
    drop(open(&backend.settings()).await.unwrap());
    backend
        .sql("UPDATE landing_migration SET success = FALSE; DROP TABLE landing_meta")
        .await;
    let store = open(&backend.settings()).await.unwrap();
    store.database.pairing().await.unwrap();
}

/// A database whose hot tier restarts often does not keep the names of all that it had.
#[tokio::test]
async fn a_hot_tier_without_a_partition_is_forgotten_a_day_after_its_last_use() {
    let backend = mysql().await;
    let store = open(&backend.settings()).await.unwrap();
    let [holds, old, late] = ["holds", "old", "late"].map(HotId::of);
    for hot in [holds, old, late] {
        store.hot_tiers.introduce(hot, "localhost").await.unwrap();
    }
    let raise = Raise {
        by: holds,
        ..Raise::by_one(Partition(3), Epoch(0))
    };
    store.partitions.raise(&[raise]).await.unwrap();
    backend
        .sql("UPDATE landing_hot SET seen_at = seen_at - INTERVAL 2 DAY")
        .await;
    // It is about to take partitions.
    store.hot_tiers.introduce(late, "localhost").await.unwrap();
    let known = store.hot_tiers.hot_tiers().await.unwrap();
    let mut known: Vec<_> = known.into_iter().map(|known| known.id).collect();
    known.sort_unstable();
    let mut kept = [holds, late];
    kept.sort_unstable();
    assert_eq!(known, kept);
}

/// Two processes each raise partitions for both servers of a cluster, in another order of epochs.
#[tokio::test(flavor = "multi_thread")]
async fn raises_of_several_servers_wait_for_each_other_in_no_circle() {
    let server = with_args(&[]).await;
    let store = open(&SqlSettings::new(server.url().parse().unwrap()))
        .await
        .unwrap();
    let servers = ["one", "other"].map(HotId::of);
    for hot in servers {
        store.hot_tiers.introduce(hot, "localhost").await.unwrap();
    }
    let url = server.url();
    let name = url.rsplit('/').next().unwrap();
    // So that each raise stores that its servers are used.
    let old = format!("UPDATE {name}.landing_hot SET seen_at = seen_at - INTERVAL 1 HOUR");
    let raises = async |first: u32, by: [HotId; 2]| {
        for stamp in 1..40 {
            server.sql(&old).await.unwrap();
            let partitions = [first, first + 1].map(Partition);
            let records = store.partitions.partitions(&partitions).await.unwrap();
            let raises: Vec<_> = (0..2)
                .map(|at| Raise {
                    above: Epoch(records[at].epoch.0 + at as u64),
                    seen_stamp: records[at].stamp,
                    by: by[at],
                    stamp: Stamp(stamp),
                    ..Raise::by_one(partitions[at], records[at].epoch)
                })
                .collect();
            let raised = store.partitions.raise(&raises).await.unwrap();
            assert!(raised.iter().all(|raised| raised.moved));
        }
    };
    let [one, other] = servers;
    tokio::join!(raises(0, [one, other]), raises(2, [other, one]));
    let deadlocks = server.sql("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'");
    assert_eq!(deadlocks.await.unwrap().trim(), "Innodb_deadlocks\t0");
}

/// The rights of a server that claims shards. Plans need more.
#[tokio::test]
async fn a_user_that_reads_and_updates_shards_claims_them_and_adds_no_plan() {
    let backend = mysql().await;
    let owner = open(&backend.settings()).await.unwrap();
    let (service, dc) = (
        ServiceName::new("goals-2").unwrap(),
        DataCentre::new("a").unwrap(),
    );
    let (halves, token) = (Ranges::even(2).unwrap(), ClaimToken::new([7; 16]));
    let plans = owner.layers.claims().unwrap();
    let plan = plans.add_plan(&service, &dc, &halves).await.unwrap();

    let url = backend.url();
    let database = url.rsplit('/').next().unwrap();
    let grants = format!(
        "CREATE USER 'claimer'@'%' IDENTIFIED BY 'claimer'; \
        GRANT SELECT ON `{database}`.* TO 'claimer'@'%'; \
        GRANT UPDATE ON `{database}`.landing_shard TO 'claimer'@'%'"
    );
    server().await.sql(&grants).await.unwrap();
    let (_, place) = url.split_once('@').unwrap();
    let settings = SqlSettings::new(format!("mysql://claimer:claimer@{place}").parse().unwrap());
    let few = Opening::new(&settings).for_layers().open().await.unwrap();
    let claims = few.layers.claims().unwrap();
    let shards = claims.list(&service, Some(&dc)).await.unwrap();
    let holder = Holder::new("goals-1:7000").unwrap();
    assert_eq!(claims.claim(&shards[0], token, &holder).await, Ok(true));
    assert_eq!(claims.renew(&shards[0].key, token).await, Ok(true));
    assert_eq!(claims.release(&shards[0].key, token).await, Ok(true));
    for refused in [
        claims.add_plan(&service, &dc, &halves).await.unwrap_err(),
        claims.drop_plan(&service, &dc, plan).await.unwrap_err(),
    ] {
        assert_eq!(refused.kind, ColdKind::Operator, "{refused}");
    }
    assert_eq!(plans.drop_plan(&service, &dc, plan).await, Ok(2));
}

/// Each statement with a declared plan, on tables of a few rows and on tables that are large enough for a choice. A server that
/// reads the whole of a small table locks the rows of other partitions.
#[tokio::test]
async fn the_server_chooses_the_declared_plan_of_each_statement() {
    for rows in [1, 2, 20, 2_000] {
        let backend = mysql().await;
        let store = open(&backend.settings()).await.unwrap();
        init(&store).await;
        let database = backend.url().rsplit('/').next().unwrap().to_owned();
        server()
            .await
            .sql(&format!("USE {database}; {}", filled(rows)))
            .await
            .unwrap();
        let planned = planned("landing_rows");
        assert!(planned.len() >= 30, "{planned:?}");
        let mut wrong = Vec::new();
        for plan in &planned {
            let query = format!("USE {database}; EXPLAIN {}", plan.query);
            let told = server().await.sql(&query).await.unwrap();
            if !is_as_planned(plan, &told) {
                wrong.push(format!("{} of {}: {told}", plan.name, plan.items));
            }
        }
        assert!(wrong.is_empty(), "{rows} rows: {wrong:#?}");
    }
}

/// Statements that fill all tables with this number of rows, or with 100 if they have a row for each partition.
fn filled(rows: usize) -> String {
    let few = rows.min(100);
    format!(
        "INSERT INTO landing_rows (app_id, region_id, logic_type, owner_id, field, value, up_version, is_del) \
            SELECT 'game', 'eu', 'player', LPAD(seq, 5, '0'), 'f', 'v', 1, IF(seq % 2, 0, 2) FROM seq_1_to_{rows}; \
        INSERT INTO landing_partition SELECT seq, 1, 1, 1 FROM seq_1_to_{few}; \
        INSERT INTO landing_stamp SELECT seq, 1, 1 FROM seq_1_to_{few}; \
        INSERT INTO landing_hot SELECT seq, 'localhost', UTC_TIMESTAMP(3), UTC_TIMESTAMP(3) FROM seq_1_to_{few}; \
        INSERT INTO landing_feed SELECT seq, 1, 20, 0, 0 FROM seq_1_to_{few}; \
        INSERT INTO landing_event (partition_id, epoch, number, kind, app_id, region_id, logic_type, \
            owner_id, up_version, previous, counters, body) SELECT seq % 100, 1 + seq DIV 1000, seq, 0, \
            'game', 'eu', 'player', LPAD(seq, 5, '0'), seq, 0, '', '' FROM seq_1_to_{rows}; \
        INSERT INTO landing_lead SELECT seq % 100, 'game', 'eu', 'player', LPAD(seq, 5, '0'), 1, seq FROM seq_1_to_{rows}; \
        INSERT INTO landing_sink SELECT IF(seq % 2, 'audit', 'web'), seq, 1, 20 FROM seq_1_to_{few}; \
        INSERT INTO landing_sink_error (name, partition_id, epoch, number, message) \
            SELECT IF(seq % 2, 'audit', 'web'), seq % 100, 1, seq, 'no' FROM seq_1_to_{rows}; \
        INSERT INTO landing_shard (service, dc, plan, range_begin) \
            SELECT IF(seq % 2, 'goals', 'words'), IF(seq % 3, 'a', 'b'), 1 + seq DIV 1000, UNHEX(LPAD(HEX(seq), 16, '0')) FROM seq_1_to_{rows}; \
        ANALYZE TABLE landing_rows, landing_partition, landing_stamp, landing_hot, landing_feed, landing_event, landing_lead, landing_sink, landing_sink_error, landing_shard"
    )
}

/// Whether the server reads the rows as declared. The first line of its plan is about the statement's own table.
fn is_as_planned(planned: &Planned, told: &str) -> bool {
    // Of a whole key the server has already looked the row up.
    if told.contains("after reading const tables") {
        return true;
    }
    let Some(line) = told.lines().find(|line| line.starts_with("1\t")) else {
        return false;
    };
    let columns: Vec<&str> = line.split('\t').collect();
    let [_, _, _, access, _, key, ..] = columns.as_slice() else {
        return false;
    };
    *key == planned.index
        && !["index", "ALL"].contains(access)
        && !(planned.ordered && (told.contains("temporary") || told.contains("filesort")))
}

/// H35: the table is small, so a scan is cheaper than a lookup of each owner. Each landing has deleted a lead, and then
/// deletes those of more owners.
#[tokio::test(flavor = "multi_thread")]
async fn landings_of_different_partitions_do_not_wait_for_leads_of_each_other() {
    const PARTITIONS: [Partition; 2] = [Partition(3), Partition(5)];
    let backend = mysql().await;
    let store = open(&backend.settings()).await.unwrap();
    let raises = PARTITIONS.map(|partition| Raise::by_one(partition, Epoch(0)));
    store.partitions.raise(&raises).await.unwrap();
    let owners: Vec<Owner> = (0..128).map(|id| owner(&format!("{id:03}"))).collect();
    for partition in PARTITIONS {
        let lead = |owner: &Owner| Lead {
            owner: owner.clone(),
            position: Position::new(1, 20),
        };
        let batch = Batch {
            fences: vec![fence(partition.0, 1, 0, 0)],
            leads: owners[..2]
                .iter()
                .map(|owner| (partition, lead(owner)))
                .collect(),
            ..Batch::default()
        };
        store.landing.land(&batch).await.unwrap();
    }
    let mut landings = Vec::new();
    let mut gates = Vec::new();
    for partition in PARTITIONS {
        let gate = Arc::new(Gate::before("feed/clear_told_leads"));
        let held = Opening::new(&backend.settings())
            .through(gate.clone())
            .open()
            .await
            .unwrap();
        let batch = telling(partition, &owners);
        landings.push(tokio::spawn(async move { held.landing.land(&batch).await }));
        gate.reached().await;
        gates.push(gate);
    }
    for gate in gates {
        gate.open();
    }
    for landing in landings {
        landing.await.unwrap().unwrap();
    }
    for partition in PARTITIONS {
        assert_eq!(store.events.leads(partition, Epoch(9)).await.unwrap(), []);
    }
}

/// A batch that ends the lead of the first owner by a note, and those of the others by telling readers to read them.
fn telling(partition: Partition, owners: &[Owner]) -> Batch {
    let (first, rest) = owners.split_first().unwrap();
    let noted = Content::Note(Note {
        owner: first.clone(),
        version: version(1),
        previous: None,
        counters: Vec::new(),
        body: Bytes::new(),
    });
    let told = rest.iter().cloned();
    let told = told.map(|owner| Content::Resync { owner });
    let contents = std::iter::once(noted).chain(told);
    let events = contents.zip(20..).map(|(content, number)| Event {
        partition,
        position: Position::new(1, number),
        content,
    });
    Batch {
        fences: vec![fence(partition.0, 1, 0, 0)],
        events: vec![Events {
            partition,
            after: Position::ZERO,
            events: events.collect(),
        }],
        ..Batch::default()
    }
}
