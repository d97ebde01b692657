//! No script holds Redis up for long, however large the partition is. Redis itself tells the time of each call.

use std::time::Duration;

use storage_dirty::*;
use storage_model::*;
use storage_servers::{RedisServer, Reply};

use crate::support::*;

const HOLDER: OpId = OpId::new([7; 16]);
const PARTITION: Partition = Partition(0);
/// The bound is 5 ms. Other programs may use the machine while a script runs.
const BOUND: Duration = Duration::from_millis(50);

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
