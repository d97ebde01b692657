//! The results of many runs together, as a page in Markdown with the totals first.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::args::Topology;
use super::faults::Fault;
use super::report::Operations;

/// One run, by its JSON.
#[derive(Debug, Deserialize)]
pub struct Run {
    seed: u64,
    topology: Topology,
    operations: Operations,
    faults: Vec<Times>,
    reads_compared: usize,
    undecided: usize,
    flaws: Vec<IgnoredAny>,
    missed: Vec<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct Times {
    fault: String,
    times: usize,
}

impl Run {
    /// Reads the file of a run.
    ///
    /// # Errors
    /// The file can't be read, or is not the report of a run.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{} is no report of a run", path.display()))
    }

    fn verdict(&self) -> &'static str {
        match (self.flaws.is_empty(), self.missed.is_empty()) {
            (true, true) => "good",
            (true, false) => "a planned fault never hit",
            (false, _) => "**BAD**",
        }
    }

    fn faults(&self) -> usize {
        self.faults.iter().map(|fault| fault.times).sum()
    }
}

/// Many runs.
#[derive(Debug)]
pub struct Totals(pub Vec<Run>);

impl Totals {
    fn sum(&self, of: impl Fn(&Operations) -> usize) -> usize {
        self.0.iter().map(|run| of(&run.operations)).sum()
    }

    fn stall(&self) -> f64 {
        self.0
            .iter()
            .map(|run| run.operations.stall_seconds)
            .fold(0.0, f64::max)
    }

    /// The number of times that each fault happened.
    fn faults(&self) -> BTreeMap<&str, usize> {
        let mut faults = BTreeMap::new();
        for fault in self.0.iter().flat_map(|run| &run.faults) {
            *faults.entry(fault.fault.as_str()).or_default() += fault.times;
        }
        faults
    }
}

/// `name count, name count`, the most frequent first.
fn counted(counts: BTreeMap<&str, usize>) -> String {
    let mut counts: Vec<_> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let words: Vec<String> = counts
        .iter()
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    if words.is_empty() {
        "none".to_owned()
    } else {
        words.join(", ")
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = self.faults();
        let mut kills: BTreeMap<&str, usize> = BTreeMap::new();
        for (process, times) in faults
            .iter()
            .filter_map(|(name, times)| Some((Fault::named(name)?.kills()?, times)))
        {
            *kills.entry(process).or_default() += times;
        }
        let compared: usize = self.0.iter().map(|run| run.reads_compared).sum();
        let undecided: usize = self.0.iter().map(|run| run.undecided).sum();
        let bad = self.0.iter().filter(|run| run.verdict() != "good").count();
        writeln!(
            f,
            "| runs | bad | operations | acknowledged | unknown | reads compared | faults | kills | longest stall |"
        )?;
        writeln!(f, "| --- | --- | --- | --- | --- | --- | --- | --- | --- |")?;
        writeln!(
            f,
            "| {} | {bad} | {} | {} | {} | {compared} | {} | {} | {:.1} s |",
            self.0.len(),
            self.sum(|operations| operations.all),
            self.sum(|operations| operations.acknowledged),
            self.sum(|operations| operations.unknown),
            faults.values().sum::<usize>(),
            kills.values().sum::<usize>(),
            self.stall(),
        )?;
        writeln!(f, "\n- Processes killed: {}.", counted(kills))?;
        writeln!(f, "- Faults: {}.", counted(faults))?;
        writeln!(
            f,
            "- Fields with too much of unknown outcome to be judged: {undecided}."
        )?;
        writeln!(
            f,
            "\n| topology | seed | verdict | operations | acknowledged | unknown | faults | longest stall |"
        )?;
        writeln!(f, "| --- | --- | --- | --- | --- | --- | --- | --- |")?;
        for run in &self.0 {
            let Operations {
                all,
                acknowledged,
                unknown,
                stall_seconds,
                ..
            } = &run.operations;
            let (topology, seed) = (format!("{:?}", run.topology).to_lowercase(), run.seed);
            let (verdict, faults) = (run.verdict(), run.faults());
            writeln!(
                f,
                "| {topology} | {seed} | {verdict} | {all} | {acknowledged} | {unknown} | {faults} | {stall_seconds:.1} s |"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seed: u64, faults: &[(&str, usize)], flaws: &str) -> Run {
        let faults: Vec<String> = faults
            .iter()
            .map(|(fault, times)| {
                format!(r#"{{"fault": "{fault}", "times": {times}, "phases": []}}"#)
            })
            .collect();
        let operations = r#"{"all": 10, "acknowledged": 6, "not_applied": 0, "unknown": 1, "reads": 3, "failed": 0, "flushed": 0,
            "longest_seconds": 0.5, "stall_seconds": 1.5}"#;
        let text = format!(
            r#"{{"seed": {seed}, "topology": "single", "operations": {operations}, "faults": [{}], "reads_compared": 3,
            "undecided": 0, "flaws": [{flaws}], "missed": []}}"#,
            faults.join(", ")
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn totals_sum_what_runs_did_and_name_the_bad_ones() {
        let runs = vec![
            run(1, &[("worker-kill", 2), ("db-kill", 1), ("hot-cut", 4)], ""),
            run(2, &[("worker-kill", 1)], r#"{"check": "V2"}"#),
        ];
        let page = Totals(runs).to_string();
        assert!(
            page.contains("\n| 2 | 1 | 20 | 12 | 2 | 6 | 8 | 4 | 1.5 s |\n"),
            "{page}"
        );
        assert!(
            page.contains("killed: landing worker 3, database 1."),
            "{page}"
        );
        assert!(
            page.contains("Faults: hot-cut 4, worker-kill 3, db-kill 1."),
            "{page}"
        );
        assert!(
            page.contains("\n| single | 2 | **BAD** | 10 | 6 | 1 | 1 | 1.5 s |\n"),
            "{page}"
        );
    }
}
