//! A short run of torture on each topology. `scripts/long` and the binary run longer.

use std::path::Path;

use anyhow::Result;
use storage_tests::size;
use storage_tests::torture::args::{Args, Topology};
use storage_tests::torture::report::Report;
use storage_tests::torture::run;

/// The parts that die in a run of kills alone, each again and again.
const KILLS: &str = "worker-kill,game-kill,redis-kill,db-kill";

fn all(topology: Topology, seconds: u64) -> Args {
    Args {
        seed: 1,
        seconds,
        faults: "all".to_owned(),
        seldom: false,
        topology,
        json: None,
        keep: None,
    }
}

async fn torture(args: Args) -> Result<Report> {
    let report = run(&args, Path::new(env!("CARGO_BIN_EXE_torture"))).await?;
    println!("{report}");
    assert!(report.is_good(), "see above");
    assert!(report.operations.acknowledged > 0, "nothing was played");
    Ok(report)
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_everywhere_lose_nothing_on_one_server() -> Result<()> {
    let report = torture(all(Topology::Single, size(6, 25))).await?;
    assert!(
        report.cells() >= size(20, 72),
        "only {} pairs of a fault and the work under way",
        report.cells()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_everywhere_lose_nothing_on_a_cluster() -> Result<()> {
    torture(all(Topology::Cluster, size(7, 12))).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_everywhere_lose_nothing_that_had_landed_in_the_embedded_mode() -> Result<()> {
    torture(all(Topology::Embedded, size(5, 8))).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_are_killed_again_and_again_lose_nothing() -> Result<()> {
    let report = torture(Args {
        faults: KILLS.to_owned(),
        seldom: true,
        ..all(Topology::Single, size(10, 75))
    })
    .await?;
    assert!(
        report.kills() >= size(8, 48),
        "only {} kills",
        report.kills()
    );
    let acknowledged = report.operations.acknowledged;
    assert!(
        acknowledged >= size(1_000, 15_000),
        "only {acknowledged} writes were acknowledged"
    );
    Ok(())
}
