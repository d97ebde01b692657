//! The cases that an engine can't run.

use std::io::Write as _;

/// Prints a table of an engine's skipped cases with their reasons. The output is not captured, so
/// that each run of the suite shows it.
///
/// # Panics
/// A skipped case is not in the suite, is declared twice, or has no reason.
pub fn table(engine: &str, cases: &[&str], skipped: &[(&str, &str)]) {
    let mut table = format!(
        "{engine}: {} of {} cases skipped\n",
        skipped.len(),
        cases.len()
    );
    for (number, (case, reason)) in skipped.iter().enumerate() {
        assert!(cases.contains(case), "{engine}: there is no case {case}");
        assert!(!reason.is_empty(), "{engine}: {case} has no reason");
        assert!(
            skipped[..number].iter().all(|(other, _)| other != case),
            "{engine}: {case} is declared twice"
        );
        table.push_str(&format!("  {case:<64} {reason}\n"));
    }
    std::io::stderr().write_all(table.as_bytes()).unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "there is no case b")]
    fn a_skipped_case_that_does_not_exist_fails() {
        table("engine", &["a"], &[("b", "why")]);
    }

    #[test]
    #[should_panic(expected = "a has no reason")]
    fn a_skipped_case_without_a_reason_fails() {
        table("engine", &["a"], &[("a", "")]);
    }
}
