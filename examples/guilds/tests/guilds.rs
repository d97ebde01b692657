//! The whole example, small.

use std::process::Command;

#[test]
fn a_server_is_killed_in_the_middle_of_trades_and_every_item_still_exists_once() {
    let program = Command::new(env!("CARGO_BIN_EXE_guilds"))
        .args([
            "drive",
            "--players",
            "12",
            "--guilds",
            "3",
            "--commands",
            "60",
            "--seed",
            "7",
        ])
        .output()
        .unwrap();
    let report = String::from_utf8(program.stdout).unwrap();
    let errors = String::from_utf8_lossy(&program.stderr);
    assert!(program.status.success(), "{report}{errors}");
    assert!(report.starts_with("seed 7: 12 players"), "{report}");
    for tier in ["Redis", "the database"] {
        let line = report
            .lines()
            .find(|line| line.ends_with(&format!("xp in {tier}")));
        assert!(
            line.is_some_and(|line| line.starts_with("24 items, 1200 gold, ")),
            "{report}"
        );
    }
}
