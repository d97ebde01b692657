//! The answers to writes that wait in a queue. Each caller gets its answer, or learns that the
//! answer is lost. One caller may wait for writes of several partitions, whose calls end apart.

use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use crate::redis::connections::transport::Answer;
use crate::redis::error::Failure;
use storage_coalesce::locked;

/// The way of a write's answer to its caller. If it is dropped without an answer, the caller learns
/// that the answer is lost, or that the write was not sent.
#[derive(Debug)]
pub(super) struct Reply {
    to: Option<To>,
    sent: bool,
}

#[derive(Debug)]
enum To {
    /// A caller that waits for one write.
    One(oneshot::Sender<Answer>),
    /// A caller that waits for several writes, and the place of this write among them.
    Several(Arc<Mutex<Several>>, usize),
}

/// The answers to several writes of one caller, which is woken once.
#[derive(Debug)]
struct Several {
    told: Vec<Option<Answer>>,
    /// How many answers are missing.
    left: usize,
    to: Option<oneshot::Sender<Vec<Answer>>>,
}

impl Reply {
    /// The reply to a caller that waits for one write.
    pub(super) fn one(to: oneshot::Sender<Answer>) -> Self {
        Self::of(To::One(to))
    }

    fn of(to: To) -> Self {
        Self {
            to: Some(to),
            sent: false,
        }
    }

    /// Notes that the write is sent. From now on it may be applied.
    pub(super) fn is_sent(&mut self) {
        self.sent = true;
    }

    pub(super) fn send(&mut self, answer: Answer) {
        // A caller that no longer waits needs no answer.
        match self.to.take() {
            Some(To::One(to)) => drop(to.send(answer)),
            Some(To::Several(several, number)) => locked(&several).put(number, answer),
            None => {}
        }
    }

    pub(super) fn is_awaited(&self) -> bool {
        match &self.to {
            Some(To::One(to)) => !to.is_closed(),
            Some(To::Several(several, _)) => locked(several)
                .to
                .as_ref()
                .is_some_and(|to| !to.is_closed()),
            None => false,
        }
    }
}

impl Several {
    fn put(&mut self, number: usize, told: Answer) {
        if let Some(slot) = self.told.get_mut(number) {
            *slot = Some(told);
            self.left -= 1;
        }
        if let Some(to) = self.to.take_if(|_| self.left == 0) {
            drop(
                to.send(
                    std::mem::take(&mut self.told)
                        .into_iter()
                        .flatten()
                        .collect(),
                ),
            );
        }
    }
}

/// `count` replies to one caller. Their answers come together, in the same order, once the last one
/// has come.
pub(super) fn replies(
    count: usize,
) -> (impl Iterator<Item = Reply>, oneshot::Receiver<Vec<Answer>>) {
    let (to, told) = oneshot::channel();
    let several = Several {
        told: (0..count).map(|_| None).collect(),
        left: count,
        to: Some(to).filter(|_| count > 0),
    };
    let several = Arc::new(Mutex::new(several));
    (
        (0..count).map(move |number| Reply::of(To::Several(Arc::clone(&several), number))),
        told,
    )
}

impl Drop for Reply {
    fn drop(&mut self) {
        let ended = "the call with this write ended without an answer".to_owned();
        self.send(Err(if self.sent {
            Failure::Lost(ended)
        } else {
            Failure::NoConnection(ended)
        }));
    }
}

/// The answer to a write that waits in a queue.
pub(super) async fn told(answered: oneshot::Receiver<Answer>) -> Answer {
    // A dropped reply gives an answer, too.
    answered.await.unwrap_or(Err(Failure::Unverified))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_is_never_answered_is_told_so() {
        for sent in [true, false] {
            let (to, told) = oneshot::channel();
            let mut reply = Reply::one(to);
            reply.sent = sent;
            drop(reply);
            let told = told.await.unwrap().unwrap_err();
            assert!(
                matches!(
                    (sent, &told),
                    (true, Failure::Lost(_)) | (false, Failure::NoConnection(_))
                ),
                "{told:?}"
            );
        }
    }

    #[tokio::test]
    async fn who_waits_for_several_is_told_once_all_are_answered_each_in_its_place() {
        let (replies, mut told) = replies(3);
        let mut replies: Vec<_> = replies.collect();
        replies[2].send(Err(Failure::TimedOut));
        replies[0].is_sent();
        drop(replies.remove(2));
        drop(replies.remove(0));
        assert!(told.try_recv().is_err() && replies[0].is_awaited());
        replies[0].send(Err(Failure::Unverified));
        let told = told.await.unwrap();
        let answers: Vec<_> = told
            .iter()
            .map(|answer| answer.as_ref().unwrap_err())
            .collect();
        assert!(
            matches!(
                answers[..],
                [Failure::Lost(_), Failure::Unverified, Failure::TimedOut]
            ),
            "{answers:?}"
        );
        let (replies, gone) = super::replies(1);
        drop(gone);
        assert!(
            replies.into_iter().all(|reply| !reply.is_awaited()),
            "nobody waits any more"
        );
        assert!(super::replies(0).1.await.is_err(), "nothing is asked");
    }
}
