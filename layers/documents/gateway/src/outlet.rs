//! A stream that tells when all that was written has been sent.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::activity::Activity;

/// The stream of a connection. hyper flushes it behind the last byte that it has, so an answer that
/// waits for its client goes on then. The limit of hyper's own buffer is the limit of a head, too, and
/// heads need more than an answer should keep.
#[derive(Debug)]
pub(crate) struct Outlet<S> {
    stream: S,
    activity: Arc<Activity>,
}

impl<S> Outlet<S> {
    pub(crate) fn new(stream: S, activity: Arc<Activity>) -> Self {
        Self { stream, activity }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Outlet<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Outlet<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        if self.activity.is_sent() {
            // By HTTP/1.1 the task of the connection is the one that asks for the answer, too.
            context.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use axum::body::{Body, Bytes};
    use axum::http::Version;
    use axum::response::Response;
    use futures::StreamExt as _;
    use tokio::io::AsyncWriteExt as _;

    use super::*;
    use crate::activity::{PART_MAX, keep, until_its_end};

    const WHOLE: usize = 10 * PART_MAX;

    /// Reads a long answer that is never sent, and then, once it stands, says that it is sent.
    async fn bytes_until_it_stands(version: Version) -> (usize, usize) {
        let activity = Arc::<Activity>::default();
        let response = keep(Response::new(Body::from(Bytes::from(vec![0; WHOLE]))));
        let response = until_its_end(response, activity.begin(version));
        let mut parts = response.into_body().into_data_stream();
        let mut read = async || {
            let mut bytes = 0;
            while let Poll::Ready(Some(part)) = futures::poll!(parts.next()) {
                bytes += part.unwrap().len();
            }
            bytes
        };
        let first = read().await;
        let sent = Outlet::new(tokio::io::sink(), activity).flush().await;
        sent.unwrap();
        (first, read().await)
    }

    #[tokio::test]
    async fn an_answer_waits_until_its_client_has_what_was_given_out() {
        let bytes = bytes_until_it_stands(Version::HTTP_11).await;
        assert_eq!(bytes, (PART_MAX, PART_MAX));
    }

    #[tokio::test]
    async fn an_answer_by_http2_has_a_window_of_its_own() {
        let bytes = bytes_until_it_stands(Version::HTTP_2).await;
        assert_eq!(bytes, (WHOLE, 0));
    }

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Without it, an answer that waits would hang for ever.
    #[tokio::test]
    async fn a_flush_wakes_the_connection_if_an_answer_waits_for_it_and_else_not() {
        let activity = Arc::<Activity>::default();
        let response = keep(Response::new(Body::from(Bytes::from(vec![0; WHOLE]))));
        let response = until_its_end(response, activity.begin(Version::HTTP_11));
        let mut parts = response.into_body().into_data_stream();
        let mut outlet = Outlet::new(tokio::io::sink(), activity);
        let woken = Arc::<Woken>::default();
        let mut flushed = || {
            let waker = Arc::clone(&woken).into();
            let flushed = Pin::new(&mut outlet).poll_flush(&mut Context::from_waker(&waker));
            assert!(flushed.is_ready());
            woken.0.load(Ordering::Relaxed)
        };
        assert!(parts.next().await.is_some());
        assert_eq!(flushed(), 0);
        assert!(parts.next().await.is_some());
        assert!(futures::poll!(parts.next()).is_pending());
        assert_eq!(flushed(), 1);
        assert_eq!(flushed(), 1);
    }
}
