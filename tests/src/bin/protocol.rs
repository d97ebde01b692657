//! Searches all interleavings of the protocol within bounds; see `storage_tests::protocol`.

use clap::Parser;
use storage_tests::protocol::cases::CASES;

/// Searches all interleavings of the protocol within bounds.
#[derive(Debug, Parser)]
struct Args {
    /// Only the searches whose names hold this
    #[arg(long, default_value = "")]
    case: String,
    /// Ends a search that has reached more states than this
    #[arg(long, default_value_t = 10_000_000)]
    states: usize,
    /// Breaks this rule; only in builds with debug assertions
    #[arg(long = "break")]
    switch: Option<String>,
    /// Other bounds than the searches' own, as NAME=NUMBER
    #[arg(long = "set")]
    bounds: Vec<String>,
}

fn main() {
    let args = Args::parse();
    for case in CASES.iter().filter(|case| case.name.contains(&args.case)) {
        let mut case = *case;
        for set in &args.bounds {
            let (name, number) = set.split_once('=').unwrap();
            let n: u8 = number.parse().unwrap();
            let b = &mut case.bounds;
            match name {
                "fields" => b.fields = n as usize,
                "writes" => b.writes = n,
                "clients" => b.clients = n as usize,
                "reads" => b.reads = n,
                "workers" => b.workers = n as usize,
                "page" => b.page = n as usize,
                "crashes" => b.crashes = n,
                "refusals" => b.refusals = n,
                "flushes" => b.flushes = n,
                "replies" => b.replies = n,
                "failovers" => b.failovers = n,
                "windows" => b.windows = n,
                "losses" => b.losses = n,
                "probation" => b.probation = n > 0,
                "wipes" => b.wipes = n > 0,
                "partial" => b.partial = n > 0,
                "unprepared" => b.unprepared = n > 0,
                _ => panic!("{name}"),
            }
        }
        let run = || case.search(args.states);
        #[cfg(debug_assertions)]
        let found = match &args.switch {
            Some(switch) => {
                let switch = storage_model::sabotage::SWITCHES.iter().find(|known| *known == switch).unwrap();
                storage_model::sabotage::breaking(switch, run)
            }
            None => run(),
        };
        #[cfg(not(debug_assertions))]
        let found = run();
        println!("{}: {found}", case.name);
    }
}
