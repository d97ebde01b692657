//! Pages of the landed feed.

use std::time::Duration;

use futures::future::try_join_all;
use storage_documents::{Call, Documents, Path, Prefixes};
use storage_sdk::Storage;
use storage_sdk::feed::Cursor;
use storage_sdk::layer::ColdTier;

const SOON: Duration = Duration::from_secs(20);
/// The changes of others. A page that has a change looks at fewer.
const OTHERS: usize = 6_000;

/// Otherwise a follower of a few paths waits until its page has looked at all that others change.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_has_a_change_ends_soon_beside_many_others() -> anyhow::Result<()> {
    let storage = Storage::in_memory().await?;
    let documents = Documents::new(&storage, "a", "r")?;
    let (mine, call) = (Path::new("mine")?, Call::default());
    documents.put(&mine, b"1", &call).await?;
    let others: Vec<Path> = (0..OTHERS)
        .map(|number| Path::new(&format!("others/{number}")))
        .collect::<Result<_, _>>()?;
    try_join_all(others.iter().map(|path| documents.put(path, b"1", &call))).await?;
    let end = documents.hot_end().await?;
    ColdTier::of(&storage).until_landed(&end, SOON).await?;

    let prefixes = Prefixes::new(["mine"])?;
    let mut page = documents.changes(Cursor::default(), &prefixes, 10).await?;
    assert_eq!((page.changes.len(), page.more), (1, true));
    while page.more {
        page = documents.changes(page.next, &prefixes, 10).await?;
        assert!(page.changes.is_empty(), "a change is told once");
    }
    storage.close(SOON).await;
    Ok(())
}
