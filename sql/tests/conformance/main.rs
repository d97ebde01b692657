//! The suite over all engines, and the tests that need a MySQL server.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod backend;
mod mysql_server;
mod places;
mod settings;

storage_sql::conformance_cases!(mysql, crate::backend::mysql);
storage_sql::conformance_cases!(sqlite_file, crate::backend::sqlite_file);
storage_sql::conformance_cases!(sqlite_memory, crate::backend::sqlite_memory);
