//! Searches the protocol's states.
use storage_tests::protocol::cases::CASES;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    for case in CASES {
        if args.len() > 1 && !case.name.contains(&args[1]) {
            continue;
        }
        println!("{}: {}", case.name, case.search(args.get(2).map_or(3_000_000, |n| n.parse().unwrap())));
    }
}
