//! All cases, in the order of the table that they make.

mod event;
mod feeds;
mod http2;
mod list;
mod load;
mod polls;
mod returns;
mod sides;

use storage_tests::bench::case::Case;

/// Every case.
#[must_use]
pub fn all() -> Vec<Box<dyn Case>> {
    let mut cases = load::cases();
    cases.extend([
        http2::case(),
        list::case(),
        event::case(),
        feeds::case(),
        returns::case(),
        polls::case(),
    ]);
    cases
}
