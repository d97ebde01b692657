//! The prefixes of a server's errors.

use std::collections::BTreeSet;
use std::path::PathBuf;

use storage_servers::{
    RedisCluster, RedisOptions, RedisSentinel, RedisServer, Reply, SentinelOptions, SlotMove,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::support::*;

/// The prefixes of the errors that these commands get, over one connection.
async fn errors_of(server: &RedisServer, commands: &[&str]) -> Vec<String> {
    errors_at(server.socket(), commands).await
}

/// As [`errors_of`], at a socket.
async fn errors_at(socket: PathBuf, commands: &[&str]) -> Vec<String> {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    let mut found = Vec::new();
    for command in commands {
        stream
            .write_all(format!("{command}\r\n").as_bytes())
            .await
            .unwrap();
        let mut bytes = vec![0; 4096];
        let read = stream.read(&mut bytes).await.unwrap();
        let answer = String::from_utf8_lossy(bytes.get(..read).unwrap_or_default()).into_owned();
        for error in answer.lines().filter_map(|line| line.strip_prefix('-')) {
            found.push(error.split(' ').next().unwrap().to_owned());
        }
    }
    found
}

fn in_the_chapter() -> BTreeSet<String> {
    let chapter = concat!(env!("CARGO_MANIFEST_DIR"), "/../book/src/errors.md");
    let chapter = std::fs::read_to_string(chapter).unwrap();
    let (_, section) = chapter.split_once("## Redis\n").unwrap();
    section
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| prefix"))
        .filter_map(|line| line.split('|').nth(1))
        .flat_map(|codes| codes.split(','))
        .map(|code| code.trim().to_owned())
        .collect()
}

#[tokio::test]
async fn the_prefixes_that_a_server_answers_are_in_the_table() {
    let server = server().await;
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let cases: [(&str, &[&str]); 13] = [
        ("WRONGTYPE", &["SET k v", "HGET k f"]),
        (
            "NOSCRIPT",
            &["EVALSHA ffffffffffffffffffffffffffffffffffffffff 0"],
        ),
        ("EXECABORT", &["MULTI", "NOSUCH", "EXEC"]),
        ("BUSYKEY", &["SET a 1", "RESTORE a 0 x"]),
        (
            "BUSYGROUP",
            &["XGROUP CREATE s g $ MKSTREAM", "XGROUP CREATE s g $"],
        ),
        ("NOGROUP", &["XREADGROUP GROUP no c STREAMS s >"]),
        ("NOTBUSY", &["SCRIPT KILL"]),
        ("IOERR", &["SET gone v", "MIGRATE 127.0.0.1 1 gone 0 1000"]),
        ("NOPROTO", &["HELLO 9"]),
        ("WRONGPASS", &["AUTH nobody secret"]),
        (
            "INVALIDOBJ",
            &[
                "SET hll \"HYLL\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x80\\xff\"",
                "PFCOUNT hll",
            ],
        ),
        (
            "NOPERM",
            &[
                "ACL SETUSER few on nopass ~* +ping +auth",
                "AUTH few x",
                "GET k",
            ],
        ),
        (
            "OOM",
            &[
                "CONFIG SET maxmemory 1",
                "SET m v",
                "CONFIG SET maxmemory 0",
            ],
        ),
    ];
    for (prefix, commands) in cases {
        let errors = errors_of(&server, commands).await;
        assert!(
            errors.iter().any(|error| error == prefix),
            "{prefix}: {errors:?}"
        );
        seen.insert(prefix.to_owned());
    }
    for (prefix, commands) in [
        (
            "NOREPLICAS",
            [
                "CONFIG SET min-replicas-to-write 1",
                "SET m v",
                "CONFIG SET min-replicas-to-write 0",
            ],
        ),
        ("READONLY", ["REPLICAOF 127.0.0.1 1", "SET m v", "PING"]),
        ("NOMASTERLINK", ["REPLICAOF 127.0.0.1 1", "SYNC", "PING"]),
        (
            "MASTERDOWN",
            ["CONFIG SET replica-serve-stale-data no", "GET m", "PING"],
        ),
    ] {
        let errors = errors_of(&server, &commands).await;
        assert!(
            errors.iter().any(|error| error == prefix),
            "{prefix}: {errors:?}"
        );
        seen.insert(prefix.to_owned());
    }
    let locked = RedisServer::start(RedisOptions {
        password: Some("s3cret".into()),
        ..RedisOptions::default()
    })
    .await
    .unwrap();
    assert_eq!(errors_of(&locked, &["PING"]).await, ["NOAUTH"]);
    seen.insert("NOAUTH".to_owned());
    let busy = self::server().await;
    busy.call(&["CONFIG", "SET", "busy-reply-threshold", "1"])
        .await
        .unwrap();
    let mut long = UnixStream::connect(busy.socket()).await.unwrap();
    long.write_all(b"EVAL \"redis.call('set', 'k', 1) while true do end\" 0\r\n")
        .await
        .unwrap();
    let errors = loop {
        let errors = errors_of(&busy, &["GET k", "SCRIPT KILL"]).await;
        if errors.len() == 2 {
            break errors;
        }
    };
    assert_eq!(errors, ["BUSY", "UNKILLABLE"]);
    seen.extend(errors);
    let chapter = in_the_chapter();
    let missing: Vec<_> = seen.difference(&chapter).collect();
    assert!(missing.is_empty(), "not in the chapter: {missing:?}");
}

#[track_caller]
fn are_in_the_chapter(prefixes: &[&str]) {
    let chapter = in_the_chapter();
    for prefix in prefixes {
        assert!(chapter.contains(*prefix), "not in the chapter: {prefix}");
    }
}

#[tokio::test]
async fn a_client_that_waits_is_told_that_another_one_unblocked_it() {
    let server = server().await;
    let mut waiting = UnixStream::connect(server.socket()).await.unwrap();
    let mut bytes = vec![0; 4096];
    waiting.write_all(b"CLIENT ID\r\n").await.unwrap();
    let read = waiting.read(&mut bytes).await.unwrap();
    let answer = String::from_utf8_lossy(&bytes[..read]).into_owned();
    let id = answer.trim().trim_start_matches(':').to_owned();
    waiting.write_all(b"BLPOP nothing 0\r\n").await.unwrap();
    // Until the server has read the command, there is nothing to unblock.
    let unblock = ["CLIENT", "UNBLOCK", &id, "ERROR"];
    while server.call(&unblock).await.unwrap() == Reply::Integer(0) {}
    let read = waiting.read(&mut bytes).await.unwrap();
    let answer = String::from_utf8_lossy(&bytes[..read]);
    assert!(answer.starts_with("-UNBLOCKED "), "{answer}");
    are_in_the_chapter(&["UNBLOCKED"]);
}

/// A folder stands where the file belongs.
#[tokio::test]
async fn a_server_that_cannot_save_to_its_disk_says_so() {
    let server = server().await;
    std::fs::create_dir(server.folder().join("dump.rdb")).unwrap();
    let errors = errors_of(&server, &["CONFIG SET save \"3600 1\"", "BGSAVE"]).await;
    assert!(errors.is_empty(), "{errors:?}");
    let errors = loop {
        let errors = errors_of(&server, &["SET k v"]).await;
        if !errors.is_empty() {
            break errors;
        }
    };
    assert_eq!(errors, ["MISCONF"]);
    are_in_the_chapter(&["MISCONF"]);
}

#[tokio::test]
async fn a_server_that_loads_its_data_says_so() {
    let server = server().await;
    let prepared = [
        "DEBUG POPULATE 10000",
        // The server answers between two keys, and takes seconds for all of them.
        "CONFIG SET loading-process-events-interval-bytes 1024",
        "CONFIG SET key-load-delay 1000",
    ];
    let errors = errors_of(&server, &prepared).await;
    assert!(errors.is_empty(), "{errors:?}");
    let mut loading = UnixStream::connect(server.socket()).await.unwrap();
    loading.write_all(b"DEBUG RELOAD\r\n").await.unwrap();
    let errors = loop {
        let errors = errors_of(&server, &["GET k"]).await;
        if !errors.is_empty() {
            break errors;
        }
    };
    assert_eq!(errors, ["LOADING"]);
    are_in_the_chapter(&["LOADING"]);
}

#[tokio::test]
async fn the_nodes_of_a_cluster_tell_where_a_slot_is() {
    let cluster = RedisCluster::start(2, 0).await.unwrap();
    let [first, second] = cluster.nodes() else {
        panic!("{cluster:?}")
    };
    // The slot of `b` is among those of the first node, and that of `a` is not.
    let Reply::Integer(slot) = first.call(&["CLUSTER", "KEYSLOT", "b"]).await.unwrap() else {
        panic!("no slot")
    };
    let slot = u16::try_from(slot).unwrap();
    assert_eq!(cluster.owner_of(slot).await.unwrap(), 0);
    assert_eq!(errors_of(first, &["GET a"]).await, ["MOVED"]);
    assert_eq!(errors_of(first, &["MGET a b"]).await, ["CROSSSLOT"]);
    assert!(errors_of(first, &["SET {b}here v"]).await.is_empty());
    let half_way = SlotMove::begin(&cluster, slot, 1).await.unwrap();
    let commands = ["GET {b}gone", "MGET {b}here {b}gone"];
    assert_eq!(errors_of(first, &commands).await, ["ASK", "TRYAGAIN"]);
    while half_way.migrate(9).await.unwrap() > 0 {}
    half_way.finish().await.unwrap();
    let lost = format!("CLUSTER DELSLOTS {slot}");
    assert_eq!(
        errors_of(second, &[&lost, "GET {b}here"]).await,
        ["CLUSTERDOWN"]
    );
    are_in_the_chapter(&["MOVED", "CROSSSLOT", "ASK", "TRYAGAIN", "CLUSTERDOWN"]);
}

#[tokio::test]
async fn a_sentinel_tells_why_it_does_not_fail_over() {
    let group = RedisSentinel::start(SentinelOptions {
        replicas: 1,
        sentinels: 1,
        ..SentinelOptions::default()
    })
    .await
    .unwrap();
    let sentinel = group.sentinels().first().unwrap();
    let socket = || sentinel.folder().join("redis.sock");
    // Nothing listens there, so this one has no replica.
    let commands = [
        "SENTINEL MONITOR nowhere 127.0.0.1 1 2",
        "SENTINEL FAILOVER nowhere",
        "SENTINEL CKQUORUM nowhere",
    ];
    assert_eq!(
        errors_at(socket(), &commands).await,
        ["NOGOODSLAVE", "NOQUORUM"]
    );
    // Both in one packet, so that nothing comes in between. The second answer may come late.
    let twice = "SENTINEL FAILOVER main\r\nSENTINEL FAILOVER main";
    let errors = loop {
        let errors = errors_at(socket(), &[twice, "PING"]).await;
        // It has not heard of its replica's state yet.
        if errors != ["NOGOODSLAVE", "NOGOODSLAVE"] {
            break errors;
        }
    };
    assert_eq!(errors, ["INPROG"]);
    are_in_the_chapter(&["NOGOODSLAVE", "NOQUORUM", "INPROG"]);
}
