//! Cross-crate suites, fault injection and oracle.
