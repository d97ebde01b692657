//! All cases, in the order of the table that they make.

mod keys;
mod owners;
mod stalls;

use storage_tests::bench::case::{Case, Goal, Judged};

/// Every case.
#[must_use]
pub fn all() -> Vec<Box<dyn Case>> {
    vec![keys::one(), keys::hundred(), owners::hit(), stalls::case()]
}

/// The number of callers.
const CALLERS: usize = 64;

fn at_least(must: f64, aim: f64) -> Goal {
    Goal {
        judged: Judged::RatioAtLeast,
        must,
        aim,
    }
}

fn at_most(must: f64, aim: f64) -> Goal {
    Goal {
        judged: Judged::RatioAtMost,
        must,
        aim,
    }
}
