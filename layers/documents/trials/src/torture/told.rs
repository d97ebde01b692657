//! The changes that the landed feed tells.

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use serde_json::Value;

use super::client::Client;
use super::receiver::At;

/// The changes of a page.
const PAGE: u32 = 500;

/// A change, as the feed tells it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Told {
    /// The id: partition, epoch and number.
    #[serde(default)]
    pub id: String,
    /// The method, such as `feed:put`.
    pub method: String,
    /// The path.
    #[serde(default)]
    pub path: String,
    /// The revision of the document or the collection.
    #[serde(default)]
    pub revision: u64,
    /// The number of items of the collection.
    pub count: Option<u64>,
    /// The tag since then.
    #[serde(default)]
    pub etag: String,
    /// The tag before.
    pub prev: Option<String>,
    /// The body or the patch.
    #[serde(default)]
    pub body: Value,
}

impl Told {
    /// Its place in the feed.
    #[must_use]
    pub fn at(&self) -> Option<At> {
        let mut parts = self.id.split('.').map(str::parse);
        Some((
            parts.next()?.ok()?,
            parts.next()?.ok()?,
            parts.next()?.ok()?,
        ))
    }

    /// The document, or the collection, whose revision it raises.
    #[must_use]
    pub fn head(&self) -> &str {
        head(&self.path)
    }
}

/// The collection of an item, or the path itself.
#[must_use]
pub fn head(path: &str) -> &str {
    match path.find("~/") {
        Some(end) => path.get(..=end).unwrap_or(path),
        None => path,
    }
}

/// A reader of the landed feed.
#[derive(Debug, Default)]
pub struct Reader {
    since: String,
    /// The changes so far.
    pub told: Vec<Told>,
}

#[derive(Deserialize)]
struct Page {
    results: Vec<Told>,
    last_seq: String,
    pending: bool,
}

impl Reader {
    /// Reads one page from a gateway. Returns whether more changes are known, or `None` if there is
    /// no answer.
    ///
    /// # Errors
    /// The answer is none that the feed gives.
    pub async fn read(&mut self, client: &Client, gate: usize) -> Result<Option<bool>> {
        let resource = format!("_changes?limit={PAGE}&since={}", self.since);
        let Some(answer) = client.get(gate, &resource).await else {
            return Ok(None);
        };
        match answer.status {
            200 => {}
            503 => return Ok(None),
            status => bail!("the landed feed answers {status}: {}", answer.body),
        }
        let page = serde_json::from_value(answer.body.clone());
        let page: Page = page.with_context(|| format!("no page of a feed: {}", answer.body))?;
        self.told.extend(page.results);
        self.since = page.last_seq;
        Ok(Some(page.pending))
    }

    /// Reads to the end.
    ///
    /// # Errors
    /// A gateway does not answer.
    pub async fn read_all(&mut self, client: &Client) -> Result<()> {
        loop {
            let before = self.told.len();
            let pending = self.read(client, 0).await?;
            let pending = pending.context("a gateway does not answer at the end")?;
            if !pending && self.told.len() == before {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::torture) fn told(number: u64, path: &str, etag: &str) -> Told {
        Told {
            id: format!("0.1.{number}"),
            method: "feed:put".to_owned(),
            path: path.to_owned(),
            revision: number,
            count: None,
            etag: etag.to_owned(),
            prev: None,
            body: Value::Null,
        }
    }

    #[test]
    fn only_a_whole_id_is_a_place() {
        let at = |id: &str| {
            let mut told = told(1, "a", "1");
            told.id = id.to_owned();
            told.at()
        };
        assert_eq!(at("1.2.3"), Some((1, 2, 3)));
        for bad in ["", "1.2", "1.2.x", "1.-2.3"] {
            assert_eq!(at(bad), None, "{bad}");
        }
    }
}
