//! The `landing-worker` program.
fn main() {}
