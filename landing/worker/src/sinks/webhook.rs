//! The sink of kind "webhook": a web service that gets JSON.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Proxy, Response, StatusCode};
use storage_config::{Secret, WebUrl};
use storage_landing::{Sink, SinkError};
use storage_model::{Clock as _, Event, Partition, SinkName, SystemClock, Token};

use super::json::Json;

/// The longest wait that a service can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(10);

/// The name of this program in its calls. Some front ends reject a call without one.
const USER_AGENT: &str = concat!("landing-worker/", env!("CARGO_PKG_VERSION"));

/// POSTs batches as a JSON array. The header `Idempotency-Key` names the feed, sink, partition, and
/// the positions of the first and the last event.
pub struct Webhook {
    name: SinkName,
    url: WebUrl,
    client: Client,
    feed: Option<Token>,
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
    /// A service at `url`. A call takes no longer than `timeout`. Contacts nothing, and follows no
    /// proxy of the environment.
    ///
    /// # Errors
    /// The client can't be made, for example without any certificate of an authority.
    pub fn new(
        name: SinkName,
        url: &WebUrl,
        authorization: Option<&Secret>,
        timeout: Duration,
    ) -> anyhow::Result<Self> {
        Self::through(name, url, authorization, timeout, None)
    }

    /// As [`Webhook::new`], through this proxy if there is one.
    ///
    /// # Errors
    /// As [`Webhook::new`].
    pub fn through(
        name: SinkName,
        url: &WebUrl,
        authorization: Option<&Secret>,
        timeout: Duration,
        proxy: Option<&WebUrl>,
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
        let mut client = Client::builder()
            .default_headers(headers)
            .user_agent(USER_AGENT)
            .timeout(timeout)
            .redirect(Policy::none())
            .no_proxy();
        if let Some(proxy) = proxy {
            client = client.proxy(Proxy::all(proxy.expose())?);
        }
        let client = client
            .build()
            .with_context(|| format!("the client of sink {name}"))?;
        Ok(Self {
            name,
            url: url.clone(),
            client,
            feed: None,
        })
    }

    /// Names the database's feed in the keys of calls. Two databases have the same positions.
    #[must_use]
    pub fn of_feed(mut self, feed: Token) -> Self {
        self.feed = Some(feed);
        self
    }

    /// The key under which a service recognises a repeat of the call.
    fn key(&self, partition: Partition, events: &[Event]) -> String {
        let position = |event: Option<&Event>| event.map(|event| event.position);
        let first = position(events.first()).unwrap_or_default();
        let last = position(events.last()).unwrap_or_default();
        let feed = self.feed.map(|feed| format!("{feed}:")).unwrap_or_default();
        format!("{feed}{}:{partition}:{first}..{last}", self.name)
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

/// The wait that a service asks for, up to [`RETRY_AFTER_MAX`].
fn retry_after(response: &Response) -> Option<Duration> {
    let header = |name| response.headers().get(name)?.to_str().ok();
    wait(header(RETRY_AFTER)?, header(DATE))
}

/// The wait that a header names in seconds, or as a date. A date counts from the answer's own date,
/// so the two clocks need not agree.
fn wait(asked: &str, answered: Option<&str>) -> Option<Duration> {
    let asked = asked.trim();
    if !asked.is_empty() && asked.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number beyond 64 bits is also beyond the limit.
        let seconds = asked.parse().unwrap_or(u64::MAX);
        return Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX));
    }
    let until = httpdate::parse_http_date(asked).ok()?;
    let now = answered
        .and_then(|date| httpdate::parse_http_date(date).ok())
        .unwrap_or_else(now);
    let wait = until.duration_since(now).unwrap_or_default();
    Some(wait.min(RETRY_AFTER_MAX))
}

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(SystemClock.now().0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_a_number_or_a_date_and_has_a_limit() {
        let answered = Some("Sun, 06 Nov 1994 08:49:37 GMT");
        let seconds = |asked| wait(asked, answered).map(|wait| wait.as_secs());
        assert_eq!(seconds("7"), Some(7));
        assert_eq!(seconds(" 120 "), Some(120));
        assert_eq!(seconds("99999999999999999999"), Some(600));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:50:07 GMT"), Some(30));
        assert_eq!(seconds("Mon, 07 Nov 1994 08:49:37 GMT"), Some(600));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:00 GMT"), Some(0));
        for nonsense in ["soon", "-5", "", "1.5"] {
            assert_eq!(seconds(nonsense), None, "{nonsense}");
        }
        // By the clock of this machine.
        assert_eq!(
            wait("Sun, 06 Nov 1994 08:50:07 GMT", None),
            Some(Duration::ZERO)
        );
    }
}
