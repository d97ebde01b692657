use clap::Parser;
use storage_protocol::cases::{BROKEN, CASES, DEEP};
#[derive(Debug, Parser)]
struct Args {
    #[arg(long, default_value = "")]
    case: String,
    #[arg(long, default_value_t = 10_000_000)]
    states: usize,
    #[arg(long = "break")]
    switch: Option<String>,
    #[arg(long = "set")]
    bounds: Vec<String>,
}
fn main() {
    let args = Args::parse();
    for case in CASES.iter().chain(DEEP).chain(BROKEN).filter(|case| case.name == args.case) {
        let mut case = *case;
        for set in &args.bounds {
            let (name, number) = set.split_once('=').unwrap();
            let n: u8 = number.parse().unwrap_or(0);
            let b = &mut case.bounds;
            use storage_protocol::Kind::*;
            match name {
                "kinds" => {
                    b.kinds = match number {
                        "set" => &[Set],
                        "setall" => &[Set, SetAll],
                        "incr" => &[Incr],
                        "setincr" => &[Set, Incr],
                        "cas" => &[Set, SetIfLast, SetIfStale],
                        "castrue" => &[Set, SetIfLast],
                        "rm" => &[Set, Remove],
                        "purge" => &[Set, Remove, Purge],
                        _ => panic!(),
                    }
                }
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
                "preparers" => b.preparers = n as usize,
                "windows" => b.windows = n,
                "losses" => b.losses = n,
                "probation" => b.probation = n > 0,
                "wipes" => b.wipes = n > 0,
                "evicts" => b.evicts = n > 0,
                "unverified" => b.unverified = n > 0,
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
        return;
    }
    panic!("no case")
}
