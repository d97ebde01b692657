//! Medians, ranges and percentiles.

use serde::Serialize;

/// The middle and the ends of some figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The middle figure. For an even number of figures, the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The greatest.
    pub greatest: f64,
}

impl Spread {
    /// The spread of these figures. All values are 0 if there are none.
    #[must_use]
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
        let last = sorted.len().saturating_sub(1);
        Self {
            median: f64::midpoint(at(last / 2), at(sorted.len() / 2)),
            least: at(0),
            greatest: at(last),
        }
    }
}

/// The value that this percentage of the values does not exceed. None without values.
#[must_use]
pub fn percentile(sorted: &[u32], percent: usize) -> Option<u32> {
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_two_in_the_middle() {
        let spread = |figures: &[f64]| {
            let Spread {
                median,
                least,
                greatest,
            } = Spread::of(figures.iter().copied());
            (least, median, greatest)
        };
        assert_eq!(spread(&[3.0, 1.0, 2.0]), (1.0, 2.0, 3.0));
        assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0]), (1.0, 2.5, 4.0));
        assert_eq!(spread(&[7.0]), (7.0, 7.0, 7.0));
        assert_eq!(spread(&[]), (0.0, 0.0, 0.0));
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values: Vec<u32> = (1..=200).collect();
        assert_eq!(
            (percentile(&values, 50), percentile(&values, 99)),
            (Some(100), Some(198))
        );
        assert_eq!((percentile(&[5], 99), percentile(&[], 50)), (Some(5), None));
    }
}
