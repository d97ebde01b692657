//! A batch whose changes are made in one step: all of them, or none.

use axum::http::{HeaderMap, Method, StatusCode};
use percent_encoding::percent_decode_str;
use storage_documents::step::ItemChange;
use storage_documents::{Changed, Edit, Path, Place};

use super::answers::{Answer, Answers};
use super::of_each;
use super::requests::BatchRequest;
use crate::content::{edit_of, no_parameters, patch_type, posted, put_status, settled, told};
use crate::headers::{Head, KEY, TTL, WAIT};
use crate::methods;
use crate::prefer::Return;
use crate::problem::{self, Problem};
use crate::shared::Shared;

/// A change of the step, and the form of its answer.
struct BatchChange {
    part: BatchRequest,
    change: ItemChange,
    answer: Option<Return>,
}

/// Makes all changes of a batch in one step. The head of the batch says how safe they are to be, and the
/// key of the step.
///
/// # Errors
/// One of the changes can't be made, and its place is named. Or the changes can't be made in one step.
pub(super) async fn carry_out(
    shared: &Shared,
    headers: &HeaderMap,
    parts: Vec<BatchRequest>,
    body: &[u8],
) -> Result<Answers, Problem> {
    if headers.contains_key(TTL) {
        return Err(of_each(&TTL));
    }
    let head = Head::of(headers)?;
    let answer = head.answer;
    let call = head.of_request(&[b"batch", body])?;
    let wanted = parts
        .into_iter()
        .enumerate()
        .map(|(at, part)| BatchChange::of(part).map_err(|problem| problem.at(at)))
        .collect::<Result<Vec<BatchChange>, _>>()?;
    let changes: Vec<ItemChange> = wanted.iter().map(|wanted| wanted.change.clone()).collect();
    let mut changed = shared.documents.edit_together(&changes, &call).await?;
    // The event of the last one is the last of them.
    if let Some(last) = changed.pop() {
        let last = settled(shared, &call, last).await?;
        // All events of a step are lost together.
        if last.event.is_none() {
            changed.iter_mut().for_each(|change| change.event = None);
        }
        changed.push(last);
    }
    let mut answers = Answers::default();
    for (wanted, changed) in wanted.into_iter().zip(changed) {
        answers.add(wanted.told(shared, changed, answer).await);
    }
    Ok(answers)
}

impl BatchChange {
    /// The answer to the change, as if it had been sent alone.
    async fn told(self, shared: &Shared, changed: Changed, answer: Option<Return>) -> Answer {
        let answer = self.answer.or(answer);
        let response = match self.part.method {
            Method::POST => posted(shared, changed, answer),
            Method::PUT => told(shared, put_status(&changed), changed, answer),
            _ => told(shared, StatusCode::OK, changed, answer),
        };
        Answer::of(response, "", &self.part.method, &self.part.path).await
    }

    /// The change that a request of the batch asks for.
    ///
    /// # Errors
    /// It asks for none of an item, or its head or its body can't be used.
    fn of(part: BatchRequest) -> Result<Self, Problem> {
        no_parameters(part.path.query())?;
        for name in [KEY, WAIT] {
            if part.headers.contains_key(&name) {
                let message =
                    format!("{name} is a header of the whole step; send it with the batch");
                return Err(Problem::new(problem::REQUEST, message));
            }
        }
        let path = path_of(&part)?;
        let (edit, head) = (edit(&part, &path)?, Head::of(&part.headers)?);
        let change = ItemChange {
            path,
            edit,
            conditions: head.call.conditions,
            lives: head.call.lives,
        };
        let answer = head.answer;
        Ok(Self {
            part,
            change,
            answer,
        })
    }
}

fn path_of(part: &BatchRequest) -> Result<Path, Problem> {
    let path = percent_decode_str(part.resource())
        .decode_utf8()
        .map_err(|_| Problem::new(problem::PATH, "the path is no UTF-8"))?;
    Ok(Path::new(&path)?)
}

fn edit(part: &BatchRequest, path: &Path) -> Result<Edit, Problem> {
    let is_collection = path.place() == Place::Collection;
    match part.method {
        Method::GET | Method::HEAD => {
            let message = format!(
                "a {} changes nothing, and a step has changes alone; send it in a batch that is not atomic",
                part.method
            );
            Err(Problem::new(problem::STEP, message))
        }
        Method::PUT | Method::DELETE if is_collection => {
            let message = format!(
                "a {} of {path} is a step of its own; send it alone",
                part.method
            );
            Err(Problem::new(problem::STEP, message))
        }
        Method::PATCH if is_collection => Err(methods::refused(path)),
        Method::POST if matches!(path.place(), Place::Item { .. }) => Err(methods::refused(path)),
        Method::PATCH => Ok(edit_of(patch_type(&part.headers)?, &part.body)?),
        Method::DELETE => Ok(Edit::delete()),
        _ => Ok(Edit::put(&part.body)?),
    }
}
