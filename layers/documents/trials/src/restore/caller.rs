//! One request, and its answer. Each wait has a limit. No request is sent twice, since a repeat would be
//! answered as one.

use anyhow::{Context as _, Result};
use reqwest::{Client, Method, Response};
use serde_json::Value;

use crate::events::Source;
use crate::gateway::{Process, TOKEN};
use crate::torture::client::{Answer, Request};

/// A client of one life of a gateway.
#[derive(Debug)]
pub struct Caller {
    client: Client,
    url: String,
}

impl Caller {
    /// A client of a gateway.
    #[must_use]
    pub fn new(process: &Process) -> Self {
        Self {
            client: Client::new(),
            url: process.url(""),
        }
    }

    /// Asks for content.
    ///
    /// # Errors
    /// There is no answer in time.
    pub async fn ask(&self, request: &Request) -> Result<Answer> {
        let url = format!("{}content/{}", self.url, request.path);
        let mut call = self.client.request(request.method.clone(), url);
        for (name, value) in &request.headers {
            call = call.header(*name, value);
        }
        let body = request.body.clone().unwrap_or_default();
        let call = call.bearer_auth(TOKEN).body(body);
        let answer = async { Answer::of(call.send().await?).await };
        let what = format!("the answer to {} {}", request.method, request.path);
        storage_tests::bounded(&what, answer).await
    }

    /// Puts a document, and waits until that has landed. Returns a cursor behind it.
    ///
    /// # Errors
    /// A request fails.
    pub async fn landed(&self, path: &str) -> Result<String> {
        let request = Request {
            method: Method::PUT,
            path: path.to_owned(),
            body: Some("1".to_owned()),
            headers: vec![("hyper-storage-wait", "landed".to_owned())],
        };
        let answer = self.ask(&request).await?;
        anyhow::ensure!((200..300).contains(&answer.status), "{answer:?}");
        let end = async {
            let end = self.get("_changes?since=now", None).await?;
            Ok(end.error_for_status()?.text().await?)
        };
        let end = storage_tests::bounded("the end of the landed feed", end).await?;
        let end: Value = serde_json::from_str(&end)?;
        let cursor = end.get("last_seq").and_then(Value::as_str);
        Ok(cursor.context("last_seq")?.to_owned())
    }

    /// The status of the landed feed behind a cursor.
    ///
    /// # Errors
    /// There is no answer in time.
    pub async fn changes(&self, since: &str) -> Result<u16> {
        let resource = format!("_changes?since={since}");
        Ok(self.get(&resource, None).await?.status().as_u16())
    }

    /// Comes back to the live feed behind an id, puts a document, and returns the names of all events
    /// up to that change.
    ///
    /// # Errors
    /// The feed ends, or does not tell the change.
    pub async fn hear(&self, id: &str, path: &str) -> Result<Vec<String>> {
        let mut feed = self.get("feed", Some(id)).await?.error_for_status()?;
        self.landed(path).await?;
        let (mut source, mut names) = (Source::default(), Vec::new());
        let told = format!("\"path\":\"{path}\"");
        let hear = async {
            while let Some(chunk) = feed.chunk().await? {
                source.push(&chunk)?;
                while let Some(event) = source.line()? {
                    let Some(event) = event else { continue };
                    names.push(event.name);
                    if event.data.contains(&told) {
                        return Ok(());
                    }
                }
            }
            anyhow::bail!("the feed has ended")
        };
        storage_tests::bounded("the feed tells the change", hear).await?;
        Ok(names)
    }

    async fn get(&self, resource: &str, id: Option<&str>) -> Result<Response> {
        let mut call = self.client.get(format!("{}{resource}", self.url));
        if let Some(id) = id {
            call = call.header("last-event-id", id);
        }
        let begun = async { Ok(call.bearer_auth(TOKEN).send().await?) };
        let what = format!("the beginning of the answer to GET {resource}");
        storage_tests::bounded(&what, begun).await
    }
}
