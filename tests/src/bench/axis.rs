//! The place of a value on a chart's y axis, and the values that are written beside the axis.

/// From 0 on in equal steps, or by powers of ten if values lie far apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// The values that are written beside the axis, from the lowest to the highest.
    pub ticks: Vec<f64>,
    /// Whether it is logarithmic.
    pub log: bool,
}

/// If the values are this many times apart, a logarithmic axis shows them better.
const FAR_APART: f64 = 40.0;
/// The least number of steps of an axis.
const STEPS: f64 = 4.0;

impl Axis {
    /// An axis that contains all of these values.
    #[must_use]
    pub fn of(values: impl Iterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.filter(|value| *value > 0.0).collect();
        let most = values.iter().copied().fold(0.0, f64::max);
        let least = values.iter().copied().fold(most, f64::min);
        if most <= 0.0 {
            return Self {
                ticks: vec![0.0, 1.0],
                log: false,
            };
        }
        if most / least >= FAR_APART {
            Self::powers(least, most)
        } else {
            Self::steps(most)
        }
    }

    fn steps(most: f64) -> Self {
        let step = nice(most / STEPS);
        let mut ticks = vec![0.0];
        let mut value = 0.0;
        while value < most {
            value += step;
            ticks.push(value);
        }
        Self { ticks, log: false }
    }

    fn powers(least: f64, most: f64) -> Self {
        let mut power = 10.0_f64.powf(least.log10().floor());
        let mut ticks = vec![power];
        while power < most {
            power *= 10.0;
            ticks.push(power);
        }
        Self { ticks, log: true }
    }

    /// The height of a value, 0 to 1.
    #[must_use]
    pub fn share(&self, value: f64) -> f64 {
        let (low, high) = (
            self.ticks.first().copied().unwrap_or(0.0),
            self.ticks.last().copied().unwrap_or(1.0),
        );
        let share = if self.log {
            (value.max(low) / low).log10() / (high / low).log10()
        } else {
            value / high
        };
        share.clamp(0.0, 1.0)
    }
}

/// The greatest of 1, 2 and 5 times a power of ten that is not above this value.
fn nice(value: f64) -> f64 {
    let power = 10.0_f64.powf(value.log10().floor());
    let times = [5.0, 2.0]
        .into_iter()
        .find(|times| times * power <= value * 1.000_001);
    times.unwrap_or(1.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_reach_above_the_greatest_value() {
        let axis = Axis::of([10.0, 83.0].into_iter());
        assert_eq!(
            axis,
            Axis {
                ticks: vec![0.0, 20.0, 40.0, 60.0, 80.0, 100.0],
                log: false
            }
        );
        assert_eq!(axis.share(50.0), 0.5);
    }

    #[test]
    fn values_far_apart_lie_between_powers_of_ten() {
        let axis = Axis::of([30.0, 4_000.0].into_iter());
        assert_eq!(
            axis,
            Axis {
                ticks: vec![10.0, 100.0, 1_000.0, 10_000.0],
                log: true
            }
        );
        assert!((axis.share(100.0) - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(axis.share(0.0), 0.0);
    }

    #[test]
    fn an_axis_of_nothing_is_one_all_the_same() {
        assert_eq!(Axis::of(std::iter::empty()).ticks, [0.0, 1.0]);
    }
}
