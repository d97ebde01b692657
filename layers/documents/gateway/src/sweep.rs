//! The task that sweeps.

use std::time::Duration;

use storage_documents::Documents;
use tokio::task::AbortHandle;
use tokio::time::sleep;

/// The pause between two pages, and between two passes.
const PAGES: Duration = Duration::from_millis(500);
const PASSES: Duration = Duration::from_secs(10);

/// Begins to sweep. An abort can cut it anywhere.
///
/// # Errors
/// A name is not allowed.
pub(crate) fn begin(documents: &Documents) -> storage_documents::Result<AbortHandle> {
    let mut sweeper = documents.sweeper()?;
    let sweeping = tokio::spawn(async move {
        loop {
            let pause = match sweeper.step().await {
                Ok(swept) => {
                    let (ended, removed, forgotten) = (swept.ended, swept.removed, swept.forgotten);
                    if ended + removed + forgotten > 0 {
                        tracing::debug!(ended, removed, forgotten, "documents were swept");
                    }
                    if swept.is_whole { PASSES } else { PAGES }
                }
                Err(error) => {
                    tracing::warn!(%error, "documents can't be swept now");
                    PASSES
                }
            };
            sleep(pause).await;
        }
    });
    Ok(sweeping.abort_handle())
}
