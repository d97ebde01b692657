//! The files that come with the crate, and reading from disk.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use storage_config::{ColdUrl, HotUrl, Settings, TlsMode};

const COMMENTED: &str = include_str!("../../storage.toml");

fn shipped(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The lines `# key = value` with their comment sign taken away.
fn uncommented(text: &str) -> String {
    let is_key = |line: &str| {
        let key = line.split(" = ").next().filter(|key| *key != line);
        key.is_some_and(|key| key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
    };
    let is_section = |line: &str| line.starts_with("[sinks.") && line.ends_with(']');
    let strip = |line: &str| {
        line.strip_prefix("# ")
            .filter(|rest| is_key(rest) || is_section(rest))
            .map(str::to_owned)
    };
    text.lines()
        .map(|line| strip(line).unwrap_or_else(|| line.to_owned()) + "\n")
        .collect()
}

/// "section.key" of every line `key = value`.
fn keys(text: &str) -> BTreeSet<String> {
    let mut section = "";
    let mut found = BTreeSet::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if let Some((key, _)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) {
            assert!(
                found.insert(format!("{section}.{key}")),
                "{key} stands twice"
            );
        }
    }
    found
}

#[test]
fn every_default_in_the_commented_file_is_the_default_of_the_code() {
    let defaults = Settings::from_toml(COMMENTED, "storage.toml").unwrap();
    let expected = Settings::new(
        "redis://127.0.0.1:6379/0".parse().unwrap(),
        "mysql://game@127.0.0.1:3306/game".parse().unwrap(),
    );
    assert_eq!(defaults, expected);
    let mut all = Settings::from_toml(&uncommented(COMMENTED), "storage.toml").unwrap();
    let [files, stream, web] = ["audit", "others", "web"].map(|name| {
        let required = COMMENTED
            .split(&format!("# [sinks.{name}]\n"))
            .nth(1)
            .unwrap();
        let required: String = uncommented(required.split("# [sinks.").next().unwrap())
            .lines()
            .filter(|line| ["kind", "dir", "url"].contains(&line.split(" = ").next().unwrap()))
            .map(|line| format!("{line}\n"))
            .collect();
        let urls = "redis.url = \"memory:\"\nsql.url = \"sqlite::memory:\"";
        let text = format!("{urls}\n[sinks.{name}]\n{required}");
        let settings = Settings::from_toml(&text, name).unwrap();
        settings.sinks.into_iter().next().unwrap()
    });
    assert_eq!(all.sinks, [files, stream, web].into());
    all.sinks.clear();
    assert_eq!(all, expected);
}

/// The commented file has a sink of each kind.
#[test]
fn every_kind_of_sink_and_each_of_its_keys_stands_in_the_commented_file() {
    let all = Settings::from_toml(&uncommented(COMMENTED), "storage.toml").unwrap();
    let mut fields = BTreeSet::new();
    for (name, sink) in &all.sinks {
        let shown = format!("{sink:#?}");
        fields.insert(format!("{name}.kind"));
        let own = shown
            .lines()
            .filter(|line| line.starts_with("    ") && !line.starts_with("     "));
        fields.extend(
            own.filter_map(|line| Some(format!("{name}.{}", line.trim().split_once(": ")?.0))),
        );
    }
    let keys = keys(&uncommented(COMMENTED));
    let of_sinks = keys.iter().filter_map(|key| key.strip_prefix("sinks."));
    assert_eq!(of_sinks.map(str::to_owned).collect::<BTreeSet<_>>(), fields);
}

#[test]
fn every_field_of_every_struct_stands_in_the_commented_file_and_nothing_else() {
    // The pretty Debug form names every field of every struct, so a field that no table lists is
    // found too.
    let settings = Settings::embedded("game.db");
    let mut fields = BTreeSet::new();
    let mut section = String::new();
    for line in format!("{settings:#?}").lines() {
        let name = line
            .trim()
            .split_once(": ")
            .map(|(name, _)| name.to_owned());
        match (line.len() - line.trim_start().len(), name) {
            (4, Some(name)) => section = name,
            (8, Some(name)) => assert!(fields.insert(format!("{section}.{name}"))),
            _ => {}
        }
    }
    assert!(
        fields.contains("redis.url") && fields.contains("limits.call_bytes_max"),
        "{fields:?}"
    );
    let mut keys = keys(&uncommented(COMMENTED));
    keys.retain(|key| !key.starts_with("sinks."));
    assert_eq!(keys, fields);
}

#[test]
fn the_single_server_example_reads() {
    let text = std::fs::read_to_string(shipped("example.single.toml")).unwrap();
    let settings = Settings::from_toml(&text, "example.single.toml").unwrap();
    assert_eq!(settings.redis.login().user.as_deref(), Some("game"));
    assert_eq!(settings.sql.tls, TlsMode::VerifyIdentity);
}

#[test]
fn the_cluster_example_reads() {
    let text = std::fs::read_to_string(shipped("example.cluster.toml")).unwrap();
    let settings = Settings::from_toml(&text, "example.cluster.toml").unwrap();
    let HotUrl::Cluster {
        seeds, tls: true, ..
    } = &settings.redis.url
    else {
        panic!("{:?}", settings.redis.url)
    };
    assert_eq!(seeds.len(), 3);
    assert_eq!(settings.redis.partitions, 1_024);
}

#[test]
fn the_embedded_example_reads_and_has_the_tiers_of_the_embedded_mode() {
    let settings = Settings::load(shipped("example.embedded.toml")).unwrap();
    let embedded = Settings::embedded("game.db");
    assert_eq!(
        (settings.redis.url, &settings.sql.url),
        (HotUrl::Memory, &embedded.sql.url)
    );
    assert_eq!(embedded.sql.url, ColdUrl::SqliteFile("game.db".into()));
    assert_eq!(settings.landing.interval, Duration::from_millis(100));
    embedded.validate().unwrap();
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = Settings::load("nowhere/storage.toml").unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("nowhere/storage.toml: cannot read the settings: "),
        "{error}"
    );
}

#[test]
fn every_commented_key_can_be_overridden_by_its_variable() {
    let text = uncommented(COMMENTED);
    let expected = Settings::from_toml(&text, "storage.toml").unwrap();
    let values = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(" = "));
    let names = keys(&text);
    assert_eq!(values.clone().count(), names.len());
    for name in names {
        // Each alone, with a value of its own type: the one that the file has.
        let (section, key) = name.rsplit_once('.').unwrap();
        let rest = text.split_once(&format!("[{section}]\n")).unwrap().1;
        let line = rest
            .lines()
            .find(|line| line.starts_with(&format!("{key} = ")))
            .unwrap();
        let value = line.split_once(" = ").unwrap().1.trim_matches('"');
        let variable = format!(
            "STORAGE__{}__{}",
            section.to_uppercase().replace('.', "__"),
            key.to_uppercase()
        );
        let variables = [(variable.as_str(), value)];
        let settings = Settings::from_sources(&text, "storage.toml", variables).unwrap();
        assert_eq!(settings, expected, "{variable}");
    }
}
