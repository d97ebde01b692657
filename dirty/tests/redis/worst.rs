//! No script holds Redis up for long, however large the partition is. Redis itself tells the time of each call.

use std::time::Duration;

use storage_dirty::*;
use storage_model::*;
use storage_servers::{RedisServer, Reply};

use crate::support::*;

const HOLDER: OpId = OpId::new([7; 16]);
const PARTITION: Partition = Partition(0);
/// The bound is 5 ms. Other programs may use the machine while a script runs, and Redis counts that time, too. Scripts whose time
/// grows with the partition take half a second here.
const BOUND: Duration = Duration::from_millis(200);

/// The longest call of a script since the last question. It begins the next measurement.
async fn longest(server: &RedisServer) -> Duration {
    let told = server.call(&["SLOWLOG", "GET", "-1"]).await.unwrap();
    let Reply::Array(entries) = told else {
        panic!("{told:?}")
    };
    let of_script = |entry: &Reply| {
        let Reply::Array(parts) = entry else {
            return None;
        };
        let (Reply::Integer(micros), Reply::Array(words)) = (parts.get(2)?, parts.get(3)?) else {
            return None;
        };
        let is_script = words
            .first()?
            .text()
            .is_ok_and(|word| word.starts_with("EVAL"));
        is_script.then(|| Duration::from_micros(u64::try_from(*micros).unwrap_or_default()))
    };
    let longest = entries.iter().filter_map(of_script).max();
    server.call(&["SLOWLOG", "RESET"]).await.unwrap();
    longest.unwrap()
}

/// Sets this number of fields of a hash. The field and the value are Lua expressions of `i`.
async fn fill(server: &RedisServer, key: &str, count: u32, field: &str, value: &str) {
    let script = format!("for i = 1, {count} do redis.call('HSET', KEYS[1], {field}, {value}) end");
    server.call(&["EVAL", &script, "1", key]).await.unwrap();
}

#[tokio::test]
async fn a_large_partition_makes_no_script_long() {
    let server = server().await;
    let store = prepared(settings(&server.url())).await;
    for (name, value) in [
        ("slowlog-max-len", "100000"),
        ("slowlog-log-slower-than", "0"),
    ] {
        server.call(&["CONFIG", "SET", name, value]).await.unwrap();
    }
    let session = |holder: OpId| format!("'1000 {} 1 {holder} - game'", OpId::new([9; 16]));
    let field = "'game:eu:player:' .. i";
    fill(
        &server,
        "slug-sess:{0}",
        100_000,
        field,
        &session(OpId::new([8; 16])),
    )
    .await;
    fill(
        &server,
        "slug-sess:{0}",
        500,
        "'game:eu:player:mine' .. i",
        &session(HOLDER),
    )
    .await;
    let holder = "string.format('%032x', i)";
    fill(&server, "slug-beats:{0}", 40_000, holder, "7").await;
    let store_name = "'w:' .. string.format('%032x', i)";
    fill(
        &server,
        "slug-part:{0}",
        10_000,
        store_name,
        "'7 ' .. string.rep('x', 2000)",
    )
    .await;

    longest(&server).await;
    assert_eq!(store.lapse(PARTITION, HOLDER, 0).await, Ok(500));
    let lapse = longest(&server).await;
    let beats = store
        .beat(&[PARTITION], Some((HOLDER, 1)))
        .await
        .remove(0)
        .unwrap();
    assert_eq!(beats.beats.len(), 40_001);
    let beat = longest(&server).await;
    store.forget_calls(&[PARTITION]).await.unwrap();
    let forget_calls = longest(&server).await;
    println!("lapse {lapse:?}, beat {beat:?}, forget_calls {forget_calls:?}");
    for (script, took) in [
        ("lapse", lapse),
        ("beat", beat),
        ("forget_calls", forget_calls),
    ] {
        assert!(took < BOUND, "{script}: {took:?}");
    }
}

/// Calls at the limits of the book, on values of 64 B.
struct Limits {
    server: RedisServer,
    store: RedisStore,
    lock: Lock,
    took: Vec<(&'static str, Duration)>,
}

const OWNERS: usize = 8_192;
const VALUE: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

impl Limits {
    /// Notes the longest call of a script since the last one.
    async fn note(&mut self, what: &'static str) {
        let longest = longest(&self.server).await;
        self.took.push((what, longest));
    }

    /// Writes by one call, each the first of its owner.
    async fn first_writes(&self, owners: &[Owner], fields: usize) {
        let names: Vec<String> = (0..fields).map(|n| format!("f{n:03}")).collect();
        let mut writes = Vec::new();
        for owner in owners {
            let changes: Vec<_> = names
                .iter()
                .map(|name| (name.as_str(), set(VALUE)))
                .collect();
            writes.push((mutation(&self.store, owner, &changes).await, Vec::new()));
        }
        for answer in self.store.mutate(&writes).await {
            assert!(matches!(answer, Ok(Mutated::Applied(_))), "{answer:?}");
        }
    }

    async fn writes(&mut self) {
        let owners: Vec<Owner> = (0..128).map(|n| owner(&format!("w{n}"))).collect();
        self.first_writes(&owners, 1).await;
        self.note("update.lua: 128 writes of new owners").await;
        self.first_writes(&owners, 1).await;
        self.note("update.lua: 128 writes").await;
        let [first, second, third, ..] = owners.as_slice() else {
            panic!("too few owners")
        };
        let alone = std::slice::from_ref(first);
        self.first_writes(alone, 1_000).await;
        self.note("update.lua: 1,000 fields").await;
        self.first_writes(alone, 1_000).await;
        self.note("update.lua: 1,000 fields that a mark names")
            .await;
        let names: Vec<String> = (0..500).map(|n| format!("f{n:03}")).collect();
        let changes: Vec<_> = names
            .iter()
            .map(|name| (name.as_str(), set(VALUE)))
            .collect();
        let other = mutation(&self.store, second, &changes).await;
        let both = mutation(&self.store, third, &changes)
            .await
            .with(vec![other]);
        assert!(matches!(
            send(&self.store, both).await,
            Ok(Mutated::Applied(_))
        ));
        self.note("transact.lua: 1,000 fields of two owners").await;
    }

    /// Loads 4,096 rows of an owner. The version of the first row is one above `below`.
    async fn load(&self, owner: &Owner, below: u64) {
        let observed = self.store.observe(std::slice::from_ref(owner)).await;
        let row = |n: u64| {
            let value = Cell::Live(Bytes::from(format!("{below}{VALUE}")));
            let version = Version::new(below + n).unwrap();
            (field(&format!("f{n:04}")), value, version)
        };
        let load = Load {
            owner: owner.clone(),
            observed: observed.into_iter().next().unwrap().unwrap(),
            rows: (1..=4_096).map(row).collect(),
            complete: true,
        };
        let filled = self.store.fill(&[load]).await.remove(0).unwrap();
        assert!(matches!(filled, Filled::Accepted(_)));
    }

    async fn loads(&mut self) {
        let cold = owner("cold");
        self.load(&cold, 0).await;
        self.note("fill_part.lua: 512 rows of 4,096").await;
        let record = "slug-part:{0}";
        self.server
            .call(&["HINCRBY", record, "gen", "1"])
            .await
            .unwrap();
        self.load(&cold, 10_000).await;
        self.note("fill.lua: 4,096 newer rows of a hash from before a rewind")
            .await;
        self.server
            .call(&["HINCRBY", record, "gen", "1"])
            .await
            .unwrap();
        self.load(&cold, 0).await;
        self.note("fill.lua: 4,096 older rows of a hash from before a rewind")
            .await;
        let hash = "slug-data:{0}:game:eu:player:cold";
        let gone = self.server.call(&["DEL", hash]).await.unwrap();
        assert_eq!(gone, Reply::Integer(1));
        self.load(&cold, 0).await;
        self.note("fill.lua: 4,096 rows of an owner whose unlanded hash was lost")
            .await;
    }

    /// Marks on their way to the database.
    async fn landing(&mut self) {
        let owners: Vec<Owner> = (0..OWNERS).map(|n| owner(&format!("m{n}"))).collect();
        for owners in owners.chunks(128) {
            self.first_writes(owners, 1).await;
        }
        longest(&self.server).await;
        let until = Duration::from_secs(60);
        let locked = self
            .store
            .lock(&[PARTITION], &self.lock, until)
            .await
            .remove(0);
        assert_eq!(locked, Ok(true));
        let Snapshot::Taken(snapshot) = self.store.snapshot(PARTITION, &self.lock).await.unwrap()
        else {
            panic!("no snapshot")
        };
        self.note("snapshot.lua").await;
        let wanted: Vec<_> = owners
            .iter()
            .map(|owner| (owner.clone(), vec![field("f000")]))
            .collect();
        let collected = self.store.collect(PARTITION, &wanted, None).await.unwrap();
        self.note("end_collect.lua: 1,000 owners").await;
        let cells: Vec<_> = wanted
            .into_iter()
            .map(|(owner, fields)| (owner, Fields::Cells(fields)))
            .collect();
        let bound = Bound {
            rows: OWNERS,
            bytes: 8 << 20,
        };
        for (count, what) in [
            (1_000, "collect_linked.lua: 1,000 owners"),
            (OWNERS, "collect_linked.lua: 8,192 owners"),
        ] {
            let read = self
                .store
                .collect_linked(PARTITION, cells.split_at(count).0, bound, true)
                .await;
            let Ok(Linked::Closed(_, members)) = read else {
                panic!("{read:?}")
            };
            assert_eq!(members.len(), count);
            self.note(what).await;
        }
        self.store
            .links(PARTITION, collected.epoch, &owners, OWNERS)
            .await
            .unwrap();
        self.note("links.lua: 8,192 owners").await;
        let page = self
            .store
            .scan(PARTITION, Map::Snapshot, 0, 500)
            .await
            .unwrap();
        let (refused, landed) = page.entries.split_at(200);
        let (settled, on_probation) = landed.split_at(100);
        let rejected = refused.iter().map(|entry| Rejected {
            source: Some(entry.clone()),
            owner: entry.mark.as_ref().map(|mark| mark.owner.clone()),
            faults: vec![Fault {
                field: field("f000"),
                version: entry.version,
                code: 1,
                message: VALUE.to_owned(),
            }],
            leaves: Vec::new(),
        });
        let reject = Reject {
            partition: PARTITION,
            lock: self.lock.clone(),
            epoch: collected.epoch,
            snapshot,
            retry_min: until,
            retry_max: until,
            probation: false,
            rejected: rejected.collect(),
        };
        self.store.reject(&reject).await.unwrap();
        self.note("reject.lua: 80 of 200 entries").await;
        for (probation, marks, what) in [
            (false, settled, "settle.lua: 100 marks"),
            (
                true,
                on_probation.split_at(100).0,
                "settle.lua: 100 marks that go on probation",
            ),
        ] {
            let settle = Settle {
                partition: PARTITION,
                lock: Some(self.lock.clone()),
                epoch: collected.epoch,
                snapshot,
                landed: collected.reaches,
                marks: marks.to_vec(),
                rows: Vec::new(),
                probation,
            };
            assert_eq!(self.store.settle(&settle).await.unwrap().cleared, 100);
            self.note(what).await;
        }
    }
}

/// The table of the chapter on performance. `--nocapture` shows it.
#[tokio::test]
async fn no_script_takes_long_at_the_limits_of_the_book() {
    let server = server().await;
    let one = settings(&server.url()).with(|redis| redis.partitions = 1);
    let store = prepared(one).await;
    for (name, value) in [
        ("slowlog-max-len", "100000"),
        ("slowlog-log-slower-than", "0"),
    ] {
        server.call(&["CONFIG", "SET", name, value]).await.unwrap();
    }
    let mut limits = Limits {
        server,
        store,
        lock: lock("w"),
        took: Vec::new(),
    };
    limits.writes().await;
    limits.loads().await;
    limits.landing().await;
    for (what, took) in &limits.took {
        println!("{what}: {:.1} ms", took.as_secs_f64() * 1_000.0);
    }
    for (what, took) in &limits.took {
        // Thousands of owners that land together have a bound of their own.
        let bound = if what.contains("8,192") {
            10 * BOUND
        } else {
            BOUND
        };
        assert!(*took < bound, "{what}: {took:?}");
    }
}
