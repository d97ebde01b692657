//! The documents as they have to be, and the calls with a key.

use std::collections::BTreeMap;

use rand::RngExt as _;
use rand::rngs::StdRng;
use reqwest::Method;
use serde_json::{Value, json};

use crate::torture::client::{Answer, Request};

/// The documents, and as many items of a collection.
const EACH: u32 = 5;

/// A document or an item.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// The body. `None` if it was deleted.
    pub body: Option<Value>,
    /// The tag of its last change.
    pub tag: String,
    /// The revision: of the document, or of the item's collection.
    pub revision: u64,
}

/// A call with a key, and its first answer.
#[derive(Debug, Clone)]
pub struct Call {
    /// The request.
    pub request: Request,
    /// The answer.
    pub answer: Answer,
}

/// All that is stored.
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// By path.
    pub documents: BTreeMap<String, Known>,
    /// In the order in which they were made.
    pub calls: Vec<Call>,
}

impl Model {
    /// A change that nothing can refuse. `number` gives its key.
    pub fn change(&self, rng: &mut StdRng, number: u64) -> Request {
        let at = rng.random_range(0..EACH);
        let path = match rng.random_range(0..2) {
            0 => format!("d/{at}"),
            _ => format!("c~/{at}"),
        };
        let is_there = self
            .documents
            .get(&path)
            .is_some_and(|known| known.body.is_some());
        let (method, body) = match rng.random_range(0..4) {
            0 if is_there => (Method::DELETE, None),
            1 if is_there => (Method::PATCH, Some(json!({ "patch": number }))),
            _ => (Method::PUT, Some(json!({ "put": number }))),
        };
        Request {
            method,
            path,
            body: body.map(|body| body.to_string()),
            headers: vec![("idempotency-key", number.to_string())],
        }
    }

    /// Takes a change over that was made. Returns what is wrong with its answer.
    pub fn made(&mut self, request: &Request, answer: &Answer) -> Option<String> {
        let before = self
            .documents
            .get(&request.path)
            .cloned()
            .unwrap_or_default();
        let sent = request.body.as_deref().map(serde_json::from_str::<Value>);
        let sent = sent.and_then(Result::ok);
        let body = match (request.method == Method::PATCH, before.body, sent) {
            (true, Some(Value::Object(mut body)), Some(Value::Object(patch))) => {
                body.extend(patch);
                Some(Value::Object(body))
            }
            (_, _, sent) => sent,
        };
        let known = Known {
            body,
            tag: answer.tag.clone().unwrap_or_default(),
            revision: answer.revision.unwrap_or_default(),
        };
        let last = self.revision(&request.path);
        let is_next = (200..300).contains(&answer.status) && known.revision == last + 1;
        let complaint = (!is_next).then(|| format!("{answer:?} comes after revision {last}"));
        self.documents.insert(request.path.clone(), known);
        self.calls.push(Call {
            request: request.clone(),
            answer: answer.clone(),
        });
        complaint
    }

    /// The revision that a path's next change raises.
    fn revision(&self, path: &str) -> u64 {
        let head = path.split_inclusive('~').next().unwrap_or(path);
        let of = self
            .documents
            .iter()
            .filter(|(path, _)| path.starts_with(head));
        of.map(|(_, known)| known.revision)
            .max()
            .unwrap_or_default()
    }
}

/// Whether a read is what is known.
#[must_use]
pub fn is_as_known(read: &Answer, known: &Known) -> bool {
    let mut body = read.body.clone();
    if let Some(body) = body.as_object_mut() {
        body.remove("id");
    }
    match &known.body {
        None => read.status == 404,
        Some(of) => read.status == 200 && body == *of && read.tag.as_deref() == Some(&known.tag),
    }
}
