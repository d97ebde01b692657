//! The form of an answer that a caller accepts (RFC 9110, section 12.5.1).

use axum::http::{HeaderMap, header};

use crate::problem::{self, Problem};

/// JSON, which each resource has.
pub(crate) const JSON: &str = "application/json";
/// A list with links.
pub(crate) const HAL: &str = "application/hal+json";

/// How much a caller wants a form: by the weight of the range that names it, in thousandths, and by
/// how exactly the range does. `None` of a form that no range names.
type Preference = Option<(u16, u8)>;

/// A range of media types, and its weight.
struct Range<'a> {
    of: &'a str,
    weight: u16,
}

/// The form that the caller wants most, and of several the first. A form that no range names is
/// better than none, so only a caller that excludes all of them gets nothing.
///
/// # Errors
/// `not-acceptable`: all forms have the weight 0.
pub(crate) fn best(headers: &HeaderMap, forms: &[&'static str]) -> Result<&'static str, Problem> {
    let ranges: Vec<Range<'_>> = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .filter_map(range_of)
        .collect();
    let mut best: Option<(Preference, &str)> = None;
    for form in forms {
        let wanted = wanted(&ranges, form);
        let is_excluded = matches!(wanted, Some((0, _)));
        if !is_excluded && best.is_none_or(|(known, _)| wanted > known) {
            best = Some((wanted, form));
        }
    }
    let refused = || {
        let message = format!(
            "the header Accept excludes all forms of the answer: {}",
            forms.join(", ")
        );
        Problem::new(problem::NOT_ACCEPTABLE, message)
    };
    best.map(|(_, form)| form).ok_or_else(refused)
}

/// A range with its weight, which is 1 unless it is named. `None` of a text that is no range.
fn range_of(text: &str) -> Option<Range<'_>> {
    let mut parts = text.split(';').map(str::trim);
    let of = parts.next().filter(|of| of.contains('/'))?;
    let weight = |part: &str| {
        let (name, value) = part.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("q")
            .then(|| thousandths(value.trim()))
    };
    let weight = match parts.find_map(weight) {
        Some(weight) => weight?,
        None => 1_000,
    };
    Some(Range { of, weight })
}

/// A number from 0 to 1 with up to three digits behind the point.
fn thousandths(text: &str) -> Option<u16> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    let is_short = rest.len() <= 3 && rest.bytes().all(|digit| digit.is_ascii_digit());
    let rest: u16 = format!("{rest:0<3}").parse().ok().filter(|_| is_short)?;
    match (whole, rest) {
        ("0", rest) => Some(rest),
        ("1", 0) => Some(1_000),
        _ => None,
    }
}

/// How much the caller wants a form. Of the ranges that cover it, the most exact one counts.
fn wanted(ranges: &[Range<'_>], form: &str) -> Preference {
    let group = form.split_once('/').map_or(form, |(group, _)| group);
    let exactness = |range: &Range<'_>| match range.of.split_once('/')? {
        ("*", "*") => Some(0),
        (of, "*") if of.eq_ignore_ascii_case(group) => Some(1),
        _ if range.of.eq_ignore_ascii_case(form) => Some(2),
        _ => None,
    };
    let covering = ranges
        .iter()
        .filter_map(|range| Some((range.weight, exactness(range)?)));
    covering.max_by_key(|(weight, exactness)| (*exactness, *weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_with_the_greatest_weight_is_chosen() {
        for (accept, expected) in [
            ("", Some(JSON)),
            ("*/*", Some(JSON)),
            ("text/html,*/*;q=0.8", Some(JSON)),
            ("text/html", Some(JSON)),
            ("nonsense", Some(JSON)),
            (HAL, Some(HAL)),
            ("application/HAL+json;q=0.1", Some(HAL)),
            ("application/json, application/hal+json", Some(JSON)),
            ("application/json, application/hal+json;q=0.1", Some(JSON)),
            ("application/json;q=0.5, application/hal+json", Some(HAL)),
            (
                "application/json ; Q=0.5,application/hal+json; q=0.51",
                Some(HAL),
            ),
            ("*/*, application/hal+json", Some(HAL)),
            ("application/*;q=0.2, application/json;q=0", Some(HAL)),
            ("application/json;q=0", Some(HAL)),
            ("application/hal+json;q=0", Some(JSON)),
            ("application/json;q=2", Some(JSON)),
            ("*/*;q=0", None),
            ("*/*;q=0.0, text/html", None),
            ("application/json;q=0, application/hal+json;q=0.000", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            assert_eq!(best(&headers, &[JSON, HAL]).ok(), expected, "{accept}");
        }
    }
}
