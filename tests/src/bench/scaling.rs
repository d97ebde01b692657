//! The gain from more processes, and the limit, by CPU accounting.

use std::fmt::Write as _;

use super::chart::grouped;
use super::cpu::Cpu;
use super::measured::{FOREIGN_MAX, Summary};
use super::report::{figure, ratio};
use super::sweep::{Point, Sweep};

/// The part of a core, or of all cores, from which on it counts as full.
const FULL: f64 = 0.9;

/// A table of a sweep over processes, and its conclusion. Empty for another sweep.
#[must_use]
pub fn markdown(sweep: &Sweep, cores: usize) -> String {
    let (Some(processes), Some(first), Some(last)) =
        (sweep.processes, sweep.points.first(), sweep.points.last())
    else {
        return String::new();
    };
    let mut text = format!(
        "| {} | {} | by the first | CPU µs each: {processes}/Redis/database | busy: {processes}/Redis/database/all | {} | CPU µs each | \
         busy |\n| ---: | ---: | ---: | --- | --- | ---: | --- | --- |\n",
        sweep.x, sweep.y, sweep.series[1]
    );
    for Point { x, ours, baseline } in &sweep.points {
        let by_first = ours.figure.median / first.ours.figure.median.max(f64::MIN_POSITIVE);
        let cells = [
            grouped(*x),
            figure(ours.figure.median),
            ratio(by_first),
            ours.cpu(),
            busy(&ours.share),
            figure(baseline.figure.median),
            baseline.cpu(),
            busy(&baseline.share),
        ];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    let _ = write!(
        text,
        "\nWith {} {processes}: {}",
        grouped(last.x),
        limit(&last.ours, processes, cores)
    );
    let _ = writeln!(
        text,
        " The baseline's side: {}",
        limit(&last.baseline, processes, cores)
    );
    text
}

/// Percents of all cores.
fn busy(share: &Cpu) -> String {
    let Cpu {
        client,
        redis,
        mariadb,
        machine,
        ..
    } = share;
    format!(
        "{} %",
        [client, redis, mariadb, machine]
            .map(|part| format!("{:.0}", part * 100.0))
            .join("/")
    )
}

/// The limit, in words: a server's one thread, the machine, or neither.
#[expect(clippy::cast_precision_loss, reason = "a few cores")]
fn limit(side: &Summary, processes: &str, cores: usize) -> String {
    let Cpu {
        client,
        redis,
        mariadb,
        machine,
        ..
    } = side.share;
    let (redis_core, all) = (
        redis * cores as f64,
        (client + redis + mariadb).max(f64::MIN_POSITIVE),
    );
    let percent = |part: f64| format!("{:.0} %", part * 100.0);
    let parts = format!(
        "Of the CPU time, the database uses {}, Redis {}, {processes} {}",
        percent(mariadb / all),
        percent(redis / all),
        percent(client / all)
    );
    let others = machine - client - redis - mariadb;
    if others > FOREIGN_MAX {
        return format!(
            "others used {} of the machine, so nothing can be said of the limit. {parts}.",
            percent(others)
        );
    }
    if redis_core >= FULL {
        return format!(
            "Redis is the limit, whose one thread keeps {} of a core busy. {parts}.",
            percent(redis_core)
        );
    }
    if machine < FULL {
        let (redis_core, machine) = (percent(redis_core), percent(machine));
        return format!(
            "no processor is the limit, but waiting: all cores are busy to {machine}, Redis' thread to {redis_core} of one. {parts}."
        );
    }
    let who = match mariadb / all {
        most if most > 0.5 => "most of which the database uses",
        _ if mariadb >= redis.max(client) => {
            "of which the database uses more than anyone else, but not most"
        }
        _ if mariadb < redis * 0.01 => "and the database has nothing to do",
        _ => "and not the database, which uses less of it than others",
    };
    format!(
        "the machine is the limit, {who}: all cores are busy to {}. {parts}.",
        percent(machine)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::stats::Spread;

    fn side(client: f64, redis: f64, mariadb: f64) -> Summary {
        let share = Cpu {
            client,
            redis,
            mariadb,
            machine: client + redis + mariadb,
            ..Cpu::default()
        };
        Summary {
            figure: Spread::of([100.0]),
            p50_micros: None,
            p99_micros: None,
            cpu_micros: share,
            share,
        }
    }

    #[test]
    fn the_limit_is_who_has_nothing_left() {
        let limit = |client, redis, mariadb| limit(&side(client, redis, mariadb), "workers", 2);
        assert!(
            limit(0.2, 0.47, 0.1)
                .starts_with("Redis is the limit, whose one thread keeps 94 % of a core busy")
        );
        assert!(
            limit(0.2, 0.2, 0.6)
                .contains("most of which the database uses: all cores are busy to 100 %")
        );
        assert!(limit(0.3, 0.3, 0.4).contains("but not most"));
        assert!(limit(0.4, 0.3, 0.3).contains("not the database"));
        let mut disturbed = side(0.2, 0.2, 0.4);
        disturbed.share.machine = 1.0;
        assert!(
            super::limit(&disturbed, "workers", 2)
                .starts_with("others used 20 % of the machine, so nothing")
        );
        let text = limit(0.1, 0.1, 0.2);
        assert!(
            text.starts_with("no processor is the limit")
                && text.contains("the database uses 50 %, Redis 25 %"),
            "{text}"
        );
    }

    #[test]
    fn a_table_has_a_row_for_each_point() {
        let mut sweep = Sweep::new("n", "t", ["workers", "rows/s"], ["ours", "theirs"]);
        sweep.push(1, side(0.1, 0.1, 0.2), side(0.1, 0.0, 0.5));
        assert_eq!(markdown(&sweep, 2), "");
        sweep.processes = Some("workers");
        let text = markdown(&sweep, 2);
        assert!(
            text.contains("| 1 | 100 | 1.00 | 0.10/0.10/0.20 | 10/10/20/40 % | 100 |"),
            "{text}"
        );
    }
}
