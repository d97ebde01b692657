//! Switches that each break one rule on purpose, to see which test notices.
//!
//! The code that keeps a rule asks [`broken`] for a switch of its own. Without debug assertions the
//! answer is a constant, and nothing of it is compiled in. No release has debug assertions.
//!
//! With debug assertions, a test can break a rule for its own thread by `breaking`. With the cargo
//! feature `sabotage`, the variable `STORAGE_SABOTAGE` breaks one rule for the whole process.
//! `scripts/sabotage` tries all switches.

#[cfg(all(feature = "sabotage", not(debug_assertions)))]
compile_error!(
    "the feature `sabotage` breaks the storage's rules; it is only for tests, in builds with debug assertions"
);

/// Every switch. Its name begins with the rule that it breaks, or with the hazard that it lets in.
#[cfg(debug_assertions)]
pub const SWITCHES: &[&str] = &[
    "R1-unmarked",
    "R1-apart",
    "R1-list",
    "R2-expires",
    "R2-evicts",
    "R2-touch",
    "R2-parked",
    "R2-filled",
    "R2-settled",
    "R2-policy",
    "R3-unguarded",
    "R3-equal",
    "R3-version-first",
    "R3-mark-version",
    "R3-apart",
    "R4-overwrite",
    "R4-whole",
    "R5-number",
    "R5-any-error",
    "R5-unlocked",
    "R5-kept-error",
    "R5-older-error",
    "R5-early",
    "R5-flush",
    "R5-marks-error",
    "R6-unproven",
    "R6-older-row",
    "R6-reborn",
    "R6-birth",
    "R6-null",
    "R6-valueless",
    "R7-marker",
    "R7-order",
    "R7-apart",
    "R7-unraised",
    "R7-presence",
    "R7-refill",
    "R7-row-wins",
    "R8-complete",
    "R8-trusted",
    "R8-forever",
    "R8-kept",
    "R9-field",
    "R9-owner",
    "R10-half",
    "R10-rounded",
    "R11-number",
    "R11-asked",
    "R11-hasty",
    "R11-unended",
    "R11-ids",
    "R11-void",
    "R11-ids-set",
    "R11-ids-incr",
    "R11-window",
    "R11-leap",
    "R11-deadline",
    "R11-new-id",
    "R11-forgotten",
    "R11-given-up",
    "R11-outlived",
    "R12-alone",
    "R12-unleased",
    "R13-denied",
    "R13-unread",
    "R13-evicted",
    "R13-unkept",
    "R14-fence",
    "R14-incarnation",
    "R14-unverified",
    "R14-source",
    "R14-given-again",
    "R14-claimed",
    "R14-early",
    "R14-joined",
    "R14-generation",
    "R14-unraised",
    "R14-raised-blindly",
    "R14-adopted-blindly",
    "R14-adopted-late",
    "R14-suspect",
    "R14-trusting",
    "R14-untold",
    "R14-unasked",
    "R14-on-its-way",
    "R14-sessions",
    "R14-absent",
    "R14-marker",
    "R14-shared",
    "R14-landed",
    "R15-guess",
    "R15-version",
    "R15-order",
    "R15-fill-epoch",
    "R15-mutate-epoch",
    "R15-settle-epoch",
    "R15-park-epoch",
    "R16-cut",
    "R16-halves",
    "H19-elsewhere",
    "H45-backpressure",
    "H33-off",
    "H33-forgotten",
    "H33-parked",
    "H33-hasty",
    "H33-moved",
    "H33-unasked",
    "H33-kept",
    "H33-lowered",
    "H35-unsorted",
    "H36-committed",
    "H38-refused",
    "H38-number",
    "H38-cut",
    "H43-reused",
    "H48-saving",
    "H52-tie",
    "H53-rewrite",
    "H76-anywhere",
    "H76-any-token",
    "H76-shared",
    "H76-unraised",
    "H76-unrefused",
    "H76-once",
    "S1-unfenced",
    "S1-plain",
    "S1-token",
    "S1-below",
    "S2-any",
    "S2-part",
    "S2-unpinned",
    "S2-settled",
    "S2-parked",
    "S2-acquitted",
    "S2-filled",
    "S2-claimed",
    "S2-confirmed",
    "S2-evicted",
    "S3-kept",
    "S3-early",
    "S5-impatient",
    "S7-blind",
    "S7-later",
    "S5-hasty",
    "S5-lowered",
    "S5-unheard",
    "S6-unmarked",
    "S7-unconditional",
    "S8-ended",
    "S8-late",
    "S8-greatest",
    "S8-grace",
];

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
