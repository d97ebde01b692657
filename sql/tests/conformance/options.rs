//! The errors for unusable settings and schemas.

use storage_sql::{ColdKind, ColdOptions, open};

#[tokio::test]
async fn impossible_urls_are_settings_errors_that_show_no_password() {
    for url in [
        "postgres://ann:secret@host/db",
        "nothing",
        "mysql://ann:secret@host",
        "mysql://ann:secret@host:port/db",
        "sqlite:",
    ] {
        let error = open(&ColdOptions::new(url)).await.unwrap_err();
        assert_eq!(error.kind, ColdKind::Settings, "{url}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
