//! Switches that each break one rule on purpose, to see which test notices.
//!
//! A rule of the Rust code is broken by a change of the sources, in `tests/sabotage`. The switches
//! here are for all rules that are broken in one build: those of scripts and statements, and those
//! that the model search breaks. The Rust line that keeps such a rule says so with [`keeps`] or
//! [`is_kept`]. Without debug assertions that is the plain condition, and nothing of the switch is
//! compiled in. No release has debug assertions.
//!
//! With debug assertions, a test can break a rule for its own thread by `breaking`. With the cargo
//! feature `sabotage`, the variable `STORAGE_SABOTAGE` breaks one rule for the whole process.
//! `scripts/sabotage` tries all switches and all changes.

#[cfg(all(feature = "sabotage", not(debug_assertions)))]
compile_error!(
    "the feature `sabotage` breaks the storage's rules; it is only for tests, in builds with debug assertions"
);

/// Every switch of the code. Its name begins with the rule that it breaks, or with the hazard that
/// it lets in.
#[cfg(debug_assertions)]
pub const SWITCHES: &[&str] = &[
    "R1-unmarked",
    "R1-apart",
    "R1-list",
    "R2-expires",
    "R2-evicts",
    "R2-rejected",
    "R2-filled",
    "R2-settled",
    "R3-unguarded",
    "R3-equal",
    "R3-version-first",
    "R3-mark-version",
    "R3-apart",
    "R4-overwrite",
    "R4-whole",
    "R5-number",
    "R5-renumbered",
    "R5-any-error",
    "R5-unlocked",
    "R5-kept-error",
    "R5-older-error",
    "R5-early",
    "R5-flush",
    "R6-unproven",
    "R6-reborn",
    "R6-birth",
    "R6-gone",
    "R6-aside",
    "R6-before",
    "R6-null",
    "R7-marker",
    "R7-absent",
    "R7-unraised",
    "R7-presence",
    "R7-refill",
    "R7-row-wins",
    "R8-complete",
    "R8-trusted",
    "R8-forever",
    "R8-kept",
    "R10-half",
    "R10-rounded",
    "R11-number",
    "R11-asked",
    "R11-hasty",
    "R11-ids",
    "R11-void",
    "R11-ids-set",
    "R11-ids-incr",
    "R11-window",
    "R11-leap",
    "R11-deadline",
    "R11-new-id",
    "R11-forgotten",
    "R11-outlived",
    "R13-denied",
    "R13-evicted",
    "R14-fence",
    "R14-incarnation",
    "R14-source",
    "R14-given-again",
    "R14-early",
    "R14-joined",
    "R14-generation",
    "R14-unraised",
    "R14-raised-blindly",
    "R14-adopted-blindly",
    "R14-adopted-late",
    "R14-adopted-after",
    "R14-alone",
    "R14-replaced",
    "R14-stamp",
    "R14-behind",
    "R14-older",
    "R14-landed-since",
    "R14-whole",
    "R14-watched",
    "R14-unnamed",
    "R14-own-raise",
    "R14-unstamped",
    "R14-suspect",
    "R14-trusting",
    "R14-untold",
    "R14-on-its-way",
    "R14-sessions",
    "R14-absent",
    "R14-marker",
    "R15-guess",
    "R15-version",
    "R15-fill-epoch",
    "R15-mutate-epoch",
    "R15-settle-epoch",
    "R15-reject-epoch",
    "R16-named",
    "R16-snapshot",
    "R16-errors",
    "R16-requeue",
    "R16-torn",
    "R16-replaced",
    "R16-suspect",
    "R16-met",
    "R16-reborn",
    "R16-buried",
    "R16-unloaded",
    "R6-settled",
    "G1-unlinked",
    "G1-rejected",
    "G1-flag",
    "G1-kept",
    "G1-epoch",
    "G1-further",
    "G1-elsewhere",
    "G1-whole",
    "H33-off",
    "H33-forgotten",
    "H33-rejected",
    "H33-hasty",
    "H33-moved",
    "H33-unasked",
    "H33-kept",
    "H33-lowered",
    "H123-room",
    "H76-shared",
    "H76-living",
    "S1-unfenced",
    "S1-plain",
    "S1-token",
    "S1-below",
    "S2-any",
    "S2-part",
    "S2-unpinned",
    "S2-settled",
    "S2-rejected",
    "S2-expired",
    "S2-filled",
    "S2-claimed",
    "S2-confirmed",
    "S2-evicted",
    "S3-kept",
    "S7-later",
    "S5-hasty",
    "S5-lowered",
    "S5-unheard",
    "S5-confirmed",
    "S5-kept",
    "S6-unmarked",
    "S7-unconditional",
    "S8-ended",
    "S8-late",
    "S8-greatest",
    "S8-grace",
    "S8-copied",
    "V3-compare",
    "V3-claimed",
    "V3-alive",
    "V3-dropped",
    "V3-token",
    "V3-release",
];

/// Whether a rule's condition holds. A build without debug assertions answers the condition alone.
#[cfg(not(debug_assertions))]
#[must_use]
pub const fn keeps(_switch: &str, condition: bool) -> bool {
    condition
}

/// Whether a rule's condition holds, or a test has broken the rule with this switch.
///
/// # Panics
/// As [`broken`].
#[cfg(debug_assertions)]
#[must_use]
pub fn keeps(switch: &str, condition: bool) -> bool {
    condition || broken(switch)
}

/// Whether a rule is kept. It always is in a build without debug assertions.
#[cfg(not(debug_assertions))]
#[must_use]
pub const fn is_kept(_switch: &str) -> bool {
    true
}

/// Whether a rule is kept: no test has broken it with this switch.
///
/// # Panics
/// As [`broken`].
#[cfg(debug_assertions)]
#[must_use]
pub fn is_kept(switch: &str) -> bool {
    !broken(switch)
}

/// Whether this switch is on. It never is in a build without debug assertions.
#[cfg(not(debug_assertions))]
#[must_use]
pub const fn broken(_switch: &str) -> bool {
    false
}

#[cfg(debug_assertions)]
thread_local! {
    /// The switch that [`breaking`] turned on for this thread.
    static HERE: std::cell::Cell<Option<&'static str>> = const { std::cell::Cell::new(None) };
}

/// Whether this switch is on: by [`breaking`] on this thread, or by `STORAGE_SABOTAGE`.
///
/// # Panics
/// In a build with the feature `sabotage`, this switch or the one that the variable names is not in
/// [`SWITCHES`].
#[cfg(debug_assertions)]
#[must_use]
pub fn broken(switch: &str) -> bool {
    HERE.get() == Some(switch) || everywhere(switch)
}

/// Runs a test's steps on this thread with a rule broken. Only in builds with debug assertions.
///
/// # Panics
/// The switch is not in [`SWITCHES`].
#[cfg(debug_assertions)]
pub fn breaking<T>(switch: &'static str, steps: impl FnOnce() -> T) -> T {
    /// Restores the rule, however the steps end.
    struct Mend;
    impl Drop for Mend {
        fn drop(&mut self) {
            HERE.set(None);
        }
    }
    check(switch);
    HERE.set(Some(switch));
    let _mend = Mend;
    steps()
}

#[cfg(debug_assertions)]
#[expect(
    clippy::panic,
    reason = "a misspelt switch must not pass for a rule that no test guards"
)]
fn check(switch: &str) {
    if !SWITCHES.contains(&switch) {
        panic!(
            "sabotage: there is no switch {switch:?}; the switches are {}",
            SWITCHES.join(", ")
        );
    }
}

#[cfg(all(debug_assertions, not(feature = "sabotage")))]
const fn everywhere(_switch: &str) -> bool {
    false
}

#[cfg(all(debug_assertions, feature = "sabotage"))]
fn everywhere(switch: &str) -> bool {
    static CHOSEN: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("STORAGE_SABOTAGE").ok());
    CHOSEN
        .as_deref()
        .into_iter()
        .chain([switch])
        .for_each(check);
    CHOSEN.as_deref() == Some(switch)
}
