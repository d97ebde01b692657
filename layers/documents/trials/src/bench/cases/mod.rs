//! All cases, in the order of the table that they make.

mod event;
mod feeds;
mod list;
mod load;
mod sides;

use storage_tests::bench::case::Case;

/// Every case.
#[must_use]
pub fn all() -> Vec<Box<dyn Case>> {
    let mut cases = load::cases();
    cases.extend([list::case(), event::case(), feeds::case()]);
    cases
}
