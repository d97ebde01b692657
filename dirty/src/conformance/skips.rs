//! The cases that an engine can't run.

use std::collections::BTreeSet;

/// A case that an engine's test file declares as skipped, as "concept::case", and the reason.
pub type Skip = (&'static str, &'static str);

/// Whether a case is declared as skipped. Prints the reason.
#[must_use]
pub fn is_skipped(skips: &[Skip], case: &str) -> bool {
    let declared = skips.iter().find(|(skipped, _)| *skipped == case);
    if let Some((_, reason)) = declared {
        println!("skipped: {reason}");
    }
    declared.is_some()
}

/// Prints for each case of an engine whether it runs, or why it does not.
///
/// # Panics
/// A declaration names no case, a case that is declared twice, or no reason.
pub fn print_table(engine: &str, cases: &[&str], skips: &[Skip]) {
    let mut declared = BTreeSet::new();
    for (case, reason) in skips {
        assert!(cases.contains(case), "{engine}: there is no case {case}");
        assert!(declared.insert(case), "{engine}: {case} is declared twice");
        assert!(!reason.is_empty(), "{engine}: {case} has no reason");
    }
    for case in cases {
        let skip = skips.iter().find(|(skipped, _)| skipped == case);
        let state = skip.map_or_else(
            || "runs".to_owned(),
            |(_, reason)| format!("skipped: {reason}"),
        );
        println!("{engine} | {case} | {state}");
    }
}
