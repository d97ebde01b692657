//! How large a test is: short in each run of all tests, long in `scripts/long`.

/// The variable that asks for the long forms.
const LONG: &str = "STORAGE_TESTS_LONG";

/// Of the sizes of a test's two forms, the one that was asked for.
#[must_use]
pub fn size<T>(short: T, long: T) -> T {
    if std::env::var_os(LONG).is_some() {
        long
    } else {
        short
    }
}
