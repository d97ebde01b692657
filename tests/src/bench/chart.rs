//! A sweep as a chart in SVG, for a light and a dark background.

use std::fmt::Write as _;

use super::axis::Axis;
use super::sweep::Sweep;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
/// Room for labels: left, top, right, below.
const MARGIN: [f64; 4] = [64.0, 72.0, 24.0, 52.0];
/// The names of the styles of ours and the baseline.
const SERIES: [&str; 2] = ["ours", "baseline"];
/// The approximate width of a letter.
const LETTER: f64 = 6.4;

const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#1f2328}.title{font-size:14px;font-weight:600}.soft{fill:#59636e}
.paper{fill:#fff}.grid{stroke:#d1d9e0}.axis{stroke:#818b98}
.line{fill:none;stroke-width:2}.ours{stroke:#0969da}.baseline{stroke:#bc4c00;stroke-dasharray:6 3}
.dot.ours{fill:#0969da}.dot.baseline{fill:#bc4c00;stroke-dasharray:none}.range{stroke-dasharray:none;opacity:.6}
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.soft{fill:#9198a1}.paper{fill:#0d1117}.grid{stroke:#3d444d}.axis{stroke:#656c76}
.ours{stroke:#58a6ff}.baseline{stroke:#f0883e}.dot.ours{fill:#58a6ff}.dot.baseline{fill:#f0883e}}";

/// The chart: values evenly spaced along x, a line for each side, and an upright one from the least
/// to the greatest repetition.
#[must_use]
pub fn svg(sweep: &Sweep) -> String {
    let mut chart = Chart::new(sweep);
    chart.frame();
    chart.legend();
    for (series, class) in SERIES.into_iter().enumerate() {
        chart.series(series, class);
    }
    chart.svg + "</svg>\n"
}

struct Chart<'a> {
    sweep: &'a Sweep,
    axis: Axis,
    svg: String,
}

impl<'a> Chart<'a> {
    fn new(sweep: &'a Sweep) -> Self {
        let figures = sweep
            .points
            .iter()
            .flat_map(|point| point.sides().map(|side| side.figure));
        let axis = Axis::of(figures.flat_map(|figure| [figure.least, figure.greatest]));
        let title = escaped(sweep.title);
        let svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">\n\
             <style>{STYLE}</style>\n<rect class=\"paper\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n"
        );
        Self { sweep, axis, svg }
    }

    fn across(&self, at: usize) -> f64 {
        let [left, _, right, _] = MARGIN;
        left + 24.0 + (WIDTH - left - right - 48.0) * share(at, self.sweep.points.len())
    }

    fn up(&self, y: f64) -> f64 {
        let [_, top, _, below] = MARGIN;
        HEIGHT - below - (HEIGHT - top - below) * self.axis.share(y)
    }

    fn text(&mut self, (x, y): (f64, f64), anchor: &str, class: &str, words: &str) {
        let words = escaped(words);
        let _ = writeln!(
            self.svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{words}</text>"
        );
    }

    fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = writeln!(
            self.svg,
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        );
    }

    /// Title, grid, and the texts beside the axes.
    fn frame(&mut self) {
        let ([left, top, right, below], sweep) = (MARGIN, self.sweep);
        self.text((16.0, 24.0), "start", "title", sweep.title);
        let scale = if self.axis.log { " (logarithmic)" } else { "" };
        self.text(
            (16.0, top - 14.0),
            "start",
            "soft",
            &format!("{}{scale}", sweep.y),
        );
        self.text(
            (f64::midpoint(left, WIDTH - right), HEIGHT - 12.0),
            "middle",
            "soft",
            sweep.x,
        );
        for (number, value) in self.axis.ticks.clone().into_iter().enumerate() {
            let (y, class) = (self.up(value), if number == 0 { "axis" } else { "grid" });
            self.line(class, (left, y), (WIDTH - right, y));
            self.text((left - 8.0, y + 4.0), "end", "soft", &tick(value));
        }
        for (at, point) in sweep.points.iter().enumerate() {
            self.text(
                (self.across(at), HEIGHT - below + 18.0),
                "middle",
                "soft",
                &grouped(point.x),
            );
        }
    }

    /// The names of the lines, from the right.
    fn legend(&mut self) {
        let [_, top, right, _] = MARGIN;
        let (mut x, y) = (WIDTH - right, top - 18.0);
        for (class, name) in SERIES.into_iter().zip(self.sweep.series).rev() {
            x -= LETTER * f64::from(u32::try_from(name.chars().count()).unwrap_or(0));
            self.text((x, y + 4.0), "start", "name", name);
            self.line(&format!("line {class}"), (x - 30.0, y), (x - 6.0, y));
            x -= 48.0;
        }
    }

    fn series(&mut self, series: usize, class: &str) {
        let sides = self.sweep.points.iter().map(|point| {
            if series == 0 {
                &point.ours
            } else {
                &point.baseline
            }
        });
        let figures: Vec<_> = sides.map(|side| side.figure).collect();
        let mut line = Vec::new();
        for (at, figure) in figures.into_iter().enumerate() {
            let (x, y) = (self.across(at), self.up(figure.median));
            self.line(
                &format!("range {class}"),
                (x, self.up(figure.least)),
                (x, self.up(figure.greatest)),
            );
            let _ = writeln!(
                self.svg,
                "<circle class=\"dot {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>"
            );
            line.push(format!("{x:.1},{y:.1}"));
        }
        let _ = writeln!(
            self.svg,
            "<polyline class=\"line {class}\" points=\"{}\"/>",
            line.join(" ")
        );
    }
}

/// A round figure, as short as possible.
fn tick(value: f64) -> String {
    if value >= 1_000.0 {
        format!("{}k", value / 1e3)
    } else {
        value.to_string()
    }
}

/// The place of the n-th of this number of values along x, 0 to 1.
#[expect(clippy::cast_precision_loss, reason = "a handful")]
fn share(at: usize, count: usize) -> f64 {
    at as f64 / count.saturating_sub(1).max(1) as f64
}

/// A number with commas between its thousands.
#[must_use]
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::cpu::Cpu;
    use crate::bench::measured::Summary;
    use crate::bench::stats::Spread;

    fn side(figure: f64) -> Summary {
        let figure = Spread::of([figure]);
        Summary {
            figure,
            p50_micros: None,
            p99_micros: None,
            cpu_micros: Cpu::default(),
            share: Cpu::default(),
        }
    }

    #[test]
    fn a_chart_holds_each_point_of_both_series_within_its_frame() {
        let mut sweep = Sweep::new("n", "a < b", ["tasks", "updates/s"], ["ours", "a & b"]);
        sweep.push(1, side(10.0), side(40.0));
        sweep.push(64, side(20.0), side(30.0));
        let svg = svg(&sweep);
        assert!(svg.contains("points=\"88.0,249.0 592.0,190.0\""), "{svg}");
        assert!(svg.contains("points=\"88.0,72.0 592.0,131.0\""), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 4);
        assert!(
            svg.contains("a &lt; b") && svg.contains("a &amp; b") && svg.ends_with("</svg>\n"),
            "{svg}"
        );
    }

    #[test]
    fn ticks_are_short() {
        assert_eq!(
            [0.0, 0.5, 200.0, 2_500.0, 250_000.0].map(tick),
            ["0", "0.5", "200", "2.5k", "250k"]
        );
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(
            [7, 1_024, 262_144, 1_000_000].map(grouped),
            ["7", "1,024", "262,144", "1,000,000"]
        );
    }
}
