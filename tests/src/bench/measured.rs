//! The results of a case's repetitions.

use serde::Serialize;

use super::case::{Figure, Goal, Judged, Plan, Sample};
use super::cpu::Cpu;
use super::stats::{Spread, percentile};

/// One repetition of one side.
#[derive(Debug, Clone)]
pub struct Repetition {
    /// Its result.
    pub sample: Sample,
    /// Its CPU time.
    pub cpu: Cpu,
    /// Its whole time, in microseconds of all cores.
    pub capacity: f64,
}

impl Repetition {
    #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
    fn operations(&self) -> f64 {
        self.sample.operations as f64
    }

    fn figure(&self, figure: Figure) -> f64 {
        match figure {
            Figure::Rate => self.operations() / self.sample.seconds.max(f64::MIN_POSITIVE),
            Figure::RedisMicros => self.cpu.redis / self.operations().max(1.0),
            Figure::AllMicros => self.cpu.all() / self.operations().max(1.0),
            Figure::Counted => self.sample.counted,
        }
    }
}

/// All repetitions of one side.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// Its figures.
    pub figure: Spread,
    /// The time below which half of all calls stayed, in microseconds. None if calls were not timed
    /// one by one.
    pub p50_micros: Option<f64>,
    /// The same for 99 of 100 calls.
    pub p99_micros: Option<f64>,
    /// CPU time for each operation, in microseconds, over all repetitions.
    pub cpu_micros: Cpu,
    /// This CPU time as a part of the time of all cores, 0 to 1.
    pub share: Cpu,
}

impl Summary {
    fn of(figure: Figure, repetitions: &[Repetition]) -> Self {
        let mut latencies: Vec<u32> = repetitions
            .iter()
            .flat_map(|one| one.sample.latencies.iter().copied())
            .collect();
        latencies.sort_unstable();
        let micros = |percent| percentile(&latencies, percent).map(|nanos| f64::from(nanos) / 1e3);
        let cpu = repetitions
            .iter()
            .fold(Cpu::default(), |sum, one| sum.plus(&one.cpu));
        Self {
            figure: Spread::of(repetitions.iter().map(|one| one.figure(figure))),
            p50_micros: micros(50),
            p99_micros: micros(99),
            cpu_micros: cpu.each(repetitions.iter().map(Repetition::operations).sum()),
            share: cpu.each(repetitions.iter().map(|one| one.capacity).sum()),
        }
    }
}

/// Whether a goal was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// The goal was not reached.
    NotMet,
    /// The value that must be reached was reached.
    Met,
    /// The aim was reached.
    AimMet,
}

/// The goal of a case, and how far it was reached.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Judgement {
    /// The goal.
    pub goal: Goal,
    /// The value that is compared with the goal: the median of ratios, of our figures, or of
    /// differences.
    pub value: f64,
    /// Whether the goal was reached.
    pub verdict: Verdict,
}

/// The result of a case.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// The work of our side.
    pub what_ours_does: String,
    /// The work of the baseline.
    pub what_baseline_does: String,
    /// The unit of both figures.
    pub unit: &'static str,
    /// Our figures.
    pub ours: Summary,
    /// The baseline's.
    pub baseline: Summary,
    /// Ours divided by the baseline's, of neighbouring repetitions.
    pub ratio: Spread,
    /// The judgement, if the case has a goal.
    pub judgement: Option<Judgement>,
    /// The number of repetitions of each side.
    pub repetitions: usize,
    /// The part of the machine's CPU time that other processes used during the case, 0 to 1.
    pub foreign: f64,
    /// The baseline's median divided by its best repetition, which stands for a quiet machine.
    pub steadiness: f64,
    /// The number of rounds until the machine was quiet, or the case was given up.
    pub rounds: usize,
}

/// If other processes use more of the machine than this, the figures are doubtful.
pub const FOREIGN_MAX: f64 = 0.1;
/// If a baseline's median is this far below its best, the machine is not quiet.
const STEADINESS_MIN: f64 = 0.7;

impl Measured {
    /// The results of the repetitions of both sides. The n-th of one side belongs to the n-th of
    /// the other.
    #[must_use]
    pub fn of(plan: &Plan, ours: &[Repetition], baseline: &[Repetition], rounds: usize) -> Self {
        let pairs = || {
            ours.iter()
                .zip(baseline)
                .map(|(a, b)| (a.figure(plan.figure), b.figure(plan.figure)))
        };
        let ratio = Spread::of(pairs().map(|(a, b)| a / b.max(f64::MIN_POSITIVE)));
        let (mine, theirs) = (
            Summary::of(plan.figure, ours),
            Summary::of(plan.figure, baseline),
        );
        let value = |judged| match judged {
            Judged::RatioAtLeast | Judged::RatioAtMost => ratio.median,
            Judged::OursAtMost => mine.figure.median,
            Judged::ExcessAtMost => Spread::of(pairs().map(|(a, b)| a - b)).median,
        };
        let judgement = plan.goal.map(|goal| goal.judge(value(goal.judged)));
        let all = || ours.iter().chain(baseline);
        let foreign: f64 = all().map(|one| one.cpu.foreign()).sum();
        let capacity: f64 = all().map(|one| one.capacity).sum();
        let (quiet, median) = match plan.figure {
            Figure::Rate => (theirs.figure.greatest, theirs.figure.median),
            _ => (1.0, 1.0),
        };
        Self {
            name: plan.name.clone(),
            what_ours_does: plan.ours.clone(),
            what_baseline_does: plan.baseline.clone(),
            unit: plan.unit,
            ours: mine,
            baseline: theirs,
            ratio,
            judgement,
            repetitions: ours.len(),
            foreign: foreign / capacity.max(1.0),
            steadiness: median / quiet.max(f64::MIN_POSITIVE),
            rounds,
        }
    }

    /// The reason why the machine was not quiet, if it was not.
    #[must_use]
    pub fn disturbed(&self) -> Option<String> {
        if self.foreign > FOREIGN_MAX {
            return Some(format!(
                "others used {:.0} % of the machine",
                self.foreign * 100.0
            ));
        }
        let below = (1.0 - self.steadiness) * 100.0;
        (self.steadiness < STEADINESS_MIN)
            .then(|| format!("the baseline's median is {below:.0} % below its best"))
    }
}

impl Goal {
    fn judge(self, value: f64) -> Judgement {
        Judgement {
            goal: self,
            value,
            verdict: self.verdict(value),
        }
    }

    fn verdict(&self, value: f64) -> Verdict {
        let reached = |bound: f64| match self.judged {
            Judged::RatioAtLeast => value >= bound,
            Judged::RatioAtMost | Judged::OursAtMost | Judged::ExcessAtMost => value <= bound,
        };
        match (reached(self.must), reached(self.aim)) {
            (_, true) => Verdict::AimMet,
            (true, false) => Verdict::Met,
            (false, false) => Verdict::NotMet,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::case::Repetitions;

    fn repetition(operations: u64, foreign: f64) -> Repetition {
        let sample = Sample {
            operations,
            seconds: 1.0,
            latencies: vec![1_000; 2],
            counted: 0.0,
        };
        let cpu = Cpu {
            client: 100.0,
            redis: 50.0,
            machine: 150.0 + foreign,
            ..Cpu::default()
        };
        Repetition {
            sample,
            cpu,
            capacity: 1_000.0,
        }
    }

    fn measured(ours: &[u64], baseline: &[u64], foreign: f64) -> Measured {
        let goal = Goal {
            judged: Judged::RatioAtLeast,
            must: 0.5,
            aim: 0.7,
        };
        measured_with(goal, ours, baseline, foreign)
    }

    fn measured_with(
        goal: impl Into<Option<Goal>>,
        ours: &[u64],
        baseline: &[u64],
        foreign: f64,
    ) -> Measured {
        let all = |counts: &[u64]| {
            counts
                .iter()
                .map(|count| repetition(*count, foreign))
                .collect::<Vec<_>>()
        };
        let plan = Plan {
            name: "a".to_owned(),
            ours: String::new(),
            baseline: String::new(),
            figure: Figure::Rate,
            unit: "updates/s",
            goal: goal.into(),
            repetitions: Repetitions::Many,
        };
        Measured::of(&plan, &all(ours), &all(baseline), 1)
    }

    #[test]
    fn the_ratio_is_the_median_of_neighbours_and_not_the_ratio_of_medians() {
        let measured = measured(&[60, 50, 90], &[100, 200, 100], 0.0);
        assert_eq!(
            (
                measured.ratio.least,
                measured.ratio.median,
                measured.ratio.greatest
            ),
            (0.25, 0.6, 0.9)
        );
        let judgement = measured.judgement.unwrap();
        assert_eq!((judgement.verdict, judgement.value), (Verdict::Met, 0.6));
        assert_eq!(measured.ours.p99_micros, Some(1.0));
        assert_eq!(measured.baseline.cpu_micros.redis, 150.0 / 400.0);
    }

    #[test]
    fn a_goal_is_met_from_its_bound_on() {
        let at_least = Goal {
            judged: Judged::RatioAtLeast,
            must: 0.5,
            aim: 0.7,
        };
        let at_most = Goal {
            judged: Judged::OursAtMost,
            must: 0.7,
            aim: 0.5,
        };
        assert_eq!(
            [0.49, 0.5, 0.7].map(|value| at_least.verdict(value)),
            [Verdict::NotMet, Verdict::Met, Verdict::AimMet]
        );
        assert_eq!(
            [0.71, 0.7, 0.5].map(|value| at_most.verdict(value)),
            [Verdict::NotMet, Verdict::Met, Verdict::AimMet]
        );
    }

    #[test]
    fn a_case_without_a_goal_is_shown_and_not_judged() {
        let measured = measured_with(None, &[60, 50, 90], &[100, 200, 100], 0.0);
        assert_eq!(measured.ratio.median, 0.6);
        assert_eq!(measured.verdict(), None);
        assert_eq!(measured.verdict_text(), "no goal");
    }

    #[test]
    fn other_load_and_a_baseline_far_below_its_best_are_told() {
        assert_eq!(measured(&[1, 1, 1], &[10, 10, 10], 50.0).disturbed(), None);
        assert_eq!(
            measured(&[1, 1, 1], &[10, 10, 10], 500.0)
                .disturbed()
                .unwrap(),
            "others used 50 % of the machine"
        );
        let text = measured(&[1, 1, 1], &[6, 6, 10], 0.0).disturbed().unwrap();
        assert_eq!(text, "the baseline's median is 40 % below its best");
    }
}
