//! Several requests in one: one by one with an answer each, or all together in one step.

mod answers;
mod requests;
mod step;

use axum::Router;
use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::MethodRouter;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use tokio::time::{Instant, timeout_at};

use self::answers::{Answer, Answers};
use self::requests::{Batch, BatchRequest};
use crate::body::read_whole;
use crate::content::{json, no_parameters};
use crate::headers::{KEY, TTL, WAIT};
use crate::problem::{self, Problem};
use crate::requests::RequestId;
use crate::routes::{CONTENT, TIME, no_resource};
use crate::shared::Shared;

/// The most bytes of a batch.
pub(crate) const BYTES_MAX: usize = 8 << 20;
/// Once the answers have so many bytes, no further request is carried out.
const ANSWERS_BYTES_MAX: usize = 8 << 20;
/// The part of a request's time that is left for the answer.
const SPARE: std::time::Duration = std::time::Duration::from_secs(10);

/// What carries out the requests of batches.
#[derive(Debug, Clone)]
pub(crate) struct Batches {
    shared: Shared,
    /// The resources that a request of a batch can have. The caller of the batch may use them.
    content: TowerToHyperService<Router>,
}

impl Batches {
    pub(crate) fn new(shared: &Shared, content: MethodRouter<Shared>) -> Self {
        let content = Router::new()
            .route(CONTENT, content)
            .fallback(no_resource)
            .with_state(shared.clone());
        Self {
            shared: shared.clone(),
            content: TowerToHyperService::new(content),
        }
    }
}

/// Carries out a batch.
///
/// # Errors
/// The batch or one of its requests can't be read. Then none was carried out. Of a step: one of its
/// changes can't be made, so none was.
pub(crate) async fn carry_out(
    State(batches): State<Batches>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, Problem> {
    let until = Instant::now() + TIME.saturating_sub(SPARE);
    no_parameters(query.as_deref())?;
    let id = id_of(&request);
    let headers = request.headers().clone();
    let body = read_whole(request, BYTES_MAX, "send several batches").await?;
    let batch = Batch::parse(&body)?;
    let answers = if batch.is_atomic {
        let step = step::carry_out(&batches.shared, &headers, batch.parts, &body);
        step.await?
    } else {
        refuse_headers(&headers)?;
        // The parts have copies of it.
        drop(body);
        batches.one_by_one(batch.parts, &id, until).await
    };
    Ok(json(StatusCode::OK, answers.into_text().into()))
}

fn id_of(request: &Request) -> String {
    let id = request.extensions().get::<RequestId>();
    id.map(|RequestId(id)| id.clone()).unwrap_or_default()
}

/// Headers that each request has for itself. A caller that sends them with the batch would wait for what
/// does not come.
fn refuse_headers(headers: &HeaderMap) -> Result<(), Problem> {
    let own = [header::IF_MATCH, header::IF_NONE_MATCH, KEY, TTL, WAIT];
    match own.iter().find(|name| headers.contains_key(*name)) {
        None => Ok(()),
        Some(name) => Err(of_each(name)),
    }
}

/// The refusal of a header of the batch that each request has for itself.
fn of_each(name: &HeaderName) -> Problem {
    let message = format!("{name} is a header of each request of the batch; send it among theirs");
    Problem::new(problem::REQUEST, message)
}

impl Batches {
    /// Carries out the requests in their order, each as if it came alone.
    async fn one_by_one(&self, parts: Vec<BatchRequest>, id: &str, until: Instant) -> Answers {
        let mut answers = Answers::default();
        for part in parts {
            let (method, path) = (part.method.clone(), part.path.clone());
            let response = match unfinished(&answers, until) {
                Some(problem) => problem.into_response(),
                None => self.answer(part, until).await,
            };
            answers.add(Answer::of(response, id, &method, &path).await);
        }
        answers
    }

    async fn answer(&self, part: BatchRequest, until: Instant) -> Response {
        let request = part.into_request();
        let counted = self.shared.figures.begin(&request);
        let response = match timeout_at(until, self.content.call(request)).await {
            Ok(Ok(response)) => response,
            Err(_) => {
                let message = "the batch took so long that nobody waited for this request";
                Problem::unknown(message).into_response()
            }
        };
        counted.answered(response.status());
        response
    }
}

/// The reason why no further request is carried out, if there is one.
fn unfinished(answers: &Answers, until: Instant) -> Option<Problem> {
    let bytes = answers.bytes();
    let why = if bytes >= ANSWERS_BYTES_MAX {
        format!(
            "the answers before this one have {bytes} bytes, and the limit is {ANSWERS_BYTES_MAX}"
        )
    } else if Instant::now() >= until {
        "the requests before this one took the whole time of the batch".to_owned()
    } else {
        return None;
    };
    let message = format!("{why}, so this request was not carried out; send it in another batch");
    Some(Problem::new(problem::UNFINISHED, message))
}
