//! A short run of torture on each topology: the same as the binary's, which runs for longer.

use std::path::Path;

use anyhow::Result;
use storage_tests::torture::args::{Args, Topology};
use storage_tests::torture::run;

async fn torture(topology: Topology, seed: u64, seconds: u64) -> Result<()> {
    let args = Args { seed, seconds, faults: "all".to_owned(), topology, json: None, keep: None };
    let report = run(&args, Path::new(env!("CARGO_BIN_EXE_torture"))).await?;
    println!("{report}");
    assert!(report.is_good(), "see above");
    assert!(report.operations.acknowledged > 0, "nothing was played");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_everywhere_lose_nothing_on_one_server() -> Result<()> {
    torture(Topology::Single, 1, 25).await
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_everywhere_lose_nothing_on_a_cluster() -> Result<()> {
    torture(Topology::Cluster, 1, 12).await
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_everywhere_lose_nothing_that_had_landed_in_the_embedded_mode() -> Result<()> {
    torture(Topology::Embedded, 1, 8).await
}
