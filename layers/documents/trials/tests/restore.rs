//! An older copy of the database is put back.

use std::path::Path;

use anyhow::Result;
use document_trials::restore::run;
use storage_tests::size;

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restore_documents_cursors_and_keys_are_those_of_the_copy() -> Result<()> {
    let exe = Path::new(env!("CARGO_BIN_EXE_documents_torture"));
    for seed in 1..=size(1, 10) {
        let flaws = run(seed, size(3, 10), exe).await?;
        assert!(flaws.is_empty(), "seed {seed}: {flaws:#?}");
    }
    Ok(())
}
