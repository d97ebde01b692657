//! A short run with clients that do harm. The program `documents_edge` and `scripts/torture` run longer.

use std::path::Path;

use anyhow::Result;
use document_trials::edge::args::Args;
use document_trials::edge::run;
use storage_tests::size;

#[tokio::test(flavor = "multi_thread")]
async fn slow_silent_and_vanishing_clients_keep_nobody_else_from_being_served() -> Result<()> {
    let args = Args {
        seed: 1,
        seconds: size(3, 30),
        clients: size(400, 4_000),
        connections: size(64, 400),
        memory: 1_024,
    };
    let report = run(&args, Path::new(env!("CARGO_BIN_EXE_documents_edge"))).await?;
    println!("{report}");
    assert!(report.is_good(), "see above");
    Ok(())
}
