//! Breadth-first search through all states that a model can reach, for the shortest way to a
//! violation.

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::time::{Duration, Instant};

/// The subject of a search.
pub trait Model {
    /// Everything that decides the next steps.
    type State: Clone + Hash;

    /// The first state.
    fn start(&self) -> Self::State;

    /// All next steps: each step's name, and the state after it or the violation that the step
    /// showed.
    fn steps(&self, state: &Self::State, take: &mut dyn FnMut(Step, Result<Self::State, String>));

    /// The condition on all states that does not hold in this state.
    fn violation(&self, state: &Self::State) -> Option<String>;
}

/// The name of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The actor of the step.
    pub who: &'static str,
    /// The number of the actor among its kind.
    pub number: usize,
    /// The action.
    pub what: &'static str,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.who, self.number, self.what)
    }
}

/// The result of a search.
#[derive(Debug)]
pub struct Searched {
    /// The number of states that were reached.
    pub states: usize,
    /// The most steps that lead to a state by the shortest way.
    pub depth: usize,
    /// Whether these are all states. Otherwise the search ended early.
    pub complete: bool,
    /// The time that it took.
    pub elapsed: Duration,
    /// The shortest way to a violation.
    pub counterexample: Option<Counterexample>,
}

/// A way to a violation.
#[derive(Debug)]
pub struct Counterexample {
    /// The steps, in order.
    pub script: Vec<Step>,
    /// The violation.
    pub violation: String,
}

impl fmt::Display for Searched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = if self.complete { "all of " } else { "" };
        write!(
            f,
            "{whole}{} states, {} steps deep, {:.1} s",
            self.states,
            self.depth,
            self.elapsed.as_secs_f64()
        )?;
        let Some(Counterexample { script, violation }) = &self.counterexample else {
            return Ok(());
        };
        write!(f, "; {violation}, after {} steps:", script.len())?;
        script
            .iter()
            .enumerate()
            .try_for_each(|(at, step)| write!(f, "\n  {:2} {step}", at + 1))
    }
}

/// The origin of a state: the state before it, and the step.
struct Reached {
    from: usize,
    by: Step,
}

/// Searches until all states are known, a violation is found, or there are more than `states_max`
/// states.
///
/// States are compared by a hash of 64 bits. Among a million states, two share a hash with a
/// probability of less than 10⁻⁷.
pub fn search<M: Model>(model: &M, states_max: usize) -> Searched {
    let begun = Instant::now();
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let start = model.start();
    let mut seen: HashSet<u64> = HashSet::from([hasher.hash_one(&start)]);
    let mut reached = vec![Reached {
        from: 0,
        by: Step {
            who: "",
            number: 0,
            what: "",
        },
    }];
    let mut level = vec![(0, start)];
    let mut depth = 0;
    let mut found = None;
    while !level.is_empty() && found.is_none() && reached.len() <= states_max {
        let mut next = Vec::new();
        for (at, state) in &level {
            if let Some(violation) = model.violation(state) {
                found = Some((*at, None, violation));
                break;
            }
            model.steps(state, &mut |by, result| match result {
                Ok(state) => {
                    if seen.insert(hasher.hash_one(&state)) {
                        next.push((reached.len(), state));
                        reached.push(Reached { from: *at, by });
                    }
                }
                Err(violation) => drop(found.get_or_insert((*at, Some(by), violation))),
            });
            if found.is_some() {
                break;
            }
        }
        depth += usize::from(!next.is_empty());
        level = next;
    }
    let complete = level.is_empty() && found.is_none();
    let counterexample = found.map(|(at, last, violation)| Counterexample {
        script: way(&reached, at).into_iter().chain(last).collect(),
        violation,
    });
    Searched {
        states: reached.len(),
        depth,
        complete,
        elapsed: begun.elapsed(),
        counterexample,
    }
}

/// The steps from the start to a state.
fn way(reached: &[Reached], mut at: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    while let Some(Reached { from, by }) = reached.get(at).filter(|_| at > 0) {
        steps.push(*by);
        at = *from;
    }
    steps.reverse();
    steps
}
