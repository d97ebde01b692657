//! The layer beside bare handlers of the same work, in one run.
//!
//! Gateways and bare handlers are processes of their own, and the load comes from this one. So both
//! sides are alike, and CPU time of client and server are apart.
//!
//! | module | concept |
//! | --- | --- |
//! | [`cases`] | the comparisons |
//! | [`bare`] | the role of bare handlers |
//! | [`served`] | a gateway or bare handlers as a process, seen from the client |
//! | [`http`], [`requests`] | a client that costs little, and many of them at work |
//! | [`feed`] | a client of the live feed |
//! | [`body`] | bodies of documents |

pub mod bare;
pub mod body;
pub mod cases;
pub mod feed;
pub mod http;
pub mod requests;
pub mod served;

use storage_tests::bench::Suite;
use storage_tests::bench::suite::Paper;

/// The cases of the layer.
pub const DOCUMENTS: Suite = Suite {
    command: "cargo run --release -p document-trials --bin documents_bench --",
    cases: cases::all,
    page: Paper {
        file: "benchmarks-documents.md",
        title: "# Benchmarks of documents",
        cpu: "CPU of client, gateway or bare handler, Redis and database",
        parts: "Client, gateway and servers",
        limits_title: "## Where the limit of documents is",
        limits: include_str!("limits.md"),
    },
    charts: false,
};
