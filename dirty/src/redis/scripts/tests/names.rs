//! The reserved names in `key.rs` are those that the scripts use.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::super::SCRIPTS;
use crate::key::RESERVED;

/// The text of a script without comments.
fn code(source: &str) -> String {
    let lines = source.lines();
    lines
        .map(|line| line.split_once("--").map_or(line, |(code, _)| code))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The text, if it is one literal and nothing else.
fn literal(text: &str) -> Option<&str> {
    let text = text.trim().strip_prefix('\'')?.strip_suffix('\'')?;
    (!text.contains('\'')).then_some(text)
}

/// The arguments of a call whose text begins behind its bracket.
fn arguments(text: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut from, mut all) = (0, false, 0, Vec::new());
    for (at, letter) in text.char_indices() {
        match letter {
            '\'' => quoted = !quoted,
            _ if quoted => {}
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' if depth > 0 => depth -= 1,
            ')' => {
                all.push(&text[from..at]);
                return all;
            }
            ',' if depth == 0 => {
                all.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    panic!("a call without an end: {text}");
}

/// The names that a call of a hash's command spells out.
fn names_of_call<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let fields = arguments.iter().skip(2);
    let names: Vec<&str> = match literal(arguments[0]) {
        Some("HGET" | "HMGET" | "HDEL") => fields.copied().collect(),
        Some("HSET") => fields.step_by(2).copied().collect(),
        _ => Vec::new(),
    };
    names.into_iter().filter_map(literal).collect()
}

/// The reserved names in the code of a script: the names in its calls, and all literals that begin
/// or end as prefixes and names of an owner's hash do.
fn names(code: &str) -> BTreeSet<String> {
    let calls = code.split("call(").skip(1);
    let mut names: BTreeSet<String> = calls
        .flat_map(|call| names_of_call(&arguments(call)))
        .map(str::to_owned)
        .collect();
    let literals = code.split('\'').skip(1).step_by(2);
    names.extend(
        literals
            .filter(|text| text.starts_with(':') || text.ends_with(':'))
            .map(str::to_owned),
    );
    names
}

#[test]
fn the_table_of_reserved_names_and_the_scripts_agree() {
    let mut used = BTreeSet::new();
    let table: BTreeSet<&str> = RESERVED.iter().map(|(name, _)| *name).collect();
    assert_eq!(table.len(), RESERVED.len(), "a name is listed twice");
    for script in SCRIPTS.all() {
        for name in names(&code(script.source())) {
            let is_listed = table.contains(name.as_str());
            assert!(is_listed, "{}.lua uses {name:?}", script.name);
            used.insert(name);
        }
    }
    for (name, meaning) in RESERVED {
        assert!(used.contains(name), "no script uses {name:?}: {meaning}");
    }
}

/// All files of Rust in a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            all.push(path);
        }
    }
    all
}

#[test]
fn no_other_file_of_the_engines_spells_out_a_reserved_name() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let is_name = |name: &&str| name.len() > 1 && name.contains(':');
    let names: Vec<&str> = RESERVED
        .iter()
        .map(|(name, _)| *name)
        .filter(is_name)
        .collect();
    for path in files(&folder) {
        let own = ["key.rs", "names.rs", "tests.rs", "fuzz.rs", "sabotage.rs"];
        if own.iter().any(|name| path.ends_with(name)) {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for name in &names {
            let spelt = format!("\"{name}");
            assert!(!text.contains(&spelt), "{} has {spelt}", path.display());
        }
    }
}
