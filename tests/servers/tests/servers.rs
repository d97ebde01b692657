//! Real servers answer, survive the faults that they must survive, and leave nothing behind.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

use std::{
    io::{BufRead as _, BufReader},
    net::{Ipv4Addr, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use storage_servers::{
    ClusterOptions, MariaDbOptions, MariaDbServer, Missing, RedisCluster, RedisOptions,
    RedisSentinel, RedisServer, Reply, SentinelOptions, SlotMove,
};
use tokio::time::{sleep, timeout};

fn text(reply: &str) -> Reply {
    Reply::Bytes(reply.as_bytes().to_vec())
}

/// The output of a client program.
fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(
        output.status.success(),
        "{program} {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn redis_cli(args: &[&str]) -> String {
    output("redis-cli", &[&["--no-auth-warning"], args].concat())
}

fn listens(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(30), wait)
        .await
        .unwrap_or_else(|_| panic!("not in 30 s: {what}"));
}

#[tokio::test]
async fn a_redis_answers_and_leaves_nothing_when_dropped() {
    let redis = RedisServer::start(RedisOptions::default()).await.unwrap();
    assert_eq!(redis_cli(&["-u", &redis.url(), "PING"]), "PONG");
    assert_eq!(redis.call(&["PING"]).await.unwrap(), text("PONG"));

    let (port, folder) = (redis.port(), redis.folder().to_path_buf());
    drop(redis);
    assert!(!listens(port));
    assert!(!folder.exists());
}

#[tokio::test]
async fn a_killed_redis_with_an_append_only_file_keeps_its_keys() {
    let redis = RedisServer::start(RedisOptions {
        appendonly: true,
        ..RedisOptions::default()
    })
    .await
    .unwrap();
    redis.call(&["SET", "gold", "10"]).await.unwrap();
    let (port, pid) = (redis.port(), redis.pid());

    redis.kill().unwrap();
    assert_eq!(redis.pid(), None);
    assert!(!listens(port));
    assert!(
        redis.kill().is_err(),
        "a server that is down can't be killed"
    );

    redis.restart().await.unwrap();
    assert_eq!(redis.port(), port);
    assert_ne!(redis.pid(), pid);
    assert_eq!(redis.call(&["GET", "gold"]).await.unwrap(), text("10"));
}

#[tokio::test]
async fn a_redis_stops_in_order_and_starts_again() {
    let redis = RedisServer::start(RedisOptions {
        appendonly: true,
        ..RedisOptions::default()
    })
    .await
    .unwrap();
    redis.call(&["SET", "gold", "10"]).await.unwrap();
    redis.stop().await.unwrap();
    assert!(!listens(redis.port()));
    redis.restart().await.unwrap();
    assert_eq!(redis.call(&["GET", "gold"]).await.unwrap(), text("10"));
}

#[tokio::test]
async fn a_paused_redis_answers_when_it_is_resumed() {
    let redis = RedisServer::start(RedisOptions::default()).await.unwrap();
    redis.pause().unwrap();
    let stat = format!("/proc/{}/stat", redis.pid().unwrap());
    until("the process is stopped", || {
        std::fs::read_to_string(&stat).unwrap().contains(") T ")
    })
    .await;
    redis.resume().unwrap();
    assert_eq!(redis.call(&["PING"]).await.unwrap(), text("PONG"));
}

/// The server's TIME, in seconds.
async fn seconds(redis: &RedisServer) -> i64 {
    let Reply::Array(parts) = redis.call(&["TIME"]).await.unwrap() else {
        panic!("TIME answers an array")
    };
    parts.first().unwrap().text().unwrap().parse().unwrap()
}

#[tokio::test]
async fn the_clock_of_a_redis_moves_and_with_it_what_expires() {
    const HOUR: i64 = 3600;
    let redis = RedisServer::start(RedisOptions {
        clock: true,
        appendonly: true,
        ..RedisOptions::default()
    })
    .await
    .unwrap();
    let before = seconds(&redis).await;
    redis
        .call(&["SET", "soon", "1", "EX", "7000"])
        .await
        .unwrap();

    redis.skew(-HOUR).unwrap();
    assert!(seconds(&redis).await < before - HOUR / 2);
    redis.kill().unwrap();
    redis.restart().await.unwrap();
    assert!(
        seconds(&redis).await < before - HOUR / 2,
        "a restart keeps the clock"
    );
    assert_eq!(redis.call(&["GET", "soon"]).await.unwrap(), text("1"));

    redis.skew(2 * HOUR).unwrap();
    assert!(seconds(&redis).await >= before + 2 * HOUR);
    assert_eq!(redis.call(&["GET", "soon"]).await.unwrap(), Reply::Null);

    let other = RedisServer::start(RedisOptions::default()).await.unwrap();
    assert!(
        other.skew(1).is_err(),
        "a server without such a clock says so"
    );
}

#[tokio::test]
async fn a_redis_can_ask_for_a_user_a_password_and_tls() {
    let options = RedisOptions {
        user: Some("game".to_owned()),
        password: Some("p@ss \"w\\ord".to_owned()),
        tls: true,
        maxmemory: Some("64mb".to_owned()),
        maxmemory_policy: Some("volatile-lru".to_owned()),
        args: ["--hz", "50"].map(str::to_owned).to_vec(),
        ..RedisOptions::default()
    };
    let redis = RedisServer::start(options).await.unwrap();
    let url = redis.url();
    assert_eq!(
        url,
        format!(
            "rediss://game:p%40ss%20%22w%5Cord@127.0.0.1:{}",
            redis.port()
        )
    );

    let ca = redis.ca_pem().unwrap().to_str().unwrap();
    let ask = |args: &[&str]| redis_cli(&[&["-u", &url, "--cacert", ca], args].concat());
    assert_eq!(ask(&["ACL", "WHOAMI"]), "game");
    assert_eq!(ask(&["CONFIG", "GET", "maxmemory"]), "maxmemory\n67108864");
    assert_eq!(
        ask(&["CONFIG", "GET", "maxmemory-policy"]),
        "maxmemory-policy\nvolatile-lru"
    );
    assert_eq!(ask(&["CONFIG", "GET", "hz"]), "hz\n50");
    assert!(
        redis_cli(&[
            "-p",
            &redis.port().to_string(),
            "--tls",
            "--cacert",
            ca,
            "PING"
        ])
        .contains("NOAUTH")
    );
    assert_eq!(redis.call(&["PING"]).await.unwrap(), text("PONG"));
}

#[tokio::test]
async fn a_server_that_refuses_to_start_says_why() {
    let args = ["--maxmemory-policy", "sometimes"]
        .map(str::to_owned)
        .to_vec();
    let error = RedisServer::start(RedisOptions {
        args,
        ..RedisOptions::default()
    })
    .await
    .unwrap_err();
    assert!(error.to_string().contains("maxmemory-policy"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_installed_is_a_missing_error() {
    let program = PathBuf::from("no-such-server");
    let redis = RedisServer::start(RedisOptions {
        program: program.clone(),
        ..RedisOptions::default()
    })
    .await
    .unwrap_err();
    assert_eq!(
        redis.downcast_ref::<Missing>().unwrap().packages,
        "redis-server"
    );
    let options = MariaDbOptions {
        program: Some(program),
        ..MariaDbOptions::default()
    };
    let mariadb = MariaDbServer::start(options).await.unwrap_err();
    assert_eq!(
        mariadb.downcast_ref::<Missing>().unwrap().packages,
        "mariadb-server"
    );
}

#[tokio::test]
async fn a_cluster_agrees_fails_over_and_takes_the_old_master_back() {
    let password = Some("secret".to_owned());
    let redis = RedisOptions {
        password,
        appendonly: true,
        ..RedisOptions::default()
    };
    let node_timeout = Duration::from_millis(500);
    let options = ClusterOptions {
        masters: 3,
        replicas_per_master: 1,
        node_timeout,
        redis,
    };
    let cluster = RedisCluster::start_with(options).await.unwrap();
    assert!(
        cluster
            .url()
            .starts_with("redis-cluster://:secret@127.0.0.1:")
    );
    assert_eq!(cluster.url().split(',').count(), 6);
    for (slot, owner) in [(0, 0), (8_000, 1), (16_383, 2)] {
        assert_eq!(cluster.owner_of(slot).await.unwrap(), owner);
    }

    cluster.node(0).unwrap().kill().unwrap();
    let failover = async {
        while cluster.owner_of(0).await.ok() != Some(3) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(30), failover)
        .await
        .expect("its replica takes over");
    cluster.node(0).unwrap().restart().await.unwrap();
    cluster.settled().await.unwrap();
    assert_eq!(cluster.owner_of(0).await.unwrap(), 3);
}

#[tokio::test]
async fn sentinels_replace_a_master_that_died_and_take_the_old_one_back_as_a_replica() {
    let password = Some("secret".to_owned());
    let redis = RedisOptions {
        password: password.clone(),
        appendonly: true,
        ..RedisOptions::default()
    };
    let options = SentinelOptions {
        redis,
        sentinel_password: Some("other".to_owned()),
        ..SentinelOptions::default()
    };
    let sentinel = RedisSentinel::start(options).await.unwrap();
    let url = sentinel.url();
    assert!(
        url.starts_with("redis-sentinel://:secret@127.0.0.1:")
            && url.ends_with("/main?sentinel-pass=other"),
        "{url}"
    );
    assert_eq!(
        (
            url.split(',').count(),
            sentinel.servers().len(),
            sentinel.master().await.unwrap()
        ),
        (3, 3, 0)
    );

    sentinel.server(0).unwrap().kill().unwrap();
    let master = sentinel.failed_over(0).await.unwrap();
    assert_ne!(master, 0);
    sentinel.server(0).unwrap().restart().await.unwrap();
    sentinel.settled().await.unwrap();
    // On a loaded machine the new master may have seemed down too.
    assert_ne!(sentinel.master().await.unwrap(), 0);
}

#[tokio::test]
async fn a_slot_moves_at_once_or_half_way() {
    let cluster = RedisCluster::start(3, 0).await.unwrap();
    let key = |n: u32| format!("{{tag}}{n}");
    let slot = match cluster
        .node(0)
        .unwrap()
        .call(&["CLUSTER", "KEYSLOT", "tag"])
        .await
        .unwrap()
    {
        Reply::Integer(slot) => u16::try_from(slot).unwrap(),
        other => panic!("{other:?}"),
    };
    let from = cluster.owner_of(slot).await.unwrap();
    let to = (from + 1) % 3;
    let (old, new) = (cluster.node(from).unwrap(), cluster.node(to).unwrap());
    for n in 0..10 {
        old.call(&["SET", &key(n), "value"]).await.unwrap();
    }

    let slot_move = SlotMove::begin(&cluster, slot, to).await.unwrap();
    assert_eq!(slot_move.migrate(4).await.unwrap(), 4);
    let mut answers = Vec::new();
    for n in 0..10 {
        answers.push(
            old.call(&["GET", &key(n)])
                .await
                .map_err(|error| format!("{error:#}")),
        );
    }
    assert_eq!(
        answers
            .iter()
            .filter(|answer| answer == &&Ok(text("value")))
            .count(),
        6
    );
    assert_eq!(
        answers
            .iter()
            .filter(|answer| answer.as_ref().is_err_and(|error| error.contains("ASK")))
            .count(),
        4
    );
    assert_eq!(cluster.owner_of(slot).await.unwrap(), from);

    drop(slot_move);
    cluster.move_slot(slot, to).await.unwrap();
    assert_eq!(cluster.owner_of(slot).await.unwrap(), to);
    for n in 0..10 {
        assert_eq!(new.call(&["GET", &key(n)]).await.unwrap(), text("value"));
    }
    assert!(
        cluster.move_slot(slot, to).await.is_err(),
        "a node that has the slot can't import it"
    );
}

#[tokio::test]
async fn a_mariadb_answers_its_user_and_keeps_commits_through_a_kill() {
    let options = MariaDbOptions {
        args: vec!["--max-allowed-packet=1M".to_owned()],
        ..MariaDbOptions::default()
    };
    let mariadb = MariaDbServer::start(options).await.unwrap();
    assert_eq!(
        mariadb.url(),
        format!(
            "mysql://storage:secret@127.0.0.1:{}/storage",
            mariadb.port()
        )
    );
    let port = format!("--port={}", mariadb.port());
    let ask = |database: &str, statement: &str| {
        let login = [
            "--no-defaults",
            "--protocol=tcp",
            "--host=127.0.0.1",
            "--user=storage",
            "--password=secret",
        ];
        output(
            "mariadb",
            &[
                &login[..],
                &[
                    &port,
                    "--batch",
                    "--skip-column-names",
                    "-e",
                    statement,
                    database,
                ],
            ]
            .concat(),
        )
    };
    assert_eq!(ask("storage", "SELECT @@max_allowed_packet"), "1048576");
    ask(
        "storage",
        "CREATE TABLE t (v INT PRIMARY KEY); INSERT INTO t VALUES (7)",
    );

    mariadb.kill().unwrap();
    assert!(!listens(mariadb.port()));
    mariadb.restart().await.unwrap();
    assert_eq!(ask("storage", "SELECT v FROM t"), "7");
    mariadb.stop().await.unwrap();
    mariadb.restart().await.unwrap();

    let url = mariadb.fresh_database("other_one").await.unwrap();
    assert!(url.ends_with("/other_one"), "{url}");
    ask("other_one", "CREATE TABLE t (v INT PRIMARY KEY)");
    mariadb.fresh_database("other_one").await.unwrap();
    assert_eq!(ask("other_one", "SHOW TABLES"), "");
    assert!(mariadb.fresh_database("other; DROP").await.is_err());

    mariadb.sql("SET GLOBAL read_only = 1").await.unwrap();
    assert_eq!(mariadb.sql("SELECT @@read_only").await.unwrap(), "1\n");
    assert!(
        mariadb
            .sql("SELECT nonsense")
            .await
            .unwrap_err()
            .to_string()
            .contains("1054")
    );
}

/// The port and the folder of each server that `storage-servers` prints.
fn announced(line: &str) -> (u16, PathBuf) {
    let (setting, folder) = line.split_once(" # ").unwrap();
    let url = setting.split('"').nth(1).unwrap();
    let port = url.rsplit(':').next().unwrap().split('/').next().unwrap();
    (port.parse().unwrap(), Path::new(folder).to_path_buf())
}

#[tokio::test]
async fn a_killed_parent_leaves_no_server_and_no_folder() {
    let mut parent = Command::new(env!("CARGO_BIN_EXE_storage-servers"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(parent.stdout.take().unwrap())
        .lines()
        .take(2);
    let servers: Vec<_> = lines.map(|line| announced(&line.unwrap())).collect();
    assert_eq!(servers.len(), 2);
    for (port, folder) in &servers {
        assert!(listens(*port) && folder.exists());
    }

    parent.kill().unwrap(); // SIGKILL: nothing in the parent runs any more
    parent.wait().unwrap();
    for (port, folder) in &servers {
        until("the server is gone", || !listens(*port)).await;
        until("its folder is gone", || !folder.exists()).await;
    }
}
