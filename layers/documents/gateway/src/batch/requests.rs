//! The requests of a batch, which are checked before the first one is carried out.

use axum::body::Body;
use axum::extract::Request;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use storage_documents::edit::without_mark;

use crate::headers::{KEY, TTL, WAIT};
use crate::prefer::PREFER;
use crate::problem::{self, Problem};
use crate::routes::PREFIX;

/// The most requests of a batch.
pub(super) const REQUESTS_MAX: usize = 64;
/// The methods of content.
const METHODS: [Method; 6] = [
    Method::GET,
    Method::HEAD,
    Method::PUT,
    Method::PATCH,
    Method::POST,
    Method::DELETE,
];
/// The headers that content reads.
const HEADERS: [HeaderName; 8] = [
    header::ACCEPT,
    header::CONTENT_TYPE,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    KEY,
    PREFER,
    TTL,
    WAIT,
];
/// The beginning of the paths of content, behind the prefix of all resources.
const CONTENT: &str = "/content/";
/// The characters of a path and its parameters beside letters and digits.
const MARKS: &str = "-._~:/?[]@!$&'()*+,;=%";

/// A batch that was read.
#[derive(Debug)]
pub(super) struct Batch {
    /// Whether all of its changes are made in one step.
    pub(super) is_atomic: bool,
    pub(super) parts: Vec<BatchRequest>,
}

/// A request of a batch.
#[derive(Debug)]
pub(super) struct BatchRequest {
    pub(super) method: Method,
    pub(super) path: PathAndQuery,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with requests")]
struct BatchText<'a> {
    #[serde(default)]
    atomic: bool,
    #[serde(borrow)]
    requests: Requests<'a>,
}

/// The texts of the requests. Reading ends at the first one beyond the limit, so a batch of very many small
/// ones takes no memory.
struct Requests<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Requests<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Texts)
    }
}

/// Reads the texts of the requests.
struct Texts;

impl<'de> Visitor<'de> for Texts {
    type Value = Requests<'de>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an array of requests")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Requests<'de>, A::Error> {
        let mut texts = Vec::new();
        while let Some(text) = array.next_element()? {
            if texts.len() == REQUESTS_MAX {
                let message =
                    format!("it has more than {REQUESTS_MAX} requests; send several batches");
                return Err(A::Error::custom(message));
            }
            texts.push(text);
        }
        Ok(Requests(texts))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with method and path")]
struct BatchRequestText<'a> {
    method: String,
    path: String,
    #[serde(default)]
    headers: Headers,
    #[serde(borrow, default, deserialize_with = "named")]
    body: Option<&'a RawValue>,
}

/// A body that is named, also if it is null.
fn named<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

/// The headers of a request, each named once.
#[derive(Debug, Default)]
struct Headers(HeaderMap);

impl<'de> Deserialize<'de> for Headers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Names)
    }
}

/// Reads the headers of a request.
struct Names;

impl<'de> Visitor<'de> for Names {
    type Value = Headers;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object of headers")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Headers, A::Error> {
        let mut headers = HeaderMap::new();
        while let Some((name, value)) = map.next_entry::<String, String>()? {
            let (name, value) = sendable(&name, &value).map_err(A::Error::custom)?;
            if headers.insert(&name, value).is_some() {
                let message = format!("the header {name} occurs twice; send it once");
                return Err(A::Error::custom(message));
            }
        }
        Ok(Headers(headers))
    }
}

/// A header that content reads.
fn sendable(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
    let known = HEADERS
        .into_iter()
        .find(|known| name.eq_ignore_ascii_case(known.as_str()));
    let Some(known) = known else {
        let names = HEADERS.map(|name| name.to_string()).join(", ");
        return Err(format!(
            "the header {name:?} is none of a request of a batch; those are {names}"
        ));
    };
    let value = HeaderValue::from_str(value)
        .map_err(|_| format!("the header {known} has a value that can't be sent"))?;
    Ok((known, value))
}

impl Batch {
    /// Reads a batch.
    ///
    /// # Errors
    /// `request`: it is none, or one of its requests can't be used, whose place the message names.
    pub(super) fn parse(text: &[u8]) -> Result<Self, Problem> {
        let batch: BatchText<'_> =
            serde_json::from_slice(without_mark(text)).map_err(|error| no_batch(&error))?;
        let Requests(texts) = batch.requests;
        if texts.is_empty() {
            let message = format!("the batch has no request; send 1 to {REQUESTS_MAX}");
            return Err(Problem::new(problem::REQUEST, message));
        }
        let parts = texts
            .iter()
            .enumerate()
            .map(|(at, text)| BatchRequest::parse(text).map_err(|problem| problem.at(at)))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            is_atomic: batch.atomic,
            parts,
        })
    }
}

fn no_batch(error: &serde_json::Error) -> Problem {
    let message = format!("the body is no batch {{\"requests\":[…]}}: {error}");
    Problem::new(problem::REQUEST, message)
}

impl BatchRequest {
    fn parse(text: &RawValue) -> Result<Self, Problem> {
        let refused = |message: String| Problem::new(problem::REQUEST, message);
        let part: BatchRequestText<'_> =
            serde_json::from_str(text.get()).map_err(|error| refused(error.to_string()))?;
        let method = method_of(&part.method).map_err(refused)?;
        let body = body_of(&method, part.body).map_err(refused)?;
        let path = path_of(&part.path).map_err(refused)?;
        let headers = part.headers.0;
        Ok(Self {
            method,
            path,
            headers,
            body,
        })
    }

    /// The path of the document, the item or the collection, with its escapes.
    pub(super) fn resource(&self) -> &str {
        let whole = self.path.path();
        let below = whole.strip_prefix(PREFIX).unwrap_or(whole);
        below.strip_prefix(CONTENT).unwrap_or(below)
    }

    pub(super) fn into_request(self) -> Request {
        let mut request = Request::new(Body::from(self.body));
        *request.method_mut() = self.method;
        *request.uri_mut() = Uri::from(self.path);
        *request.headers_mut() = self.headers;
        request
    }
}

fn method_of(given: &str) -> Result<Method, String> {
    let method = METHODS.into_iter().find(|method| method.as_str() == given);
    let unknown = || {
        let methods = METHODS.map(|method| method.to_string()).join(", ");
        format!("the method is {given:?}; send one of {methods}")
    };
    method.ok_or_else(unknown)
}

/// The body of a request, which some methods have.
fn body_of(method: &Method, given: Option<&RawValue>) -> Result<Vec<u8>, String> {
    let text = given.map_or("", RawValue::get);
    let has_body = matches!(*method, Method::PUT | Method::PATCH | Method::POST);
    match text {
        text if has_body => Ok(text.into()),
        "" | "null" => Ok(Vec::new()),
        _ => Err(format!("a {method} has no body; leave it out")),
    }
}

/// A path of content, with or without the prefix of all resources.
fn path_of(given: &str) -> Result<PathAndQuery, String> {
    let behind = given.strip_prefix(PREFIX).unwrap_or(given);
    if !behind.starts_with(CONTENT) {
        return Err(format!(
            "the path is {given:?}, and a request of a batch is one for {PREFIX}{CONTENT}{{path}}"
        ));
    }
    let is_url = |c: char| c.is_ascii_alphanumeric() || MARKS.contains(c);
    if let Some(wrong) = given.chars().find(|c| !is_url(*c)) {
        return Err(format!(
            "the path {given:?} holds the character {wrong:?}; escape it as in a URL"
        ));
    }
    let path = PathAndQuery::try_from(format!("{PREFIX}{behind}"));
    path.map_err(|error| format!("the path can't be sent: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The detail of the problem that a batch of these requests is.
    fn refusal(requests: &str) -> String {
        let batch = Batch::parse(format!(r#"{{"requests":{requests}}}"#).as_bytes());
        batch.unwrap_err().detail().to_owned()
    }

    #[test]
    fn a_request_that_can_not_be_sent_is_named_by_its_place() {
        let good = r#"{"method":"GET","path":"/content/a"}"#;
        for (wrong, why) in [
            (r#"{"method":"GET"}"#, "missing field `path`"),
            (
                r#"{"method":"GET","path":"/content/a","x":1}"#,
                "unknown field `x`",
            ),
            (
                r#"{"method":"get","path":"/content/a"}"#,
                r#"the method is "get""#,
            ),
            (
                r#"{"method":"GET","path":"/hyper-storage/feed"}"#,
                "the path is",
            ),
            (
                r#"{"method":"POST","path":"/hyper-storage/batch"}"#,
                "the path is",
            ),
            (
                r#"{"method":"GET","path":"http://x/content/a"}"#,
                "the path is",
            ),
            (
                r#"{"method":"GET","path":"/content/a b"}"#,
                "the character ' '",
            ),
            (
                r#"{"method":"GET","path":"/content/a","headers":{"host":"x"}}"#,
                r#"the header "host""#,
            ),
            (
                r#"{"method":"GET","path":"/content/a","headers":{"prefer":"a\nb"}}"#,
                "can't be sent",
            ),
            (
                r#"{"method":"GET","path":"/content/a","headers":{"prefer":1}}"#,
                "expected a string",
            ),
            (
                r#"{"method":"GET","path":"/content/a","headers":{"prefer":"","Prefer":""}}"#,
                "occurs twice",
            ),
            (
                r#"{"method":"DELETE","path":"/content/a","body":1}"#,
                "has no body",
            ),
            ("7", "an object with method and path"),
        ] {
            let detail = refusal(&format!("[{good},{wrong}]"));
            assert!(detail.starts_with("requests/1: "), "{detail}");
            assert!(detail.contains(why), "{detail}");
        }
        assert!(refusal("[]").contains("1 to 64"));
        let many = vec![good; REQUESTS_MAX + 1].join(",");
        assert!(refusal(&format!("[{many}]")).contains("more than 64 requests"));
        assert!(Batch::parse(br#"{"requests":[],"defaults":{}}"#).is_err());
    }

    #[test]
    fn a_path_has_the_prefix_of_all_resources_or_not() {
        for given in ["/content/a/b?size=1", "/hyper-storage/content/a/b?size=1"] {
            let text = format!(r#"{{"requests":[{{"method":"GET","path":"{given}"}}]}}"#);
            let batch = Batch::parse(text.as_bytes()).unwrap();
            assert_eq!(batch.parts[0].path, "/hyper-storage/content/a/b?size=1");
            assert_eq!(batch.parts[0].resource(), "a/b");
        }
    }

    #[test]
    fn the_body_of_a_request_keeps_its_text() {
        let text =
            br#"{"requests":[{"method":"PUT","path":"/content/a","body":{"n": 1.50, "x":null}}]}"#;
        let batch = Batch::parse(text).unwrap();
        assert_eq!(batch.parts[0].body, br#"{"n": 1.50, "x":null}"#);
    }
}
