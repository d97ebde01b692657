//! Settings that no database is opened with.

use std::time::Duration;

use storage_config::{ColdUrl, SqlSettings};
use storage_sql::{ColdKind, open};

/// An error that names the key, without the password.
async fn refused(key: &str, change: impl FnOnce(&mut SqlSettings)) {
    let mut settings = SqlSettings::new(ColdUrl::SqliteMemory);
    change(&mut settings);
    let error = open(&settings).await.unwrap_err();
    assert_eq!(error.kind, ColdKind::Settings, "{key}");
    let text = error.to_string();
    assert!(text.contains(key) && !text.contains("secret"), "{text}");
}

#[tokio::test]
async fn values_that_are_not_allowed_are_refused_by_name() {
    refused("sql.table", |sql| sql.table = "a`; DROP".into()).await;
    refused("sql.connections", |sql| sql.connections = 0).await;
    let no_time = |sql: &mut SqlSettings| sql.statement_timeout = Duration::ZERO;
    refused("sql.statement_timeout", no_time).await;
    let no_user = |sql: &mut SqlSettings| sql.url = "mysql://:secret@host/db".parse().unwrap();
    refused("sql.url", no_user).await;
}
