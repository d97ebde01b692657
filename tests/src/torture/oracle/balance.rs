//! V10: the amounts of a purse always add up to zero. Each write moves an amount from one of them to another. So whatever Redis
//! lost, the rows of a purse add up to zero after each commit (R16).

use std::collections::BTreeMap;

use super::{Finals, Flaw, Rewind};
use crate::StoredRow;

/// The sum of a purse's amounts. Texts that are no numbers count as a large one.
fn sum<'a>(values: impl Iterator<Item = &'a [u8]>) -> i64 {
    values
        .map(|value| {
            std::str::from_utf8(value)
                .ok()
                .and_then(|text| text.parse().ok())
        })
        .fold(0_i64, |sum, amount| {
            sum.saturating_add(amount.unwrap_or(i64::MAX / 2))
        })
}

fn of_rows(rows: &BTreeMap<String, StoredRow>, owner: &str) -> i64 {
    let fields = format!("{owner}/");
    let own = rows
        .range(fields.clone()..)
        .take_while(|(name, _)| name.starts_with(&fields));
    sum(own
        .filter(|(_, row)| row.is_del == 0)
        .map(|(_, row)| row.value.as_slice()))
}

fn of_values(values: &BTreeMap<String, Vec<u8>>, owner: &str) -> i64 {
    let fields = format!("{owner}/");
    let own = values
        .range(fields.clone()..)
        .take_while(|(name, _)| name.starts_with(&fields));
    sum(own.map(|(_, value)| value.as_slice()))
}

/// The sums that are not zero, of the rows that outlived a loss of Redis, and of the stored data after the run.
#[must_use]
pub fn check(owner: &str, rewinds: &[Rewind], finals: &Finals) -> Vec<Flaw> {
    let outlived = rewinds.iter().map(|rewind| {
        (
            "the rows that outlived a loss of Redis",
            of_rows(&rewind.rows, owner),
        )
    });
    let in_the_end = [
        ("the rows", of_rows(&finals.rows, owner)),
        ("the values in Redis", of_values(&finals.hot, owner)),
        ("the values of a cold read", of_values(&finals.cold, owner)),
    ];
    outlived
        .chain(in_the_end)
        .filter(|(_, sum)| *sum != 0)
        .map(|(what, sum)| Flaw::new("V10", owner, format!("{what} add up to {sum}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(amounts: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
        let named = amounts.iter();
        named
            .map(|(name, amount)| ((*name).to_owned(), amount.as_bytes().to_vec()))
            .collect()
    }

    #[test]
    fn a_purse_that_does_not_add_up_is_a_flaw() {
        let finals = |amounts: &[(&str, &str)]| Finals {
            hot: values(amounts),
            ..Finals::default()
        };
        let flaws = |amounts| check("purse/p1", &[], &finals(amounts)).len();
        assert_eq!(flaws(&[("purse/p1/a", "-5"), ("purse/p1/b", "5")]), 0);
        assert_eq!(flaws(&[("purse/p1/a", "-5"), ("purse/p10/b", "5")]), 1);
        assert_eq!(flaws(&[("purse/p1/a", "many")]), 1);
    }
}
