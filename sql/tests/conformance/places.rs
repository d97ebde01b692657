//! The place of a database, and the settings of its servers. Each error names the place and the way
//! out. Only a fault that passes by itself counts as an outage.

use std::path::Path;

use storage_config::{ColdUrl, Secret, SqlSettings, TlsMode};
use storage_model::{Epoch, Partition, Row};
use storage_servers::{MariaDbOptions, MariaDbServer, RedisOptions, RedisServer};
use storage_sql::conformance::{land_on, live, owner};
use storage_sql::{ColdError, ColdKind, LandError, Raise, open};

use crate::backend::mysql;

async fn server_with(args: Vec<String>) -> MariaDbServer {
    MariaDbServer::start(MariaDbOptions {
        args,
        ..MariaDbOptions::default()
    })
    .await
    .unwrap()
}

/// The URL without user and password.
fn place(url: &str) -> &str {
    url.rsplit_once('@').or(url.split_once("://")).unwrap().1
}

fn at(url: &str) -> SqlSettings {
    SqlSettings::new(url.parse().unwrap())
}

async fn refused(settings: &SqlSettings, kind: ColdKind) -> ColdError {
    let error = open(settings).await.unwrap_err();
    assert_eq!(error.kind, kind, "{error}");
    error
}

fn gold(version: u64) -> Vec<Row> {
    vec![live(&owner("ann"), "gold", "1", version)]
}

#[tokio::test]
async fn an_error_of_the_database_names_its_address_and_the_way_out() {
    let url = mysql().await.url();
    let wrong = at(&url).with(|sql| sql.password = Some(Secret::new("hunter2")));
    let error = refused(&wrong, ColdKind::Operator).await.to_string();
    assert!(
        error.contains(place(&url)) && error.contains("sql.password") && !error.contains("hunter2"),
        "{error}"
    );

    let (server, _) = url.rsplit_once('/').unwrap();
    let missing = format!("{server}/nowhere");
    let error = refused(&at(&missing), ColdKind::Operator).await.to_string();
    assert!(
        error.contains(place(&missing)) && error.contains("create it"),
        "{error}"
    );

    let away = open(&at("mysql://ann:hunter2@127.0.0.1:1/game"))
        .await
        .unwrap();
    let told = [
        away.rows
            .load(&[owner("ann")], 9)
            .await
            .unwrap_err()
            .to_string(),
        match land_on(&away, 0, gold(1)).await {
            Err(LandError::Cold(error)) => error.to_string(),
            other => panic!("{other:?}"),
        },
    ];
    for error in told {
        assert!(
            error.contains("127.0.0.1:1/game: ")
                && !error.contains("hunter2")
                && !error.contains("ann"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_certificate_that_can_never_be_right_is_for_an_operator_and_a_broken_handshake_is_an_outage()
 {
    let redis = RedisServer::start(RedisOptions {
        tls: true,
        ..RedisOptions::default()
    })
    .await
    .unwrap();
    let folder = redis.ca_pem().unwrap().parent().unwrap().to_owned();
    let file = |option: &str, name: &str| format!("--{option}={}", folder.join(name).display());
    let args = vec![
        file("ssl-ca", "ca.pem"),
        file("ssl-cert", "server.pem"),
        file("ssl-key", "server.key"),
    ];
    let server = server_with(args).await;
    let settings = |tls, ca_file: Option<&Path>| {
        at(&server.url()).with(|sql| {
            sql.tls = tls;
            sql.tls_ca_file = ca_file.map(Path::to_owned);
        })
    };
    open(&settings(TlsMode::Required, None)).await.unwrap();
    open(&settings(TlsMode::VerifyCa, redis.ca_pem()))
        .await
        .unwrap();
    let error = refused(&settings(TlsMode::VerifyCa, None), ColdKind::Operator)
        .await
        .to_string();
    assert!(
        error.contains("TLS")
            && error.contains("sql.tls_ca_file")
            && error.contains(place(&server.url())),
        "{error}"
    );

    server
        .sql("CREATE USER bearer@'%' IDENTIFIED BY 'b' REQUIRE X509; GRANT ALL ON storage.* TO bearer@'%'")
        .await
        .unwrap();
    let bearer = |certificate: Option<&str>| {
        settings(TlsMode::VerifyCa, redis.ca_pem()).with(|sql| {
            if let ColdUrl::Mysql { login, .. } = &mut sql.url {
                login.user = Some("bearer".into());
            }
            sql.password = Some(Secret::new("b"));
            sql.tls_cert_file = certificate.map(|name| folder.join(name));
            sql.tls_key_file = certificate.map(|_| folder.join("server.key"));
        })
    };
    open(&bearer(Some("server.pem"))).await.unwrap();
    refused(&bearer(None), ColdKind::Operator).await;

    let plain = server_with(vec!["--skip-ssl".into()]).await;
    let error = refused(
        &at(&plain.url()).with(|sql| sql.tls = TlsMode::Required),
        ColdKind::Operator,
    )
    .await;
    assert!(error.message.contains("TLS"), "{error}");

    // Takes each connection and closes it in the middle of the handshake.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            drop(stream)
        }
    });
    let url = format!("mysql://ann@127.0.0.1:{port}/game");
    let store = open(&at(&url).with(|sql| sql.tls = TlsMode::VerifyCa))
        .await
        .unwrap();
    assert_eq!(
        store.rows.load(&[owner("ann")], 9).await.unwrap_err().kind,
        ColdKind::Unwell
    );
}

/// A server may end the connection after each commit, begin another transaction, or begin each one
/// read-only.
#[tokio::test]
async fn what_a_server_sets_for_new_sessions_changes_no_call() {
    let server = server_with(Vec::new()).await;
    for (number, set) in (0_u32..).zip([
        "completion_type = 2",
        "completion_type = 1",
        "tx_read_only = 1",
        "autocommit = 0",
    ]) {
        server.sql(&format!("SET GLOBAL {set}")).await.unwrap();
        let store = open(&at(&server.url()).with(|sql| sql.connections = 1))
            .await
            .unwrap();
        let (partition, owner) = (Partition(number), owner(&number.to_string()));
        store
            .partitions
            .raise(&[Raise::by_one(partition, Epoch(0))])
            .await
            .unwrap();
        for version in 1..6 {
            let rows = vec![live(&owner, "gold", "1", version)];
            land_on(&store, number, rows.clone())
                .await
                .unwrap_or_else(|error| panic!("{set}: {error}"));
            assert_eq!(
                store
                    .rows
                    .load(std::slice::from_ref(&owner), 9)
                    .await
                    .unwrap()[0]
                    .rows,
                rows,
                "{set}"
            );
        }
    }
}

#[tokio::test]
async fn a_server_that_prepares_no_statement_is_for_an_operator() {
    let server = server_with(vec!["--max-prepared-stmt-count=0".into()]).await;
    let error = refused(&at(&server.url()), ColdKind::Operator).await;
    assert!(
        error.message.contains("raise max_prepared_stmt_count"),
        "{error}"
    );
}

#[tokio::test]
async fn a_file_in_no_folder_is_a_settings_error_that_names_both() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    let file = inner.join("game.db");
    let settings = SqlSettings::new(ColdUrl::SqliteFile(file.clone()));
    let error = refused(&settings, ColdKind::Settings).await.to_string();
    assert!(
        error.contains(&file.display().to_string()) && error.contains("does not exist: make it"),
        "{error}"
    );

    std::fs::create_dir(&inner).unwrap();
    let store = open(&settings.with(|sql| sql.connections = 2))
        .await
        .unwrap();
    store.database.close().await;
    let error = refused(
        &SqlSettings::new(ColdUrl::SqliteFile(inner.clone())),
        ColdKind::Settings,
    )
    .await
    .to_string();
    assert!(error.contains("it is a folder"), "{error}");
}
