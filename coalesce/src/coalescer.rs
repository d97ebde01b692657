//! Callers join the next group of their key. A carrier takes the waiting groups in batches.
//!
//! A caller joins only a group that has not begun. So an answer is never older than its call. A key
//! has one group under way at a time, and its further callers wait for the next one.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex};

use tokio::sync::{Semaphore, oneshot};

use super::locked;

/// The callers that wait, by key. Clones share them.
pub struct Coalescer<K, In, Out>(Arc<Shared<K, In, Out>>);

struct Shared<K, In, Out> {
    /// Held for moments only, never across an await.
    state: Mutex<State<K, In, Out>>,
    /// The carriers that may work at once.
    turns: Semaphore,
    keys_max: usize,
    weight_max: usize,
    weigh: fn(&In) -> usize,
    /// Whether the work of callers that went away is done all the same.
    keeps_abandoned: bool,
}

struct State<K, In, Out> {
    /// The waiting callers of each key that has some, or a group under way.
    waiting: BTreeMap<K, Vec<Member<In, Out>>>,
    /// The keys with waiting callers and no group under way.
    ready: VecDeque<K>,
    /// Carriers that have not ended, including those that wait for their turn.
    carriers: usize,
}

/// A caller that waits.
struct Member<In, Out> {
    input: In,
    answer: oneshot::Sender<Out>,
}

/// The callers of one key whose work is under way. If it is dropped without an answer, they learn
/// that there is none. Its end makes way for the next group of the key.
pub struct Group<K: Ord + Clone, In, Out> {
    key: K,
    members: Vec<Member<In, Out>>,
    shared: Arc<Shared<K, In, Out>>,
}

/// The right to carry batches. When the last carrier of a coalescer is dropped, the callers that
/// still wait learn that there is no answer. Otherwise they would wait for ever, and so would the
/// later callers that join them.
pub struct Carrier<K, In, Out>(Arc<Shared<K, In, Out>>);

impl<K: Ord + Clone, In, Out> Coalescer<K, In, Out> {
    /// At most `carriers` batches are under way at once, each with groups of up to `keys` keys. The
    /// work of a caller that goes away is done all the same.
    #[must_use]
    pub fn new(carriers: usize, keys: usize) -> Self {
        Self::of(carriers, keys, (usize::MAX, |_| 0), true)
    }

    /// As [`Coalescer::new`], but a caller that goes away before its group begins is left out.
    #[must_use]
    pub fn of_wanted(carriers: usize, keys: usize) -> Self {
        Self::of(carriers, keys, (usize::MAX, |_| 0), false)
    }

    /// As [`Coalescer::of_wanted`], with groups of limited weight. The first input of a group may
    /// weigh more.
    #[must_use]
    pub fn of_weight(carriers: usize, keys: usize, max: usize, weigh: fn(&In) -> usize) -> Self {
        Self::of(carriers, keys, (max, weigh), false)
    }

    fn of(
        carriers: usize,
        keys_max: usize,
        (weight_max, weigh): (usize, fn(&In) -> usize),
        keeps_abandoned: bool,
    ) -> Self {
        let state = State {
            waiting: BTreeMap::new(),
            ready: VecDeque::new(),
            carriers: 0,
        };
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            turns: Semaphore::new(carriers),
            keys_max,
            weight_max,
            weigh,
            keeps_abandoned,
        }))
    }

    /// Joins the next group of a key. The caller spawns the carrier, if there is one. Otherwise an
    /// earlier carrier takes the group.
    ///
    /// The receiver fails if the work panics, or if the runtimes of all carriers end.
    pub fn join(&self, key: K, input: In) -> (oneshot::Receiver<Out>, Option<Carrier<K, In, Out>>) {
        let (answered, carrier, begins) = self.add(key, input);
        (answered, Some(carrier).filter(|_| begins))
    }

    /// As [`Coalescer::join`], always with a carrier. Then the end of another caller's runtime
    /// leaves no group without one.
    pub fn join_with_carrier(
        &self,
        key: K,
        input: In,
    ) -> (oneshot::Receiver<Out>, Carrier<K, In, Out>) {
        let (answered, carrier, _) = self.add(key, input);
        (answered, carrier)
    }

    /// The flag tells whether the caller begins a group that no carrier takes yet.
    fn add(&self, key: K, input: In) -> (oneshot::Receiver<Out>, Carrier<K, In, Out>, bool) {
        let (answer, answered) = oneshot::channel();
        let (member, mut state) = (Member { input, answer }, locked(&self.0.state));
        let next = state.waiting.get_mut(&key);
        let begins = next.is_none();
        if let Some(waiting) = next {
            waiting.push(member);
        } else {
            state.waiting.insert(key.clone(), vec![member]);
            state.ready.push_back(key);
        }
        state.carriers += 1;
        (answered, Carrier(Arc::clone(&self.0)), begins)
    }
}

impl<K: Ord + Clone, In, Out> Shared<K, In, Out> {
    /// The next batch.
    fn take(self: &Arc<Self>) -> Vec<Group<K, In, Out>> {
        let mut batch = Vec::new();
        let mut state = locked(&self.state);
        while batch.len() < self.keys_max
            && let Some(key) = state.ready.pop_front()
        {
            let Some(waiting) = state.waiting.get_mut(&key) else {
                continue;
            };
            if !self.keeps_abandoned {
                waiting.retain(|member| !member.answer.is_closed());
            }
            let count = self.fitting(waiting);
            if count == 0 {
                state.waiting.remove(&key);
                continue;
            }
            batch.push(Group {
                members: waiting.drain(..count).collect(),
                shared: Arc::clone(self),
                key,
            });
        }
        batch
    }

    /// How many of these callers go together.
    fn fitting(&self, waiting: &[Member<In, Out>]) -> usize {
        let mut weight = 0_usize;
        let fits = |member: &&Member<In, Out>| {
            weight = weight.saturating_add((self.weigh)(&member.input));
            weight <= self.weight_max
        };
        waiting
            .iter()
            .take_while(fits)
            .count()
            .max(1)
            .min(waiting.len())
    }
}

impl<K: Ord + Clone, In, Out> Carrier<K, In, Out> {
    /// Carries batches until no group is ready. The work answers its groups.
    ///
    /// # Cancel safety
    /// The callers of a batch under way learn that there is no answer. Other carriers take the
    /// groups that have not begun.
    pub async fn carry<W: Future<Output = ()>>(
        self,
        mut work: impl FnMut(Vec<Group<K, In, Out>>) -> W,
    ) {
        let Ok(_turn) = self.0.turns.acquire().await else {
            return;
        };
        loop {
            let batch = self.0.take();
            if batch.is_empty() {
                return;
            }
            work(batch).await;
        }
    }
}

impl<K: Ord + Clone, In, Out> Group<K, In, Out> {
    /// The key of all its callers.
    #[must_use]
    pub fn key(&self) -> &K {
        &self.key
    }

    /// The inputs of the callers, in the order in which they joined.
    pub fn inputs(&self) -> impl Iterator<Item = &In> {
        self.members.iter().map(|member| &member.input)
    }

    /// Answers each caller, in the order of the inputs.
    pub fn answer(mut self, answers: impl IntoIterator<Item = Out>) {
        for (member, answer) in self.members.drain(..).zip(answers) {
            // A caller that went away needs no answer.
            let _ = member.answer.send(answer);
        }
    }

    /// Gives all callers the same answer.
    pub fn answer_all(self, answer: Out)
    where
        Out: Clone,
    {
        let count = self.members.len();
        self.answer(std::iter::repeat_n(answer, count));
    }
}

impl<K: Ord + Clone, In, Out> Drop for Group<K, In, Out> {
    fn drop(&mut self) {
        let mut state = locked(&self.shared.state);
        match state.waiting.get(&self.key) {
            Some(waiting) if waiting.is_empty() => drop(state.waiting.remove(&self.key)),
            Some(_) => state.ready.push_back(self.key.clone()),
            None => {}
        }
    }
}

impl<K, In, Out> Drop for Carrier<K, In, Out> {
    fn drop(&mut self) {
        let mut state = locked(&self.0.state);
        state.carriers = state.carriers.saturating_sub(1);
        if state.carriers == 0 {
            state.ready.clear();
            state.waiting.clear();
        }
    }
}

impl<K, In, Out> Clone for Coalescer<K, In, Out> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K, In, Out> fmt::Debug for Coalescer<K, In, Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = locked(&self.0.state);
        f.debug_struct("Coalescer")
            .field("keys", &state.waiting.len())
            .field("carriers", &state.carriers)
            .finish()
    }
}

#[cfg(test)]
mod tests;
