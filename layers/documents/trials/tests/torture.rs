//! A short run of torture. The program `documents_torture` and `scripts/torture` run longer.

use std::path::Path;

use anyhow::Result;
use document_trials::torture::args::Args;
use document_trials::torture::run;
use storage_tests::size;

#[tokio::test(flavor = "multi_thread")]
async fn faults_everywhere_lose_and_double_no_change_of_a_document() -> Result<()> {
    let args = Args {
        seed: 1,
        seconds: size(6, 20),
        faults: "all".to_owned(),
        keep: None,
    };
    let report = run(&args, Path::new(env!("CARGO_BIN_EXE_documents_torture"))).await?;
    println!("{report}");
    assert!(report.is_good(), "see above");
    Ok(())
}
