//! What happens on a connection, so that one on which nothing happens can end.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::Version;
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use tokio::time::sleep;

/// The most bytes of an answer that are given out at once. So an answer is under way until its client has
/// nearly all of it.
pub(crate) const PART_MAX: usize = 64 << 10;
/// Once so many bytes are given out and not sent, an answer waits. So a client that takes nothing keeps
/// little of it here.
const OUT_MAX: usize = 32 << 10;

/// The requests of one connection.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    under_way: AtomicUsize,
    /// Those of them that wait for the gateway: for the beginning of an answer, or its next part.
    waiting: AtomicUsize,
    /// Rises with each beginning, each end, and each part of an answer that is given out.
    steps: AtomicUsize,
    /// The bytes of answers that were given out since all was sent.
    given: AtomicUsize,
    /// Whether an answer waits until they are sent.
    is_full: AtomicBool,
}

impl Activity {
    /// A request begins.
    pub(crate) fn begin(self: &Arc<Self>, version: Version) -> UnderWay {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.steps.fetch_add(1, Ordering::Relaxed);
        UnderWay {
            activity: Arc::clone(self),
            waits: true,
            has_window: version == Version::HTTP_2,
        }
    }

    /// All that was given out is sent. Returns whether an answer has waited for that.
    pub(crate) fn is_sent(&self) -> bool {
        self.given.store(0, Ordering::Relaxed);
        self.is_full.load(Ordering::Relaxed) && self.is_full.swap(false, Ordering::Relaxed)
    }

    /// Waits until no request has come within the first time, or later none was there for the second.
    pub(crate) async fn ends(&self, first: Duration, idle: Duration) {
        sleep(first).await;
        if self.steps.load(Ordering::Relaxed) > 0 {
            self.rests(idle).await;
        }
    }

    /// Waits until there was no request for this time.
    pub(crate) async fn rests(&self, idle: Duration) {
        self.stays(idle, &self.under_way).await;
    }

    /// Waits until the gateway has given all that it has, and no client took a part of it for this time.
    pub(crate) async fn stands(&self, time: Duration) {
        self.stays(time, &self.waiting).await;
    }

    /// Waits until there were no such requests, and no steps, for this time.
    async fn stays(&self, time: Duration, requests: &AtomicUsize) {
        loop {
            let before = self.steps.load(Ordering::Relaxed);
            sleep(time).await;
            let is_same = self.steps.load(Ordering::Relaxed) == before;
            if is_same && requests.load(Ordering::Relaxed) == 0 {
                return;
            }
        }
    }
}

/// A request that is under way.
#[derive(Debug)]
pub(crate) struct UnderWay {
    activity: Arc<Activity>,
    /// Whether its client waits for the gateway.
    waits: bool,
    /// Its answer has a window of its own, which HTTP/2 keeps.
    has_window: bool,
}

impl UnderWay {
    fn waits(&mut self, waits: bool) {
        match (std::mem::replace(&mut self.waits, waits), waits) {
            (false, true) => self.activity.waiting.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.activity.waiting.fetch_sub(1, Ordering::Relaxed),
            _ => return,
        };
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.waits(false);
        self.activity.under_way.fetch_sub(1, Ordering::Relaxed);
        self.activity.steps.fetch_add(1, Ordering::Relaxed);
    }
}

/// Something that an answer holds until its end.
pub(crate) trait AnswerHold: Send + Unpin + 'static {
    /// Whether no part may be given out now.
    fn is_full(&self) -> bool {
        false
    }

    /// A part of the answer with so many bytes is given out.
    fn moves(&mut self, _bytes: usize) {}

    /// The client waits for a part of the answer that is not there yet.
    fn waits(&mut self) {}
}

impl<H: AnswerHold> AnswerHold for Option<H> {}

impl AnswerHold for UnderWay {
    fn is_full(&self) -> bool {
        let is_full = !self.has_window && self.activity.given.load(Ordering::Relaxed) >= OUT_MAX;
        if is_full {
            self.activity.is_full.store(true, Ordering::Relaxed);
        }
        is_full
    }

    fn moves(&mut self, bytes: usize) {
        UnderWay::waits(self, false);
        self.activity.steps.fetch_add(1, Ordering::Relaxed);
        self.activity.given.fetch_add(bytes, Ordering::Relaxed);
    }

    fn waits(&mut self) {
        UnderWay::waits(self, true);
    }
}

/// The mark of an answer to a caller with a token. The request is under way until its end, so an
/// open feed keeps its connection. Other answers are short, and a client that does not take its
/// answer holds no connection.
#[derive(Debug, Clone)]
struct KnownCaller;

/// Marks the answer to a caller who may be here.
pub(crate) fn keep(mut response: Response) -> Response {
    response.extensions_mut().insert(KnownCaller);
    response
}

/// Lets the request be under way until its answer has ended.
pub(crate) fn until_its_end(mut response: Response, mut under_way: UnderWay) -> Response {
    under_way.waits(false);
    match response.extensions_mut().remove::<KnownCaller>() {
        Some(KnownCaller) => holding(response, under_way),
        None => response,
    }
}

/// An answer that holds something until its end.
pub(crate) fn holding(response: Response, held: impl AnswerHold) -> Response {
    response.map(|body| {
        Body::new(Answer {
            body,
            frame: Bytes::new(),
            held,
        })
    })
}

/// The body of an answer, and what lives as long.
struct Answer<H> {
    body: Body,
    /// What was not given out yet.
    frame: Bytes,
    held: H,
}

impl<H: AnswerHold> hyper::body::Body for Answer<H> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.held.is_full() {
            // The connection asks again once all is sent.
            return Poll::Pending;
        }
        if self.frame.is_empty() {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.frame = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                Poll::Ready(other) => return Poll::Ready(other),
                Poll::Pending => {
                    self.held.waits();
                    return Poll::Pending;
                }
            }
        }
        let length = self.frame.len().min(PART_MAX);
        self.held.moves(length);
        Poll::Ready(Some(Ok(Frame::data(self.frame.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.frame.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let waiting = u64::try_from(self.frame.len()).unwrap_or(u64::MAX);
        let rest = self.body.size_hint();
        let mut hint = SizeHint::new();
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(waiting));
        }
        hint.set_lower(rest.lower().saturating_add(waiting));
        hint
    }
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt as _, stream};

    use super::*;

    const STANDS: Duration = Duration::from_secs(3);
    const SLOW: Duration = Duration::from_mins(1);

    /// An answer of two parts, of which the second one comes late.
    fn answer(activity: &Arc<Activity>) -> Response {
        let late = async {
            sleep(SLOW).await;
            Ok::<_, axum::Error>("second")
        };
        let parts = stream::iter([Ok("first")]).chain(stream::once(late));
        let response = keep(Response::new(Body::from_stream(parts)));
        until_its_end(response, activity.begin(Version::HTTP_11))
    }

    /// The time until the connection of a gateway that ends is cut.
    async fn cut_after(activity: &Activity) -> Duration {
        let begun = tokio::time::Instant::now();
        activity.stands(STANDS).await;
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_waits_for_the_gateway_is_not_cut() {
        let activity = Arc::<Activity>::default();
        let mut parts = answer(&activity).into_body().into_data_stream();
        let reads = async { while parts.next().await.is_some() {} };
        let (after, ()) = tokio::join!(cut_after(&activity), reads);
        assert!(after > SLOW, "{after:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_cut() {
        let activity = Arc::<Activity>::default();
        let mut parts = answer(&activity).into_body().into_data_stream();
        assert!(parts.next().await.is_some());
        assert_eq!(cut_after(&activity).await, STANDS);
    }
}
