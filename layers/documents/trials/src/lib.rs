//! Torture, crash points and benchmarks of documents over HTTP.
