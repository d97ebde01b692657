//! A sweep as a chart in SVG.

use std::fmt::Write as _;

use super::report::figure;
use super::sweep::Sweep;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
/// Room for labels: left, top, right, below.
const MARGIN: [f64; 4] = [64.0, 56.0, 24.0, 48.0];
const COLOURS: [&str; 2] = ["#1f6feb", "#8b949e"];
/// Lines across.
const LINES: u32 = 4;

/// The chart: values evenly spaced along x, and y from 0 on.
#[must_use]
pub fn svg(sweep: &Sweep) -> String {
    let [left, top, right, below] = MARGIN;
    let most = sweep.points.iter().flat_map(|point| point.y).fold(1.0, f64::max);
    let across = |at: usize| left + (WIDTH - left - right) * share(at, sweep.points.len());
    let up = |y: f64| HEIGHT - below - (HEIGHT - top - below) * y / most;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let mut text = |x: f64, y: f64, anchor: &str, colour: &str, words: &str| {
        let _ =
            writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{}</text>", escaped(words));
    };
    text(left, 20.0, "start", "black", sweep.title);
    text(left, 40.0, "start", COLOURS[0], &format!("● {}", sweep.series[0]));
    text(left + 90.0, 40.0, "start", COLOURS[1], &format!("● {}", sweep.series[1]));
    text(WIDTH - right, 40.0, "end", "black", sweep.y);
    text(f64::midpoint(left, WIDTH - right), HEIGHT - 8.0, "middle", "black", sweep.x);
    for (at, point) in sweep.points.iter().enumerate() {
        text(across(at), HEIGHT - below + 18.0, "middle", "black", &point.x.to_string());
    }
    for line in 0..=LINES {
        let value = most * f64::from(line) / f64::from(LINES);
        text(left - 8.0, up(value) + 4.0, "end", "black", &figure(value));
    }
    for line in 0..=LINES {
        let y = up(most * f64::from(line) / f64::from(LINES));
        let _ = writeln!(svg, "<line x1=\"{left}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#d0d7de\"/>", WIDTH - right);
    }
    for (series, colour) in COLOURS.into_iter().enumerate() {
        let points: Vec<(f64, f64)> =
            sweep.points.iter().enumerate().filter_map(|(at, point)| Some((across(at), up(*point.y.get(series)?)))).collect();
        let line: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(svg, "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>", line.join(" "));
        for (x, y) in points {
            let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
        }
    }
    svg + "</svg>\n"
}

/// How far along the n-th of so many lies, 0 to 1.
#[expect(clippy::cast_precision_loss, reason = "a handful")]
fn share(at: usize, count: usize) -> f64 {
    at as f64 / count.saturating_sub(1).max(1) as f64
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::sweep::Point;

    #[test]
    fn a_chart_holds_each_point_of_both_series_within_its_frame() {
        let points = [(1, [10.0, 40.0]), (64, [20.0, 30.0])].map(|(x, y)| Point { x, y }).to_vec();
        let series = ["ours", "a & b"];
        let svg = svg(&Sweep { name: "n", title: "a < b", x: "tasks", y: "updates/s", series, points });
        assert!(svg.contains("points=\"64.0,248.0 616.0,184.0\""), "{svg}");
        assert!(svg.contains("points=\"64.0,56.0 616.0,120.0\""), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 4);
        assert!(svg.contains("a &lt; b") && svg.contains("a &amp; b") && svg.ends_with("</svg>\n"), "{svg}");
    }
}
