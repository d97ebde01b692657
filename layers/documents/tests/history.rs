//! Kept versions that were not kept all the time.

use anyhow::Result;
use storage_documents::history::History;
use storage_documents::{Call, Documents, Path};
use storage_sdk::Storage;

/// The body of each of these revisions. `None` if it is not kept.
async fn bodies(
    documents: &Documents,
    path: &Path,
    revisions: &[u64],
) -> Result<Vec<Option<String>>> {
    let mut bodies = Vec::new();
    for revision in revisions {
        let found = documents.get_revision(path, *revision).await?;
        let body = found.map(|document| String::from_utf8_lossy(&document.body).into_owned());
        bodies.push(body);
    }
    Ok(bodies)
}

#[tokio::test]
async fn a_version_that_was_not_kept_is_none_and_not_an_earlier_one() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let storage = Storage::embedded(folder.path().join("x.db")).await?;
    let plain = Documents::new(&storage, "a", "r")?;
    let keeping = |versions| {
        anyhow::Ok(
            plain
                .clone()
                .with_history(vec![History::new("", versions, None)?]),
        )
    };
    let (many, few) = (keeping(10)?, keeping(2)?);
    let path = Path::new("a~/1")?;
    let (other, call) = (Path::new("a~/2")?, Call::default());
    // Revisions 1 and 2 are kept, 3 is not, 4 is, and 5 is one of a neighbour.
    for (documents, path, body) in [
        (&many, &path, 1),
        (&many, &path, 2),
        (&plain, &path, 3),
        (&many, &path, 4),
        (&many, &other, 5),
    ] {
        let body = format!(r#"{{"n":{body}}}"#);
        documents.put(path, body.as_bytes(), &call).await?;
    }
    let of = |n: u64| Some(format!(r#"{{"id":"1","n":{n}}}"#));
    let kept = bodies(&many, &path, &[1, 2, 3, 4, 5, 6]).await?;
    assert_eq!(kept, [of(1), of(2), None, of(4), of(4), None]);
    // With fewer slots, those of the others are not read.
    for body in 6..=8 {
        few.put(&path, format!(r#"{{"n":{body}}}"#).as_bytes(), &call)
            .await?;
    }
    let kept = bodies(&few, &path, &[4, 5, 6, 7, 8]).await?;
    assert_eq!(kept, [None, None, None, of(7), of(8)]);
    assert_eq!(
        storage
            .close(std::time::Duration::from_secs(30))
            .await
            .unlanded,
        Some(0)
    );
    Ok(())
}

/// A document with kept versions loads as one without.
#[tokio::test]
async fn kept_versions_lie_beside_the_document_and_not_in_it() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let storage = Storage::embedded(folder.path().join("x.db")).await?;
    let documents = Documents::new(&storage, "a", "r")?;
    let documents = documents.with_history(vec![History::new("", 20, None)?]);
    for path in ["a", "a~/1"] {
        for n in 0..30 {
            let body = format!(r#"{{"n":{n}}}"#);
            let path = Path::new(path)?;
            documents
                .put(&path, body.as_bytes(), &Call::default())
                .await?;
        }
    }
    let bytes = storage.world("a", "r")?.bytes();
    for (logic_type, id) in [("doc", "{a}"), ("item", "{a~}1/1")] {
        let owner = bytes.owner(logic_type, id)?.get_all().await?;
        assert!(owner.len() <= 3, "{owner:?}");
        let versions = bytes.owner("hist", id)?.get_all().await?;
        assert_eq!(versions.len(), 20);
    }
    let kept = bodies(&documents, &Path::new("a")?, &[10, 11, 30]).await?;
    let of = |n: u64| Some(format!(r#"{{"n":{n}}}"#));
    assert_eq!(kept, [None, of(10), of(29)]);
    storage.close(std::time::Duration::from_secs(30)).await;
    Ok(())
}
