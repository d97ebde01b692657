//! Settings that no database is opened with.

use std::time::Duration;

use storage_config::{ColdUrl, SqlSettings};
use storage_sql::{ColdKind, open};

/// A change that makes settings invalid.
type Change = fn(&mut SqlSettings);

#[tokio::test]
async fn values_that_are_not_allowed_are_refused_by_name() {
    let changes: [(&str, Change); 4] = [
        ("sql.table", |sql| sql.table = "a`; DROP".into()),
        ("sql.connections", |sql| sql.connections = 0),
        ("sql.statement_timeout", |sql| {
            sql.statement_timeout = Duration::ZERO;
        }),
        ("sql.user", |sql| {
            sql.url = "mysql://:secret@host/db".parse().unwrap();
        }),
    ];
    for (key, change) in changes {
        let mut settings = SqlSettings::new(ColdUrl::SqliteMemory);
        change(&mut settings);
        let error = open(&settings).await.unwrap_err();
        assert_eq!(error.kind, ColdKind::Settings, "{key}");
        let text = error.to_string();
        assert!(text.contains(key) && !text.contains("secret"), "{text}");
    }
}
