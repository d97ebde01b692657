//! The one source of chance: delays, faults, choices. It keeps a trace of all events, and counts
//! the hits of each fault.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use storage_coalesce::locked;
use tokio::time::{Instant, sleep};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::fault::Fault;

/// How often each fault hit at each point. A point is a script, command or statement that was under
/// way.
pub type Hits = BTreeMap<(Fault, &'static str), u64>;

/// Chance, from one seed. Share it behind an `Arc`.
#[derive(Debug)]
pub struct Chance {
    state: Mutex<State>,
    begun: Instant,
    prints: bool,
}

#[derive(Debug)]
struct State {
    random: StdRng,
    weather: Weather,
    hits: Hits,
    under_way: BTreeMap<&'static str, u32>,
    events: u64,
    trace: u64,
}

/// The character of a seed: the length of delays, the faults, and the point where they come most.
#[derive(Debug, Clone, Default)]
pub struct Weather {
    /// The longest time that any step takes by itself, in milliseconds.
    pub delay_max: u64,
    /// The faults that may happen. Each hits at this number of a million points.
    pub faults: BTreeMap<Fault, u32>,
    /// The point where faults come more often and every step takes longer, both by the factor
    /// `FOCUS`.
    pub focus: Option<&'static str>,
}

/// The factor by which faults come more often at the focus, and by which steps take longer there.
const FOCUS: u32 = 15;
/// One fault hits at most this number of a million points, so that the system makes progress.
const FAULT_MAX: u32 = 400_000;
/// The longest time that any step takes by itself, in milliseconds. It is shorter than every
/// timeout for a missing answer.
const LONGEST: u64 = 400;

/// A step that is under way until this is dropped.
#[derive(Debug)]
pub struct UnderWay<'a> {
    chance: &'a Chance,
    point: &'static str,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(count) = self.chance.state().under_way.get_mut(self.point) {
            *count -= 1;
        }
    }
}

impl Chance {
    /// Chance from this seed. Nothing happens until [`Chance::turn`].
    #[must_use]
    pub fn new(seed: u64, prints: bool) -> Arc<Self> {
        let state = State {
            random: StdRng::seed_from_u64(seed),
            weather: Weather::default(),
            hits: Hits::new(),
            under_way: BTreeMap::new(),
            events: 0,
            trace: seed,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            begun: Instant::now(),
            prints,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Sets the weather from now on.
    pub fn turn(&self, weather: Weather) {
        self.state().weather = weather;
    }

    /// The time that has passed.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// A number below `end`, or 0.
    pub fn below(&self, end: u64) -> u64 {
        self.state().random.random_range(0..end.max(1))
    }

    /// One of these values.
    ///
    /// # Panics
    /// There is none.
    #[expect(
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        reason = "the index is below the length"
    )]
    pub fn one<'a, T>(&self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }

    /// Whether an event with a chance of `of` in a million happens.
    pub fn millionth(&self, of: u32) -> bool {
        self.below(1_000_000) < u64::from(of)
    }

    /// A time between these, in milliseconds.
    pub fn millis(&self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to.saturating_sub(from).saturating_add(1)))
    }

    /// Lets other tasks go first for a random time. A slow process waits this factor longer.
    pub async fn delay(&self, point: &'static str, slowness: u64) {
        let (delay_max, is_focus) = {
            let Weather {
                delay_max, focus, ..
            } = self.state().weather;
            (delay_max, focus == Some(point))
        };
        let slowness = slowness * if is_focus { u64::from(FOCUS) } else { 1 };
        match if delay_max == 0 {
            0
        } else {
            self.below(2 * delay_max)
        } {
            long if long > delay_max => {
                sleep(Duration::from_millis(
                    (long - delay_max) * slowness.min(LONGEST / delay_max),
                ))
                .await
            }
            0 => {}
            _ => tokio::task::yield_now().await,
        }
    }

    /// The one of these faults that happens here, if any.
    pub fn fault(&self, point: &'static str, of: &[Fault]) -> Option<Fault> {
        let chances: Vec<(Fault, u32)> = {
            let Weather { faults, focus, .. } = &self.state().weather;
            if faults.is_empty() {
                return None;
            }
            let times = if *focus == Some(point) { FOCUS } else { 1 };
            of.iter()
                .filter_map(|fault| Some((*fault, (faults.get(fault)? * times).min(FAULT_MAX))))
                .collect()
        };
        let mut drawn = self.below(1_000_000);
        for (fault, chance) in chances {
            match drawn.checked_sub(u64::from(chance)) {
                Some(rest) => drawn = rest,
                None => {
                    self.hit(fault, point);
                    return Some(fault);
                }
            }
        }
        None
    }

    /// Counts a fault at a point.
    pub fn hit(&self, fault: Fault, point: &'static str) {
        *self.state().hits.entry((fault, point)).or_default() += 1;
        self.note("fault", || format!("{fault} at {point}"));
    }

    /// Counts a fault at all points that are under way.
    pub fn hit_all(&self, fault: Fault) {
        let points: BTreeSet<&'static str> = self
            .state()
            .under_way
            .iter()
            .filter(|(_, count)| **count > 0)
            .map(|(point, _)| *point)
            .collect();
        for point in points.into_iter().chain(["any time"]) {
            self.hit(fault, point);
        }
    }

    /// A step begins.
    pub fn begin(&self, point: &'static str) -> UnderWay<'_> {
        *self.state().under_way.entry(point).or_default() += 1;
        UnderWay {
            chance: self,
            point,
        }
    }

    /// Adds an event to the trace.
    pub fn note(&self, kind: &str, text: impl FnOnce() -> String) {
        let text = text();
        let at = self.begun.elapsed();
        let mut state = self.state();
        state.events += 1;
        let millis = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        state.trace = xxh3_64_with_seed(text.as_bytes(), state.trace.rotate_left(9) ^ millis);
        if self.prints {
            eprintln!("{:>10.3} {kind:<8} {text}", at.as_secs_f64());
        }
    }

    /// Adds bytes to the trace.
    pub fn digest(&self, bytes: &[u8]) {
        let mut state = self.state();
        state.events += 1;
        state.trace = xxh3_64_with_seed(bytes, state.trace);
    }

    /// The number of events, and a number that stands for all of them in their order.
    pub fn trace(&self) -> (u64, u64) {
        let state = self.state();
        (state.events, state.trace)
    }

    /// How often each fault hit at each point.
    pub fn hits(&self) -> Hits {
        self.state().hits.clone()
    }
}

impl fmt::Display for Chance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (events, trace) = self.trace();
        write!(f, "{events} events, trace {trace:016x}")
    }
}
