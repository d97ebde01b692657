//! Regular expressions.

use regex::{Regex, RegexBuilder};

/// The most bytes of a compiled pattern.
pub const PATTERN_BYTES_MAX: usize = 64 << 10;

/// The most bytes that a search remembers between two texts.
const CACHE_BYTES_MAX: usize = 256 << 10;

/// The most levels of groups.
const GROUPS_MAX: u32 = 32;

/// Compiles a pattern.
///
/// # Errors
/// The reason, in one line.
pub(super) fn compiled(pattern: &str) -> Result<Regex, String> {
    let mut builder = RegexBuilder::new(pattern);
    builder
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(CACHE_BYTES_MAX)
        .nest_limit(GROUPS_MAX);
    builder.build().map_err(|error| match error {
        regex::Error::CompiledTooBig(limit) => format!("it takes more than {limit} bytes"),
        error => last_line(&error.to_string()),
    })
}

/// The lines before the last one show the pattern.
fn last_line(message: &str) -> String {
    let line = message.lines().last().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}
