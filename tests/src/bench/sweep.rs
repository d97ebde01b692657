//! A rate over a parameter, for the charts.

use serde::Serialize;

use super::case::Case;
use super::cases::{Landing, Servers, Update};
use super::measured::Summary;
use super::scale::Scale;

/// The measurements of one chart.
#[derive(Debug, Clone, Serialize)]
pub struct Sweep {
    /// The chart's file, without ending.
    pub name: &'static str,
    /// The title.
    pub title: &'static str,
    /// The parameter.
    pub x: &'static str,
    /// The measured quantity.
    pub y: &'static str,
    /// The names of ours and the baseline.
    pub series: [&'static str; 2],
    /// The name of the client's CPU time, if the chart adds processes to see how the storage
    /// scales.
    pub processes: Option<&'static str>,
    /// In the order of x.
    pub points: Vec<Point>,
    #[serde(skip)]
    values: &'static [usize],
}

/// One value of the parameter.
#[derive(Debug, Clone, Serialize)]
pub struct Point {
    /// The value.
    pub x: usize,
    /// Ours.
    pub ours: Summary,
    /// The baseline.
    pub baseline: Summary,
}

impl Point {
    /// Both sides in the order of the series.
    #[must_use]
    pub fn sides(&self) -> [&Summary; 2] {
        [&self.ours, &self.baseline]
    }
}

impl Sweep {
    /// A sweep without points.
    #[must_use]
    pub fn new(
        name: &'static str,
        title: &'static str,
        axes: [&'static str; 2],
        series: [&'static str; 2],
    ) -> Self {
        let [x, y] = axes;
        Self {
            name,
            title,
            x,
            y,
            series,
            processes: None,
            points: Vec::new(),
            values: &[],
        }
    }

    fn over(self, values: &'static [usize]) -> Self {
        Self { values, ..self }
    }

    fn of_processes(self, processes: &'static str) -> Self {
        Self {
            processes: Some(processes),
            ..self
        }
    }

    /// The measured values. Only the ends, where speed does not matter.
    #[must_use]
    pub fn values(&self, scale: Scale) -> Vec<usize> {
        match (scale, self.values) {
            (Scale::Smoke, [first, .., last]) => vec![*first, *last],
            (_, values) => values.to_vec(),
        }
    }

    /// Adds the measurement of a value.
    pub fn push(&mut self, x: usize, ours: Summary, baseline: Summary) {
        self.points.push(Point { x, ours, baseline });
    }
}

/// A sweep and the case of each of its values.
pub struct Chart {
    /// The sweep, without points.
    pub sweep: Sweep,
    /// The case of a value.
    pub case: fn(usize) -> Box<dyn Case>,
}

/// The number of owners of a chart that does not vary them.
const OWNERS: usize = 4_096;

/// All charts.
#[must_use]
pub fn all() -> Vec<Chart> {
    let update =
        |name, title, x| Sweep::new(name, title, [x, "updates/s"], ["update", "plain HSET"]);
    let landing = |name, title, x| {
        Sweep::new(
            name,
            title,
            [x, "rows/s"],
            ["landing", "single upserts, 16 connections"],
        )
    };
    let tasks =
        update("tasks", "Updates of 1 field of 64 B, by tasks", "tasks").over(&[1, 4, 16, 64, 256]);
    let bytes = update(
        "bytes",
        "Updates of 1 field, 64 tasks, by the size of the value",
        "bytes of the value",
    );
    let fields = update(
        "fields",
        "Updates of fields of 64 B, 64 tasks, by the number of fields",
        "fields",
    );
    let owners = update(
        "owners",
        "Updates of 1 field of 64 B, 64 tasks, by the number of owners",
        "owners",
    );
    let rows = landing(
        "batch-rows",
        "Landing of known rows of 64 B, 1 worker, by the rows of a batch",
        "rows in a batch",
    );
    let workers = landing(
        "workers",
        "Landing of known rows of 64 B, by workers",
        "workers",
    )
    .of_processes("workers");
    let servers = update(
        "servers",
        "Updates of 1 field of 64 B, 64 tasks in each game server, by game servers",
        "game servers",
    );
    vec![
        Chart {
            sweep: tasks,
            case: |x| Box::new(Update::point(x, 1, 64, OWNERS)),
        },
        Chart {
            sweep: bytes.over(&[16, 64, 256, 1_024, 4_096, 16_384]),
            case: |x| Box::new(Update::point(64, 1, x, OWNERS)),
        },
        Chart {
            sweep: fields.over(&[1, 2, 4, 8, 16, 32]),
            case: |x| Box::new(Update::point(64, x, 64, OWNERS)),
        },
        Chart {
            sweep: owners.over(&[64, 1_024, 16_384, 262_144]),
            case: |x| Box::new(Update::point(64, 1, 64, x)),
        },
        Chart {
            sweep: rows.over(&[50, 100, 200, 500, 1_000, 2_000, 5_000]),
            case: |x| Box::new(Landing::point(1, x)),
        },
        Chart {
            sweep: workers.over(&[1, 2, 4]),
            case: |x| Box::new(Landing::point(x, 1_000)),
        },
        Chart {
            sweep: servers.of_processes("game servers").over(&[1, 2, 4, 8]),
            case: |x| Box::new(Servers::point(x)),
        },
    ]
}
