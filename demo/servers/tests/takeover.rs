//! The demo on servers kills a worker in the middle of its work, and reports no difference.

use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context as _, Result};

fn demo(args: &[&str]) -> Result<Output> {
    let program = Path::new(env!("CARGO_BIN_EXE_demo-servers"));
    Ok(Command::new(program).args(args).output()?)
}

/// The value of a line of the table.
fn line<'a>(table: &'a str, name: &str) -> Result<&'a str> {
    let line = table.lines().find_map(|line| line.strip_prefix(name));
    Ok(line
        .with_context(|| format!("no {name} in:\n{table}"))?
        .trim())
}

#[test]
fn on_servers_a_worker_is_killed_in_the_middle_and_the_other_takes_over() {
    let output = demo(&["--players", "200", "--seconds", "2"]).unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{table}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(line(&table, "differences").unwrap(), "0");
    let (marks, _) = line(&table, "taken over")
        .unwrap()
        .split_once(" marks")
        .unwrap();
    assert!(
        marks.replace(',', "").parse::<u64>().unwrap() > 0,
        "{table}"
    );
}

#[test]
fn too_few_players_are_refused_before_a_server_starts() {
    let few = demo(&["--players", "99"]).unwrap();
    let error = String::from_utf8(few.stderr).unwrap();
    assert!(
        !few.status.success() && error.contains("let 100 or more play"),
        "{error}"
    );
}
