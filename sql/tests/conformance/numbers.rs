//! The numbers of a server's errors.

use std::collections::BTreeMap;

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlDatabaseError};
use sqlx::{AssertSqlSafe, Connection as _, Error};
use storage_config::{Secret, SqlSettings};
use storage_servers::{MariaDbOptions, MariaDbServer};
use storage_sql::{ColdKind, open};

/// The kind that the chapter gives each number.
fn in_the_chapter() -> BTreeMap<u16, String> {
    let chapter = concat!(env!("CARGO_MANIFEST_DIR"), "/../book/src/errors.md");
    let chapter = std::fs::read_to_string(chapter).unwrap();
    let (_, section) = chapter.split_once("## MySQL and MariaDB\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let mut kinds = BTreeMap::new();
    for line in section.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, codes, _, kind, ..] = cells.as_slice() else {
            continue;
        };
        for code in codes.split(", ").filter_map(|code| code.parse().ok()) {
            kinds.insert(code, (*kind).to_owned());
        }
    }
    kinds
}

fn number(error: &Error) -> u16 {
    match error {
        Error::Database(answer) => answer.downcast_ref::<MySqlDatabaseError>().number(),
        other => panic!("{other}"),
    }
}

/// The numbers of the errors of these statements, each over the same connection.
async fn numbers(connection: &mut MySqlConnection, statements: &[&str]) -> Vec<u16> {
    let mut numbers = Vec::new();
    for statement in statements {
        let run = sqlx::raw_sql(AssertSqlSafe((*statement).to_owned()))
            .execute(&mut *connection)
            .await;
        numbers.extend(run.err().as_ref().map(number));
    }
    numbers
}

const TABLES: &str = "CREATE TABLE t (id INT PRIMARY KEY, v VARBINARY(4) NOT NULL, n TINYINT UNSIGNED, CHECK (n < 100)) ENGINE = InnoDB; \
    CREATE TABLE child (id INT, FOREIGN KEY (id) REFERENCES t (id)) ENGINE = InnoDB; \
    CREATE TABLE parts (id INT) PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (5)); \
    CREATE TABLE small (v VARCHAR(4000)) ENGINE = MEMORY; \
    CREATE VIEW few AS SELECT * FROM t WHERE id < 5 WITH CHECK OPTION; \
    INSERT INTO t VALUES (1, 'a', 1)";

#[tokio::test]
async fn the_numbers_that_a_server_answers_are_in_the_table() {
    let server = MariaDbServer::start(MariaDbOptions::default())
        .await
        .unwrap();
    let mut root = MySqlConnection::connect_with(
        &MySqlConnectOptions::new()
            .socket(server.socket())
            .username("root")
            .database("storage"),
    )
    .await
    .unwrap();
    assert_eq!(numbers(&mut root, &[TABLES]).await, []);
    let strict = "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'";
    let cases: [(u16, &[&str]); 35] = [
        (1048, &["INSERT INTO t VALUES (2, NULL, 1)"]),
        (1062, &["INSERT INTO t VALUES (1, 'a', 1)"]),
        (1406, &["INSERT INTO t VALUES (3, 'aaaaa', 1)"]),
        (1264, &["INSERT INTO t VALUES (4, 'a', 300)"]),
        (1366, &["INSERT INTO t VALUES ('x', 'a', 1)"]),
        (4025, &["INSERT INTO t VALUES (5, 'a', 100)"]),
        (1452, &["INSERT INTO child VALUES (9)"]),
        (
            1451,
            &["INSERT INTO child VALUES (1)", "DELETE FROM t WHERE id = 1"],
        ),
        (1526, &["INSERT INTO parts VALUES (9)"]),
        (1369, &["INSERT INTO few VALUES (9, 'a', 1)"]),
        (1690, &["SELECT 18446744073709551615 + 1"]),
        (1136, &["INSERT INTO t VALUES (1)"]),
        (1364, &["INSERT INTO t (id) VALUES (6)"]),
        (1054, &["SELECT nothing FROM t"]),
        (1064, &["SELEKT"]),
        (1146, &["SELECT * FROM nothing"]),
        (1050, &["CREATE TABLE t (id INT)"]),
        (1060, &["ALTER TABLE t ADD COLUMN v INT"]),
        (
            1061,
            &["ALTER TABLE t ADD INDEX one (v), ADD INDEX one (n)"],
        ),
        (1072, &["ALTER TABLE t ADD INDEX two (nothing)"]),
        (1091, &["ALTER TABLE t DROP INDEX nothing"]),
        (1103, &["CREATE TABLE ` ` (id INT)"]),
        (1115, &["CREATE TABLE x (id INT) CHARACTER SET nothing"]),
        (1273, &["CREATE TABLE x (id INT) COLLATE nothing"]),
        (1286, &["CREATE TABLE x (id INT) ENGINE = nothing"]),
        (1193, &["SET SESSION nothing = 1"]),
        (1231, &["SET SESSION sql_mode = 'nothing'"]),
        (1305, &["SELECT nothing()"]),
        (
            1792,
            &[
                "SET TRANSACTION READ ONLY",
                "START TRANSACTION READ ONLY",
                "DELETE FROM t",
                "ROLLBACK",
            ],
        ),
        (
            1223,
            &[
                "FLUSH TABLES WITH READ LOCK",
                "DELETE FROM t",
                "UNLOCK TABLES",
            ],
        ),
        (
            1099,
            &[
                "LOCK TABLES parts READ",
                "DELETE FROM parts",
                "UNLOCK TABLES",
            ],
        ),
        (
            1100,
            &["LOCK TABLES t READ", "SELECT * FROM parts", "UNLOCK TABLES"],
        ),
        (
            1969,
            &["SET STATEMENT max_statement_time = 0.01 FOR SELECT SLEEP(5)"],
        ),
        (
            1104,
            &[
                "SET SESSION sql_big_selects = 0, max_join_size = 1",
                "SELECT * FROM t a, t b, t c, seq_1_to_100",
                "SET SESSION sql_big_selects = 1",
            ],
        ),
        (
            1114,
            &[
                "SET SESSION max_heap_table_size = 16384",
                "ALTER TABLE small ENGINE = MEMORY",
                "INSERT INTO small SELECT REPEAT('a', 4000) FROM seq_1_to_100",
            ],
        ),
    ];
    let chapter = in_the_chapter();
    let mut wrong = Vec::new();
    let mut check = |expected: u16, numbers: &[u16]| {
        if !numbers.contains(&expected) || !chapter.contains_key(&expected) {
            wrong.push(format!("{expected}: {numbers:?}"));
        }
    };
    numbers(&mut root, &[strict]).await;
    for (expected, statements) in cases {
        let numbers = numbers(&mut root, statements).await;
        check(expected, &numbers);
    }
    // Two sessions.
    let mut other = MySqlConnection::connect(&server.url()).await.unwrap();
    numbers(
        &mut root,
        &["BEGIN", "SELECT * FROM t WHERE id = 1 FOR UPDATE"],
    )
    .await;
    let waits = [
        "SET SESSION innodb_lock_wait_timeout = 1",
        "UPDATE t SET n = 2 WHERE id = 1",
    ];
    check(1205, &numbers(&mut other, &waits).await);
    numbers(&mut root, &["ROLLBACK"]).await;
    let id: i64 = sqlx::query_scalar("SELECT CAST(CONNECTION_ID() AS SIGNED)")
        .fetch_one(&mut other)
        .await
        .unwrap();
    numbers(&mut root, &[&format!("KILL CONNECTION {id}")]).await;
    assert!(other.ping().await.is_err());
    let gone = sqlx::raw_sql("SELECT 1").execute(&mut other).await;
    assert!(gone.is_err(), "1927, or the connection is gone");
    let mut other = MySqlConnection::connect(&server.url()).await.unwrap();
    check(
        1227,
        &numbers(&mut other, &["SET GLOBAL read_only = 1"]).await,
    );
    numbers(&mut root, &["SET GLOBAL read_only = 1"]).await;
    check(1290, &numbers(&mut other, &["UPDATE t SET n = 2"]).await);
    numbers(
        &mut root,
        &[
            "SET GLOBAL read_only = 0",
            "SET GLOBAL max_prepared_stmt_count = 0",
        ],
    )
    .await;
    check(
        1461,
        &numbers(&mut other, &["PREPARE one FROM 'SELECT 1'"]).await,
    );
    check(1243, &numbers(&mut other, &["EXECUTE nothing"]).await);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn settings(server: &MariaDbServer, user: &str) -> SqlSettings {
    SqlSettings {
        user: Some(user.to_owned()),
        password: Some(Secret::new("few")),
        ..SqlSettings::new(server.url().parse().unwrap())
    }
}

/// Logins that only an administrator can mend. The text names the way out.
#[tokio::test]
async fn a_login_that_only_an_administrator_can_mend_is_told_as_that() {
    let args = [
        "--max-password-errors=1",
        "--disconnect-on-expired-password=1",
    ];
    let server = MariaDbServer::start(MariaDbOptions {
        args: args.map(str::to_owned).to_vec(),
        ..MariaDbOptions::default()
    })
    .await
    .unwrap();
    let cases = [
        ("wrong", "IDENTIFIED BY 'other'", 1045, "sql.password"),
        (
            "locked",
            "IDENTIFIED BY 'few' ACCOUNT LOCK",
            4151,
            "ACCOUNT UNLOCK",
        ),
        (
            "expired",
            "IDENTIFIED BY 'few' PASSWORD EXPIRE",
            1862,
            "has expired",
        ),
        (
            "queries",
            "IDENTIFIED BY 'few' WITH MAX_QUERIES_PER_HOUR 1",
            1226,
            "ALTER USER",
        ),
        ("stranger", "IDENTIFIED BY 'few'", 1044, "grants"),
    ];
    for (user, how, expected, words) in cases {
        let grant = match user {
            "stranger" => String::new(),
            _ => format!("GRANT ALL ON storage.* TO {user}@'%'"),
        };
        server
            .sql(&format!("CREATE USER {user}@'%' {how}; {grant}"))
            .await
            .unwrap();
        let error = open(&settings(&server, user)).await.unwrap_err();
        assert_eq!(error.kind, ColdKind::Operator, "{user}: {error}");
        assert!(
            error.message.contains(&format!("error {expected}: ")) && error.message.contains(words),
            "{user}: {error}"
        );
    }
    // The server locks an account itself after wrong passwords.
    let blocked = open(&settings(&server, "wrong")).await.unwrap_err();
    assert!(blocked.message.contains("error 4150"), "{blocked}");
    assert_eq!(blocked.kind, ColdKind::Operator);
    // Others may give their connections back.
    server
        .sql("CREATE USER one@'%' IDENTIFIED BY 'few' WITH MAX_USER_CONNECTIONS 1; GRANT ALL ON storage.* TO one@'%'")
        .await
        .unwrap();
    let url = server.url().replace("storage:secret", "one:few");
    let _held = MySqlConnection::connect(&url).await.unwrap();
    let store = open(&settings(&server, "one")).await.unwrap();
    let full = store.pairing().await.unwrap_err();
    assert!(full.message.contains("max_user_connections"), "{full}");
    assert_eq!(full.kind, ColdKind::Unwell);
}
