//! Rules that are broken on purpose, one at a time, to see which test notices.
//!
//! Where a rule is kept, the code asks [`broken`] for a switch of its own. Without the cargo feature `sabotage`, which no release
//! has, the answer is a constant and nothing of it is compiled in. With it the variable `STORAGE_SABOTAGE` names the rule to break.
//! `scripts/sabotage` goes through all of them.

#[cfg(all(feature = "sabotage", not(debug_assertions)))]
compile_error!("the feature `sabotage` breaks the storage's rules; it is for tests, and in no build without debug assertions");

/// Every switch. Each begins with the rule that it breaks, or the hazard that is no longer met.
#[cfg(feature = "sabotage")]
pub const SWITCHES: &[&str] = &[
    "R1-unmarked",
    "R1-apart",
    "R2-expires",
    "R2-evicts",
    "R2-touch",
    "R2-parked",
    "R2-filled",
    "R2-policy",
    "R3-unguarded",
    "R3-equal",
    "R3-version-first",
    "R3-mark-version",
    "R3-apart",
    "R4-overwrite",
    "R4-whole",
    "R5-by-name",
    "R5-any-error",
    "R6-unproven",
    "R6-older-row",
    "R6-null",
    "R7-born",
    "R7-marker",
    "R7-beside",
    "R7-raised-once",
    "R7-purge-keeps-birth",
    "R7-row-wins",
    "R8-complete",
    "R8-trusted",
    "R8-forever",
    "R9-field",
    "R9-owner",
    "R10-half",
    "R10-rounded",
    "R11-ids",
    "R11-window",
    "R11-leap",
    "R11-deadline",
    "R11-new-id",
    "R11-forgotten",
    "R12-alone",
    "R12-unleased",
    "R13-denied",
    "R13-unread",
    "R14-fence",
    "R14-incarnation",
    "R14-unverified",
    "R14-source",
    "R14-generation",
    "R14-unraised",
    "R14-raised-blindly",
    "R14-adopted-blindly",
    "R14-adopted-late",
    "R14-suspect",
    "R14-trusting",
    "R14-unstamped",
    "R14-hidden",
    "R14-outdone",
    "R14-below",
    "R14-restamped",
    "R14-stamped-ever",
    "R14-uncompared",
    "R14-purged",
    "R15-guess",
    "R15-version",
    "R15-fill-epoch",
    "R15-mutate-epoch",
    "R15-settle-epoch",
    "R15-park-epoch",
    "R16-cut",
    "R16-halves",
    "H19-elsewhere",
    "H33-off",
    "H33-forgotten",
    "H33-moved",
    "H33-unasked",
    "H33-kept",
    "H33-lowered",
];

/// Whether this switch is on: never, since the feature `sabotage` is off.
#[cfg(not(feature = "sabotage"))]
#[must_use]
pub const fn broken(_switch: &str) -> bool {
    false
}

/// Whether this switch is the one that `STORAGE_SABOTAGE` names.
///
/// # Panics
/// The switch, or the one that the variable names, is not in [`SWITCHES`].
#[cfg(feature = "sabotage")]
#[must_use]
#[expect(clippy::panic, reason = "a misspelt switch must not pass for a rule that no test guards")]
pub fn broken(switch: &str) -> bool {
    static CHOSEN: std::sync::LazyLock<Option<String>> = std::sync::LazyLock::new(|| std::env::var("STORAGE_SABOTAGE").ok());
    for name in CHOSEN.as_deref().into_iter().chain([switch]) {
        if !SWITCHES.contains(&name) {
            panic!("sabotage: there is no switch {name:?}, but {}", SWITCHES.join(", "));
        }
    }
    CHOSEN.as_deref() == Some(switch)
}
