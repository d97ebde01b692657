//! Benchmarks of the sharded read service.

pub mod bench;
