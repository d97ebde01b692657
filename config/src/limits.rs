//! The section `limits`: the rules of [`storage_model::Limits`].

use crate::rule::Rule::Number;
use crate::rule::Rules;

pub(crate) const RULES: Rules = &[
    ("value_bytes_max", Number(1, 64 << 20)),
    ("fields_max", Number(1, 1_000)),
    ("call_bytes_max", Number(1, 64 << 20)),
];
