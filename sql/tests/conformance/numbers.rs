//! The numbers of a server's errors.

use std::collections::BTreeMap;

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlDatabaseError};
use sqlx::{AssertSqlSafe, Connection as _, Error};
use storage_config::{ColdUrl, Secret, SqlSettings};
use storage_servers::{MariaDbOptions, MariaDbServer};
use storage_sql::{ColdKind, open};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

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
    CREATE TABLE halves (id INT) PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (5), PARTITION q VALUES LESS THAN (9)); \
    CREATE TABLE kinds (d DATE, e ENUM('a'), s VARCHAR(9) CHARACTER SET latin1); \
    CREATE TABLE own (id INT); \
    CREATE DEFINER = 'nobody'@'%' TRIGGER own BEFORE INSERT ON own FOR EACH ROW SET @a = 1; \
    CREATE TABLE up (id INT, k INT, PRIMARY KEY (id, k)) ENGINE = InnoDB; \
    CREATE TABLE down (id INT, k INT, UNIQUE (id), FOREIGN KEY (id, k) REFERENCES up (id, k) ON UPDATE CASCADE) ENGINE = InnoDB; \
    INSERT INTO up VALUES (1, 1), (2, 2); \
    INSERT INTO down VALUES (1, 1), (2, 2); \
    CREATE TABLE longs SELECT REPEAT(seq, 1000) v FROM seq_1_to_100; \
    CREATE PROCEDURE deep() CALL deep(); \
    CREATE TABLE space (id INT) ENGINE = InnoDB; \
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
    let cases: [(u16, &[&str]); 67] = [
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
        (1317, &["KILL QUERY CONNECTION_ID()"]),
        (1049, &["USE nothing"]),
        (1449, &["INSERT INTO own VALUES (1)"]),
        (
            1390,
            &["EXECUTE IMMEDIATE CONCAT('SELECT ?', REPEAT(', ?', 65536))"],
        ),
        (1071, &["CREATE TABLE x (v VARBINARY(4000) PRIMARY KEY)"]),
        (
            1267,
            &["SELECT _utf8mb4'a' COLLATE utf8mb4_bin = _utf8mb4'b' COLLATE utf8mb4_general_ci"],
        ),
        (
            1270,
            &[
                "SELECT REPLACE(_utf8mb4'a' COLLATE utf8mb4_bin, _utf8mb4'b' COLLATE utf8mb4_general_ci, _utf8mb4'c' COLLATE utf8mb4_unicode_ci)",
            ],
        ),
        (
            1271,
            &[
                "SELECT CONCAT(_utf8mb4'a' COLLATE utf8mb4_bin, _utf8mb4'b' COLLATE utf8mb4_general_ci, 'c', 'd')",
            ],
        ),
        (1292, &["INSERT INTO kinds (d) VALUES ('2020-13-45')"]),
        (1265, &["INSERT INTO kinds (e) VALUES ('b')"]),
        (1300, &["SELECT _utf8mb4 x'ff'"]),
        (
            1411,
            &["INSERT INTO kinds (d) VALUES (STR_TO_DATE('a', '%Y'))"],
        ),
        (1367, &["SELECT 1e1000"]),
        (
            1977,
            &["INSERT INTO kinds (s) VALUES (CONVERT(_utf8mb4 x'e38182' USING latin1))"],
        ),
        (
            1301,
            &["INSERT INTO kinds (s) VALUES (REPEAT('a', 1 + @@max_allowed_packet))"],
        ),
        (
            1118,
            &[
                "SET SESSION innodb_strict_mode = 0",
                "CREATE TABLE wide (a BLOB, b BLOB, c BLOB, d BLOB, e BLOB, f BLOB, g BLOB, h BLOB, i BLOB, j BLOB, k BLOB) ENGINE = InnoDB ROW_FORMAT = COMPACT",
                "SET SESSION innodb_strict_mode = 1, @v = REPEAT('a', 4000)",
                "INSERT INTO wide VALUES (@v, @v, @v, @v, @v, @v, @v, @v, @v, @v, @v)",
            ],
        ),
        (1748, &["INSERT INTO halves PARTITION (p) VALUES (7)"]),
        (1761, &["UPDATE up SET id = 2 WHERE id = 1"]),
        (1067, &["CREATE TABLE x (id INT DEFAULT 'a')"]),
        (1109, &["DELETE nothing FROM t"]),
        (
            1192,
            &[
                "LOCK TABLES t READ",
                "FLUSH TABLES WITH READ LOCK",
                "UNLOCK TABLES",
            ],
        ),
        (
            1235,
            &["SELECT * FROM t WHERE id IN (SELECT id FROM t LIMIT 1)"],
        ),
        (1238, &["SET GLOBAL version = '1'"]),
        (1295, &["PREPARE one FROM 'PREPARE two FROM \"SELECT 1\"'"]),
        (
            1005,
            &["CREATE TABLE x (id INT, FOREIGN KEY (id) REFERENCES nothing (id)) ENGINE = InnoDB"],
        ),
        (
            1038,
            &[
                "SET SESSION sort_buffer_size = 1024",
                "SELECT v FROM longs ORDER BY v LIMIT 1",
                "SET SESSION sort_buffer_size = DEFAULT",
            ],
        ),
        (
            1436,
            &["SET SESSION max_sp_recursion_depth = 255", "CALL deep()"],
        ),
        (
            4047,
            &[
                "CREATE TABLE pressed (id INT) ENGINE = InnoDB ROW_FORMAT = COMPRESSED",
                "SET GLOBAL innodb_read_only_compressed = 1",
                "INSERT INTO pressed VALUES (1)",
            ],
        ),
        (1813, &["ALTER TABLE space IMPORT TABLESPACE"]),
        (
            1814,
            &[
                "ALTER TABLE space DISCARD TABLESPACE",
                "SELECT * FROM space",
            ],
        ),
        (1030, &["ALTER TABLE space IMPORT TABLESPACE"]),
        // Each column has an index, so all its old values go to the undo log.
        (
            1713,
            &[
                "SELECT CONCAT('CREATE TABLE undone (', GROUP_CONCAT('c', seq, ' BLOB, INDEX (c', seq, '(767))'), ') ENGINE = InnoDB ROW_FORMAT = DYNAMIC') INTO @s FROM seq_1_to_21",
                "EXECUTE IMMEDIATE @s",
                "SELECT CONCAT('INSERT INTO undone VALUES (', GROUP_CONCAT('REPEAT(1, 767)'), ')') INTO @s FROM seq_1_to_21",
                "EXECUTE IMMEDIATE @s",
                "SELECT CONCAT('UPDATE undone SET ', GROUP_CONCAT('c', seq, ' = REPEAT(2, 767)')) INTO @s FROM seq_1_to_21",
                "EXECUTE IMMEDIATE @s",
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
    let mut url = server.url().parse().unwrap();
    if let ColdUrl::Mysql { login, .. } = &mut url {
        login.user = Some(user.to_owned());
    }
    SqlSettings::new(url).with(|sql| sql.password = Some(Secret::new("few")))
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
            "encrypted",
            "IDENTIFIED BY 'few' REQUIRE SSL",
            1045,
            "sql.tls",
        ),
        ("local", "IDENTIFIED VIA unix_socket", 1698, "sql.password"),
        (
            "old",
            "IDENTIFIED VIA mysql_old_password USING '0123456789abcdef'",
            1275,
            "sql.password",
        ),
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
    // A plugin that the server does not have, a password that is old but lets the user in, and no such database.
    server
        .sql(
            "CREATE USER plugin@'%' IDENTIFIED BY 'few'; \
            UPDATE mysql.global_priv SET Priv = JSON_SET(Priv, '$.plugin', 'nothing') WHERE User = 'plugin'; \
            FLUSH PRIVILEGES; \
            GRANT ALL ON *.* TO any@'%' IDENTIFIED BY 'few'; \
            SET GLOBAL disconnect_on_expired_password = 0",
        )
        .await
        .unwrap();
    let nowhere = settings(&server, "any").with(|sql| {
        if let ColdUrl::Mysql { database, .. } = &mut sql.url {
            *database = "nothing".to_owned();
        }
    });
    let cases = [
        (settings(&server, "plugin"), 1524, "sql.password"),
        (settings(&server, "expired"), 1820, "has expired"),
        (nowhere, 1049, "create the database"),
    ];
    for (settings, expected, words) in cases {
        let error = open(&settings).await.unwrap_err();
        assert_eq!(error.kind, ColdKind::Operator, "{error}");
        assert!(
            error.message.contains(&format!("error {expected}: ")) && error.message.contains(words),
            "{error}"
        );
    }
    // Without TLS it says only that the user is rejected.
    let tls = async |wanted: u8| {
        let set = format!("SET GLOBAL require_secure_transport = {wanted}");
        server.sql(&set).await.unwrap();
    };
    tls(1).await;
    let error = open(&settings(&server, "any")).await.unwrap_err();
    assert_eq!(error.kind, ColdKind::Operator, "{error}");
    assert!(
        error.message.contains("error 1045: ") && error.message.contains("sql.tls"),
        "{error}"
    );
    tls(0).await;
    // Others may give their connections back.
    server
        .sql("CREATE USER one@'%' IDENTIFIED BY 'few' WITH MAX_USER_CONNECTIONS 1; GRANT ALL ON storage.* TO one@'%'")
        .await
        .unwrap();
    let url = server.url().replace("storage:secret", "one:few");
    let _held = MySqlConnection::connect(&url).await.unwrap();
    let store = open(&settings(&server, "one")).await.unwrap();
    let full = store.database.pairing().await.unwrap_err();
    assert!(full.message.contains("max_user_connections"), "{full}");
    assert_eq!(full.kind, ColdKind::Unwell);
}

/// A server with these arguments, and a connection of root to it.
async fn with_root(args: &[&str]) -> (MariaDbServer, MySqlConnection) {
    let server = MariaDbServer::start(MariaDbOptions {
        args: args.iter().map(|&arg| arg.to_owned()).collect(),
        ..MariaDbOptions::default()
    })
    .await
    .unwrap();
    let options = MySqlConnectOptions::new().socket(server.socket());
    let options = options.username("root").database("storage");
    let root = MySqlConnection::connect_with(&options).await.unwrap();
    (server, root)
}

async fn succeed(connection: &mut MySqlConnection, statements: &[&str]) {
    for statement in statements {
        assert_eq!(numbers(connection, &[statement]).await, [], "{statement}");
    }
}

/// The statement fails with this number, and the chapter has it.
async fn fails(connection: &mut MySqlConnection, statement: &str, number: u16) {
    let failed = numbers(connection, &[statement]).await;
    assert_eq!(failed, [number], "{statement}");
    assert!(in_the_chapter().contains_key(&number), "{number}");
}

#[tokio::test]
async fn the_numbers_of_transactions_that_stand_in_each_others_way_are_in_the_table() {
    let (server, mut one) = with_root(&["--innodb-rollback-on-timeout=1"]).await;
    let mut other = MySqlConnection::connect(&server.url()).await.unwrap();
    let first = "UPDATE t SET n = n + 1 WHERE id = 1";
    let second = "UPDATE t SET n = n + 1 WHERE id = 2";
    succeed(
        &mut one,
        &[
            "CREATE TABLE t (id INT PRIMARY KEY, n INT) ENGINE = InnoDB",
            "INSERT INTO t VALUES (1, 0), (2, 0)",
        ],
    )
    .await;
    // Each waits for the row of the other one. The server ends one of them, whichever it is.
    let waits = [second, first];
    for begins in [["BEGIN", "BEGIN"], ["XA START 'a'", "XA START 'b'"]] {
        succeed(&mut one, &[begins[0], first]).await;
        succeed(&mut other, &[begins[1], second]).await;
        let (mine, others) = tokio::join!(
            numbers(&mut one, &waits[..1]),
            numbers(&mut other, &waits[1..])
        );
        assert_eq!([mine.as_slice(), &others].concat(), [1213]);
        if begins[0] == "BEGIN" {
            succeed(&mut one, &["ROLLBACK"]).await;
            succeed(&mut other, &["ROLLBACK"]).await;
        } else if others.is_empty() {
            fails(&mut one, "XA COMMIT 'a'", 1614).await;
            succeed(&mut other, &["XA END 'b'", "XA ROLLBACK 'b'"]).await;
        } else {
            fails(&mut other, "XA COMMIT 'b'", 1614).await;
            succeed(&mut one, &["XA END 'a'", "XA ROLLBACK 'a'"]).await;
        }
    }
    // The row has changed since this transaction looked at it.
    let snapshot = "SET SESSION innodb_snapshot_isolation = 1";
    for begin in ["BEGIN", "XA START 'c'"] {
        succeed(&mut one, &[snapshot, begin, "SELECT * FROM t"]).await;
        succeed(&mut other, &[first]).await;
        fails(&mut one, first, 1020).await;
        if begin == "BEGIN" {
            succeed(&mut one, &["ROLLBACK"]).await;
        } else {
            fails(&mut one, "XA COMMIT 'c'", 1402).await;
        }
    }
    // And so has the table.
    let look = "START TRANSACTION WITH CONSISTENT SNAPSHOT";
    succeed(
        &mut one,
        &["SET SESSION innodb_snapshot_isolation = 0", look],
    )
    .await;
    let change = "ALTER TABLE t ADD COLUMN m INT, ALGORITHM = COPY";
    succeed(&mut other, &[change]).await;
    fails(&mut one, "SELECT * FROM t", 1412).await;
    // A wait that ends the whole transaction.
    succeed(&mut one, &["ROLLBACK", "BEGIN", first]).await;
    let soon = "SET SESSION innodb_lock_wait_timeout = 1";
    succeed(&mut other, &[soon, "XA START 'd'"]).await;
    fails(&mut other, first, 1205).await;
    fails(&mut other, "XA COMMIT 'd'", 1613).await;
    fails(&mut other, "KILL CONNECTION CONNECTION_ID()", 1927).await;
}

#[tokio::test]
async fn the_numbers_of_missing_rights_are_in_the_table() {
    let (server, mut root) = with_root(&[]).await;
    succeed(
        &mut root,
        &[
            "CREATE TABLE t (id INT, v INT)",
            "CREATE PROCEDURE own() SELECT 1",
            "CREATE USER few@'%' IDENTIFIED BY 'few'",
            "GRANT SELECT (id) ON storage.t TO few@'%'",
        ],
    )
    .await;
    let url = server.url().replace("storage:secret", "few:few");
    let mut few = MySqlConnection::connect(&url).await.unwrap();
    fails(&mut few, "SELECT v FROM t", 1143).await;
    fails(&mut few, "DELETE FROM t", 1142).await;
    fails(&mut few, "CALL own()", 1370).await;
    let none = url.strip_suffix("/storage").unwrap();
    let mut few = MySqlConnection::connect(none).await.unwrap();
    fails(&mut few, "SELECT id FROM t", 1046).await;
}

#[tokio::test]
async fn the_numbers_of_a_servers_replication_are_in_the_table() {
    let (server, mut root) = with_root(&[
        "--log-bin=changes",
        "--max-binlog-cache-size=4096",
        "--max-binlog-stmt-cache-size=4096",
        "--binlog-cache-size=4096",
        "--binlog-stmt-cache-size=4096",
    ])
    .await;
    succeed(
        &mut root,
        &[
            "CREATE TABLE t (id INT PRIMARY KEY) ENGINE = InnoDB",
            "CREATE TABLE simple (v VARCHAR(2000)) ENGINE = MyISAM",
            "SET SESSION binlog_format = ROW",
        ],
    )
    .await;
    fails(
        &mut root,
        "CREATE FUNCTION any() RETURNS INT RETURN RAND()",
        1418,
    )
    .await;
    fails(
        &mut root,
        "INSERT INTO t SELECT seq FROM seq_1_to_5000",
        1197,
    )
    .await;
    fails(
        &mut root,
        "INSERT INTO simple SELECT REPEAT('a', 2000) FROM seq_1_to_50",
        1705,
    )
    .await;
    succeed(
        &mut root,
        &[
            "SET SESSION binlog_format = STATEMENT",
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        ],
    )
    .await;
    fails(&mut root, "INSERT INTO t VALUES (1)", 1665).await;
    let mut other = MySqlConnection::connect(&server.url()).await.unwrap();
    let trigger = "CREATE TRIGGER own BEFORE INSERT ON t FOR EACH ROW SET @a = 1";
    fails(&mut other, trigger, 1419).await;
}

/// Files that another program has removed or written over.
#[tokio::test]
async fn the_numbers_of_a_servers_files_are_in_the_table() {
    let (server, mut root) = with_root(&["--myisam-recover-options=OFF"]).await;
    let tables = ["no_rows", "no_index", "no_definition", "only_defined"];
    for table in tables {
        let engine = match table {
            "only_defined" => "InnoDB",
            _ => "MyISAM",
        };
        let create = format!("CREATE TABLE {table} (id INT PRIMARY KEY) ENGINE = {engine}");
        succeed(&mut root, &[&create]).await;
    }
    succeed(&mut root, &["FLUSH TABLES"]).await;
    let folder = server.folder().join("data/storage");
    std::fs::remove_file(folder.join("no_rows.MYD")).unwrap();
    std::fs::remove_file(folder.join("no_index.MYI")).unwrap();
    std::fs::write(folder.join("no_definition.frm"), [b'a'; 99]).unwrap();
    let [defined, copied] = ["only_defined.frm", "copied.frm"].map(|name| folder.join(name));
    std::fs::copy(defined, copied).unwrap();
    fails(&mut root, "SELECT * FROM no_rows", 29).await;
    fails(&mut root, "SELECT * FROM no_index", 1017).await;
    fails(&mut root, "SELECT * FROM no_definition", 1033).await;
    fails(&mut root, "SELECT * FROM copied", 1932).await;
    let missing = folder.join("nothing");
    let load = format!(
        "LOAD DATA INFILE '{}' INTO TABLE only_defined",
        missing.display()
    );
    fails(&mut root, &load, 13).await;
}

/// A server that takes no writes from its start.
#[tokio::test]
async fn the_number_of_a_table_that_takes_no_writes_is_in_the_table() {
    let (_server, mut root) = with_root(&["--innodb-read-only=1"]).await;
    fails(&mut root, "DELETE FROM mysql.innodb_table_stats", 1036).await;
}

/// A packet with its number in the sequence.
fn packet(sequence: u8, body: &[u8]) -> Vec<u8> {
    let [a, b, c, _] = u32::try_from(body.len()).unwrap().to_le_bytes();
    let mut bytes = vec![a, b, c, sequence];
    bytes.extend(body);
    bytes
}

async fn answer(stream: &mut TcpStream) -> Vec<u8> {
    let mut header = [0; 4];
    stream.read_exact(&mut header).await.unwrap();
    let [a, b, c, _] = header;
    let mut body = vec![0; u32::from_le_bytes([a, b, c, 0]) as usize];
    stream.read_exact(&mut body).await.unwrap();
    body
}

/// The number of the error that the server answers to the last of these packets. It answers each of them.
async fn number_after(server: &MariaDbServer, packets: &[Vec<u8>]) -> Option<u16> {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port()))
        .await
        .unwrap();
    // It greets first.
    let mut last = answer(&mut stream).await;
    for bytes in packets {
        stream.write_all(bytes).await.unwrap();
        last = answer(&mut stream).await;
    }
    match last.as_slice() {
        [0xff, low, high, ..] => Some(u16::from_le_bytes([*low, *high])),
        _ => None,
    }
}

#[tokio::test]
async fn the_numbers_of_packets_that_make_no_sense_are_in_the_table() {
    let (server, mut root) = with_root(&[]).await;
    succeed(
        &mut root,
        &[
            "CREATE USER open@'%'",
            "CREATE USER shut@'%' IDENTIFIED VIA unix_socket",
            // For new connections.
            "SET GLOBAL max_allowed_packet = 1024",
        ],
    )
    .await;
    let login = |flags: u32, rest: &[u8]| {
        let mut body = flags.to_le_bytes().to_vec();
        body.extend((1_u32 << 24).to_le_bytes());
        body.push(45);
        body.extend([0; 23]);
        body.extend(rest);
        packet(1, &body)
    };
    // Protocol 4.1, with and without the passwords of that protocol.
    let open = || login(0x8200, b"open\0\0");
    let old = login(0x0200, b"shut\0\0");
    let chapter = in_the_chapter();
    let cases = [
        (1043, vec![packet(1, b"a")]),
        (1156, vec![packet(7, b"a")]),
        (1251, vec![old]),
        (1047, vec![open(), packet(0, &[0x7f])]),
        (1835, vec![open(), packet(0, &[0x17])]),
        // The head of a packet of 16 MB tells its length.
        (1153, vec![open(), vec![0xfe, 0xff, 0xff, 0]]),
    ];
    for (expected, packets) in cases {
        let number = number_after(&server, &packets).await;
        assert_eq!(number, Some(expected));
        assert!(chapter.contains_key(&expected), "{expected}");
    }
}

#[tokio::test]
async fn a_server_without_a_connection_left_is_unwell_and_one_that_rejects_the_host_an_operators_matter()
 {
    let (server, mut root) = with_root(&["--max-user-connections=100"]).await;
    let settings = SqlSettings::new(server.url().parse().unwrap());
    let [some, one] = [
        "SET GLOBAL max_connections = 10",
        "SET GLOBAL max_connections = 100, max_user_connections = 1",
    ];
    let mut held = Vec::new();
    for (limit, expected) in [(some, 1040), (one, 1203)] {
        succeed(&mut root, &[limit]).await;
        let error = loop {
            match MySqlConnection::connect(&server.url()).await {
                Ok(connection) => held.push(connection),
                Err(error) => break error,
            }
        };
        assert_eq!(number(&error), expected);
        let store = open(&settings).await.unwrap();
        let full = store.database.pairing().await.unwrap_err();
        assert!(
            full.message.contains(&format!("error {expected}: ")),
            "{full}"
        );
        assert_eq!(full.kind, ColdKind::Unwell);
    }
    // Nobody may come from this host.
    succeed(
        &mut root,
        &["DELETE FROM mysql.global_priv", "FLUSH PRIVILEGES"],
    )
    .await;
    let rejected = open(&settings).await.unwrap_err();
    assert!(rejected.message.contains("error 1130: "), "{rejected}");
    assert_eq!(rejected.kind, ColdKind::Operator);
}
