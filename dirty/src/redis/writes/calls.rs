//! The numbered calls of one store in one partition (R11).
//!
//! Writes of a partition that go together are one call. The server keeps the number and the answer
//! of a store's last call, so no write needs an id there. A store has one call open at a time. If
//! its answer is lost, the store ends the call. The server then returns the answer, or makes sure
//! that it never carries the call out. Only then does the next call get its number. If the lost
//! call was void, its writes are sent again.

use std::collections::BTreeMap;

use storage_model::{OpId, times};
use tokio::time::Instant;

/// The calls of one store in one partition. `A` is the answer to a write.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Calls<A> {
    last: u64,
    open: Option<Open>,
    fates: BTreeMap<OpId, (Fate<A>, Instant)>,
}

/// A call without an answer yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Open {
    number: u64,
    writes: Vec<OpId>,
}

/// The fate of a write whose call was lost.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Fate<A> {
    /// Its call was carried out, with this answer.
    Answered(A),
    /// Its call was void. The write may go in another call.
    Void,
    /// The write was sent apart, under its id.
    Apart,
}

impl<A> Default for Calls<A> {
    fn default() -> Self {
        Self {
            last: 0,
            open: None,
            fates: BTreeMap::new(),
        }
    }
}

impl<A> Calls<A> {
    /// Begins a call of these writes and returns its number. Fails if a call is open, which must be
    /// ended first.
    ///
    /// # Errors
    /// The number of the open call.
    pub fn begin(&mut self, writes: Vec<OpId>) -> Result<u64, u64> {
        match &self.open {
            Some(open) => Err(open.number),
            None => {
                // The fate of an earlier call of a write says nothing of this call.
                self.heard(writes.iter().copied());
                self.last += 1;
                self.open = Some(Open {
                    number: self.last,
                    writes,
                });
                Ok(self.last)
            }
        }
    }

    /// Closes a call: its answer came, or it was not sent.
    pub fn close(&mut self, number: u64) {
        self.open.take_if(|open| open.number == number);
    }

    /// The number of the open call, if there is one.
    #[must_use]
    pub fn open(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.number)
    }

    /// Forgets the fates of these writes, since they were answered.
    pub fn heard(&mut self, writes: impl IntoIterator<Item = OpId>) {
        if !self.fates.is_empty() {
            writes
                .into_iter()
                .for_each(|id| drop(self.fates.remove(&id)));
        }
    }

    /// Notes that a call was ended. It had these answers, or was void. Changes nothing if the
    /// call's own answer came meanwhile.
    pub fn ended(&mut self, number: u64, answers: Option<Vec<A>>, now: Instant) {
        let Some(open) = self.open.take_if(|open| open.number == number) else {
            return;
        };
        self.fates
            .retain(|_, (_, since)| now.saturating_duration_since(*since) < times::FATES);
        let mut answers = answers.map(Vec::into_iter);
        for id in open.writes {
            let fate = match &mut answers {
                None => Fate::Void,
                Some(answers) => match answers.next() {
                    Some(answer) => Fate::Answered(answer),
                    None => continue,
                },
            };
            self.fates.insert(id, (fate, now));
        }
    }

    /// Notes that a write was sent apart, and that its answer is lost.
    pub fn sent_apart(&mut self, id: OpId, now: Instant) {
        self.fates
            .retain(|_, (_, since)| now.saturating_duration_since(*since) < times::FATES);
        self.fates.insert(id, (Fate::Apart, now));
    }

    /// The number of the open call, if the write is one of its writes.
    #[must_use]
    pub fn open_with(&self, id: OpId) -> Option<u64> {
        self.open
            .as_ref()
            .filter(|open| open.writes.contains(&id))
            .map(|open| open.number)
    }

    /// The fate of a write whose call was lost. It stays known until the write goes in another
    /// call.
    #[must_use]
    pub fn fate(&self, id: OpId) -> Option<Fate<A>>
    where
        A: Clone,
    {
        self.fates.get(&id).map(|(fate, _)| fate.clone())
    }

    /// Whether a write was sent apart. A copy under its id may still be on its way.
    #[must_use]
    pub fn is_apart(&self, id: OpId) -> bool {
        !self.fates.is_empty() && matches!(self.fates.get(&id), Some((Fate::Apart, _)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> OpId {
        OpId::new([number; 16])
    }

    #[test]
    fn no_call_begins_while_one_is_open() {
        let mut calls = Calls::<&str>::default();
        assert_eq!(calls.begin(vec![id(1)]), Ok(1));
        assert_eq!(calls.begin(vec![id(2)]), Err(1));
        assert_eq!(
            (calls.open_with(id(1)), calls.open_with(id(2))),
            (Some(1), None)
        );
        calls.close(1);
        assert_eq!(calls.begin(vec![id(2)]), Ok(2));
        calls.close(1);
        assert_eq!(
            calls.begin(vec![id(3)]),
            Err(2),
            "a late answer closes no other call"
        );
    }

    #[test]
    fn the_fate_of_an_earlier_call_is_forgotten_when_a_write_goes_in_another() {
        let now = Instant::now();
        let mut calls = Calls::default();
        let number = calls.begin(vec![id(1)]).unwrap();
        calls.ended(number, Some(vec!["moved"]), now);
        let number = calls.begin(vec![id(1)]).unwrap();
        assert_eq!(
            (calls.fate(id(1)), calls.open_with(id(1))),
            (None, Some(number))
        );
    }

    #[test]
    fn each_write_of_an_ended_call_is_told_its_fate() {
        let now = Instant::now();
        let mut calls = Calls::default();
        let number = calls.begin(vec![id(1), id(2)]).unwrap();
        calls.ended(number, Some(vec!["one", "two"]), now);
        calls.ended(number, None, now);
        for _ in 0..2 {
            assert_eq!(calls.fate(id(2)), Some(Fate::Answered("two")));
        }
        assert_eq!(
            calls.fate(id(1)),
            Some(Fate::Answered("one")),
            "the first end counts"
        );
        calls.heard([id(1)]);
        assert_eq!(calls.fate(id(1)), None);
        let number = calls.begin(vec![id(3), id(4)]).unwrap();
        calls.ended(number, None, now);
        assert_eq!(calls.fate(id(3)), Some(Fate::Void));
        calls.sent_apart(id(3), now + times::FATES);
        assert_eq!(
            (calls.fate(id(3)), calls.fate(id(4))),
            (Some(Fate::Apart), None),
            "fates are forgotten in time"
        );
        assert!(calls.is_apart(id(3)) && !calls.is_apart(id(4)));
    }
}
