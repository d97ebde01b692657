//! A set of cases, and the page of their results.

use super::case::Case;
use super::cases;

/// The cases of a program, and its page.
#[derive(Debug, Clone, Copy)]
pub struct Suite {
    /// The command that runs it, without options.
    pub command: &'static str,
    /// All cases, in the order of the table.
    pub cases: fn() -> Vec<Box<dyn Case>>,
    /// The page.
    pub page: Paper,
    /// Whether the page also has charts and the cost of single commands.
    pub charts: bool,
}

/// The fixed parts of a page.
#[derive(Debug, Clone, Copy)]
pub struct Paper {
    /// The name of the file in the folder `docs`.
    pub file: &'static str,
    /// The title, with its mark of a heading.
    pub title: &'static str,
    /// The parts of the columns of CPU time.
    pub cpu: &'static str,
    /// The parts that share the machine.
    pub parts: &'static str,
    /// The title of the handwritten part, with its mark of a heading.
    pub limits_title: &'static str,
    /// The handwritten part.
    pub limits: &'static str,
}

/// The cases of the storage itself.
pub const STORAGE: Suite = Suite {
    command: "cargo run --release -p storage-tests --bin bench --",
    cases: cases::all,
    page: Paper {
        file: "benchmarks.md",
        title: "# Benchmarks",
        cpu: "CPU of client, Redis and database",
        parts: "Client, servers and workers",
        limits_title: "## What was tried, and where the limit is",
        limits: include_str!("limits.md"),
    },
    charts: true,
};
