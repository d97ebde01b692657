//! The landed feed and the stored documents, as the conditions take them.

use anyhow::{Result, ensure};
use storage_documents::list::Query;
use storage_documents::{Change, Documents, Path, Place, Prefixes};
use storage_sdk::feed::Cursor;
use storage_tests::crash::play::Play;

use super::caller::{Wanted, asked, documents};
use crate::torture::judge::{Finals, Read, judge};
use crate::torture::owned::without_id;
use crate::torture::told::{Told, head};

/// Compares the landed feed and the stored documents with the answers.
///
/// # Errors
/// They differ.
pub async fn compare(play: &Play<'_>, wanted: &[Wanted]) -> Result<()> {
    let documents = documents(play)?;
    let asked = asked(play, wanted)?;
    let told = told(&documents).await?;
    let finals = finals(&documents, wanted).await?;
    let flaws = judge(&asked, &told, &finals);
    ensure!(flaws.is_empty(), "{flaws:#?}");
    Ok(())
}

/// All changes of the landed feed.
async fn told(documents: &Documents) -> Result<Vec<Told>> {
    let (mut told, mut since) = (Vec::new(), Cursor::default());
    loop {
        let page = documents.changes(since, &Prefixes::default(), 100).await?;
        for change in &page.changes {
            let Change::Event(event) = change else {
                anyhow::bail!("the feed has a gap: {change:?}");
            };
            told.push(serde_json::from_str(&event.to_text())?);
        }
        since = page.next;
        if page.changes.is_empty() && !page.more {
            return Ok(told);
        }
    }
}

/// The documents and collections that are stored.
async fn finals(documents: &Documents, wanted: &[Wanted]) -> Result<Finals> {
    let mut finals = Finals::default();
    let mut heads: Vec<&str> = wanted.iter().map(|wanted| head(wanted.path)).collect();
    heads.sort_unstable();
    heads.dedup();
    for head in heads {
        let path = Path::new(head)?;
        if path.place() == Place::Collection {
            let Some(list) = documents.list(&path, &Query::new("", "")?).await? else {
                continue;
            };
            ensure!(list.next.is_none(), "{head} has several pages");
            let told = (Some(list.count), Some(list.revision));
            finals.collections.insert(head.to_owned(), told);
            for item in list.items {
                let read = Read {
                    tag: Some(item.document.tag().to_string()),
                    revision: None,
                    body: without_id(serde_json::from_slice(&item.document.body)?),
                };
                finals.documents.insert(format!("{head}/{}", item.id), read);
            }
        } else if let Some(document) = documents.get(&path).await? {
            let read = Read {
                tag: Some(document.tag().to_string()),
                revision: Some(document.revision),
                body: serde_json::from_slice(&document.body)?,
            };
            finals.documents.insert(head.to_owned(), read);
        }
    }
    Ok(finals)
}
