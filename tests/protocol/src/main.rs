//! Searches all interleavings of the protocol within bounds.

use clap::Parser;
#[cfg(debug_assertions)]
use storage_protocol::cases::{BROKEN, BROKEN_LARGE};
use storage_protocol::cases::{Case, DEEP, GROUPS};

/// Searches all interleavings of the protocol within bounds.
#[derive(Debug, Parser)]
struct Args {
    /// Other searches, within larger bounds than those of the tests
    #[arg(long)]
    deep: bool,
    /// The damage of each rule's loss
    #[cfg(debug_assertions)]
    #[arg(long)]
    broken: bool,
    /// Only the searches whose names hold this
    #[arg(long, default_value = "")]
    case: String,
    /// Ends a search that has reached more states than this
    #[arg(long, default_value_t = 20_000_000)]
    states: usize,
}

fn main() -> std::process::ExitCode {
    let args = Args::parse();
    let cases: Vec<Case> = if args.deep {
        DEEP.to_vec()
    } else {
        let groups = GROUPS.iter();
        groups
            .flat_map(|group| group.cases.iter().chain(group.large))
            .copied()
            .collect()
    };
    #[cfg(debug_assertions)]
    if args.broken {
        let broken = BROKEN.iter().chain(BROKEN_LARGE);
        for case in broken.filter(|case| case.name.contains(&args.case)) {
            println!(
                "{}: {}",
                case.name,
                storage_model::sabotage::breaking(case.name, || case.search(args.states))
            );
        }
        return std::process::ExitCode::SUCCESS;
    }
    let mut failed = false;
    for case in cases.iter().filter(|case| case.name.contains(&args.case)) {
        let found = case.search(args.states);
        println!("{}: {found}", case.name);
        failed |= found.counterexample.is_some();
    }
    std::process::ExitCode::from(u8::from(failed))
}
