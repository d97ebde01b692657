//! The service beside a bare server of gRPC that answers with as many bytes, in one run.
//!
//! Servers are processes of their own, and the load comes from this one. Both sides use tonic with the same windows.
//!
//! | module | concept |
//! | --- | --- |
//! | [`cases`] | the comparisons |
//! | [`blobs`] | a service whose values cost nothing |
//! | [`echo`] | the bare server, and its client |
//! | [`servers`] | the roles of servers, and their processes |

pub mod blobs;
pub mod cases;
pub mod echo;
pub mod servers;

use storage_tests::bench::Suite;
use storage_tests::bench::suite::Paper;

/// The cases of the layer.
pub const SHARD_READ: Suite = Suite {
    command: "cargo run --release -p shard-read-trials --bin shard_read_bench --",
    cases: cases::all,
    page: Paper {
        file: "benchmarks-shard-read.md",
        title: "# Benchmarks of the sharded read service",
        cpu: "CPU of client, servers of the service or bare ones, Redis and database",
        parts: "Clients and servers",
        limits_title: "## Where the limit of the service is",
        limits: include_str!("limits.md"),
    },
    charts: false,
};
