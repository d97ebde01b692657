//! The integration tests: one binary of modules.
