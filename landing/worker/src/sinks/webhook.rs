//! The sink of kind "webhook": a web service that gets JSON.

use std::fmt;
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};
use storage_config::{Secret, WebUrl};
use storage_landing::{Sink, SinkError};
use storage_model::{Event, Partition, SinkName};

use super::json::Json;

/// The longest wait that a service can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(10);

/// POSTs batches as a JSON array. The header `Idempotency-Key` names sink, partition, and the
/// positions of the first and the last event.
pub struct Webhook {
    name: SinkName,
    url: WebUrl,
    client: Client,
}

/// Without the client, which holds the header `Authorization`.
impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook")
            .field("name", &self.name)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Webhook {
    /// A service at `url`. A call takes no longer than `timeout`. Contacts nothing.
    ///
    /// # Errors
    /// The client can't be made, for example without any certificate of an authority.
    pub fn new(
        name: SinkName,
        url: &WebUrl,
        authorization: Option<&Secret>,
        timeout: Duration,
    ) -> anyhow::Result<Self> {
        // Without a provider rustls panics. If the program has chosen one already, this fails and
        // changes nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(secret) = authorization {
            let mut value = HeaderValue::from_str(secret.expose())?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let client = Client::builder()
            .default_headers(headers)
            .timeout(timeout)
            .redirect(Policy::none())
            .build()
            .with_context(|| format!("the client of sink {name}"))?;
        let url = url.clone();
        Ok(Self { name, url, client })
    }

    /// The key under which a service recognises a repeat of the call.
    fn key(&self, partition: Partition, events: &[Event]) -> String {
        let position = |event: Option<&Event>| event.map(|event| event.position);
        let first = position(events.first()).unwrap_or_default();
        let last = position(events.last()).unwrap_or_default();
        format!("{}:{partition}:{first}..{last}", self.name)
    }
}

#[async_trait]
impl Sink for Webhook {
    async fn send(&self, partition: Partition, events: &[Event]) -> Result<(), SinkError> {
        let all: Vec<Json<'_>> = events.iter().map(Json::from).collect();
        let body =
            serde_json::to_vec(&all).map_err(|error| SinkError::rejected(error.to_string()))?;
        let request = self
            .client
            .post(self.url.expose())
            .header("Idempotency-Key", self.key(partition, events))
            .body(body);
        match request.send().await {
            Ok(response) => judge(&response),
            Err(error) => Err(SinkError::unavailable(reason(error))),
        }
    }
}

/// The chain of causes in one line, without the URL.
fn reason(error: reqwest::Error) -> String {
    let error = anyhow::Error::from(error.without_url());
    crate::exit::words(&error)
}

/// The meaning of an answer.
///
/// All other statuses concern the whole sink: a wrong token or path would refuse each event alike.
fn judge(response: &Response) -> Result<(), SinkError> {
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    if status.is_redirection() {
        let message = format!("{status}: redirects are not followed; set url to the new address");
        return Err(SinkError::unavailable(message));
    }
    if !is_about_events(status) {
        return Err(SinkError::Unavailable {
            message: status.to_string(),
            retry_after: retry_after(response),
        });
    }
    // Not its words: a service may repeat the header with the secret, or the events.
    Err(SinkError::rejected(status.to_string()))
}

/// The statuses that a service gives for the content of a call.
fn is_about_events(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNPROCESSABLE_ENTITY
    )
}

/// The wait that a service asks for in seconds, up to [`RETRY_AFTER_MAX`].
fn retry_after(response: &Response) -> Option<Duration> {
    let header = response.headers().get(RETRY_AFTER)?;
    let seconds = header.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}
