//! A rate over something that varies, for the charts.

use anyhow::Result;

use super::case::Case;
use super::cases::{Landing, Update};
use super::place::Arena;
use super::runner::measure;

/// One chart's worth of measurements.
#[derive(Debug, Clone)]
pub struct Sweep {
    /// The chart's file, without ending.
    pub name: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// What varies.
    pub x: &'static str,
    /// What is measured.
    pub y: &'static str,
    /// What ours and the baseline are called.
    pub series: [&'static str; 2],
    /// In the order of x.
    pub points: Vec<Point>,
}

/// One value of what varies.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    /// The value.
    pub x: usize,
    /// Medians of ours and of the baseline.
    pub y: [f64; 2],
}

/// All charts.
///
/// # Errors
/// A server does not start, or an operation failed.
pub async fn all(arena: &Arena) -> Result<Vec<Sweep>> {
    let update = |name, title, x| Sweep { name, title, x, y: "updates/s", series: ["update", "plain HSET"], points: Vec::new() };
    let landing = |name, title, x| {
        let series = ["landing", "single upserts, 16 connections"];
        Sweep { name, title, x, y: "rows/s", series, points: Vec::new() }
    };
    let tasks = update("tasks", "Updates of 1 field of 64 B, by tasks", "tasks");
    let bytes = update("bytes", "Updates of 1 field, 64 tasks, by the size of the value", "bytes");
    let fields = update("fields", "Updates of fields of 64 B, 64 tasks, by the number of fields", "fields");
    let owners = update("owners", "Updates of 1 field of 64 B, 64 tasks, by the number of owners", "owners");
    let rows = landing("batch-rows", "Landing of known rows of 64 B, 1 worker, by the rows of a batch", "rows in a batch");
    let workers = landing("workers", "Landing of known rows of 64 B, by workers", "workers");
    Ok(vec![
        tasks.measured(arena, &[1, 4, 16, 64, 256], |x| Box::new(Update::point(x, 1, 64, OWNERS))).await?,
        bytes.measured(arena, &[16, 64, 256, 1_024, 4_096, 16_384], |x| Box::new(Update::point(64, 1, x, OWNERS))).await?,
        fields.measured(arena, &[1, 2, 4, 8, 16, 32], |x| Box::new(Update::point(64, x, 64, OWNERS))).await?,
        owners.measured(arena, &[64, 1_024, 16_384, 262_144], |x| Box::new(Update::point(64, 1, 64, x))).await?,
        rows.measured(arena, &[50, 100, 200, 500, 1_000, 2_000, 5_000], |x| Box::new(Landing::point(1, x))).await?,
        workers.measured(arena, &[1, 2, 4], |x| Box::new(Landing::point(x, 1_000))).await?,
    ])
}

/// Owners of a chart that does not vary them.
const OWNERS: usize = 4_096;

impl Sweep {
    async fn measured(mut self, arena: &Arena, values: &[usize], case: impl Fn(usize) -> Box<dyn Case>) -> Result<Self> {
        for &x in values {
            let measured = measure(case(x).as_ref(), arena).await?;
            eprintln!("chart {}: {} {x}", self.name, self.x);
            self.points.push(Point { x, y: [measured.ours.figure.median, measured.baseline.figure.median] });
        }
        Ok(self)
    }
}
