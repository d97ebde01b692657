//! The prefixes of a server's errors.

use std::collections::BTreeSet;

use storage_servers::{RedisOptions, RedisServer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::support::*;

/// The prefixes of the errors that these commands get, over one connection.
async fn errors_of(server: &RedisServer, commands: &[&str]) -> Vec<String> {
    let mut stream = UnixStream::connect(server.socket()).await.unwrap();
    let mut found = Vec::new();
    for command in commands {
        stream
            .write_all(format!("{command}\r\n").as_bytes())
            .await
            .unwrap();
        let mut bytes = vec![0; 4096];
        let read = stream.read(&mut bytes).await.unwrap();
        let answer = String::from_utf8_lossy(bytes.get(..read).unwrap_or_default()).into_owned();
        if let Some(error) = answer.strip_prefix('-') {
            found.push(error.split([' ', '\r']).next().unwrap().to_owned());
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
    let cases: [(&str, &[&str]); 12] = [
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
