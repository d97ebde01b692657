//! The two forms of a test: short in each run of all tests, long in `scripts/long`.

/// The variable that asks for the long forms.
const LONG: &str = "STORAGE_TESTS_LONG";

/// The searches of the form that was asked for. The short form leaves the large ones out, and
/// prints their names.
pub(crate) fn of_this_form<T: Copy>(
    cases: &[T],
    large: &[T],
    name: impl Fn(&T) -> &'static str,
) -> Vec<T> {
    if std::env::var_os(LONG).is_some() {
        return [cases, large].concat();
    }
    for case in large {
        println!("{}: left to scripts/long", name(case));
    }
    cases.to_vec()
}
