//! What a mistake is answered with.

use std::time::Duration;

use storage_config::Settings;

const URLS: &str = "redis.url = \"memory:\"\nsql.url = \"sqlite::memory:\"\n";

/// The message that a file with this third line is answered with.
fn said(line: &str) -> String {
    match Settings::from_toml(&format!("{URLS}{line}\n"), "config/storage.toml") {
        Ok(settings) => format!("{settings:?}"),
        Err(error) => error.to_string(),
    }
}

/// The message that a variable is answered with.
fn said_of(name: &str, value: &str) -> String {
    match Settings::from_sources(URLS, "config/storage.toml", [(name, value)]) {
        Ok(_) => "fine".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_value_out_of_range_is_named_with_file_line_key_and_range() {
    assert_eq!(
        said("redis.partitions = 0"),
        "config/storage.toml:3: redis.partitions = 0: expected an integer from 1 to 16384"
    );
    assert_eq!(
        said("hot.operation_deadline = \"31s\""),
        "config/storage.toml:3: hot.operation_deadline = \"31s\": expected a duration such as \"500ms\", \"10s\", \"5min\" or \
         \"1h\", from \"100ms\" to \"30s\""
    );
    assert_eq!(
        said("redis.prefix = \"a{b\""),
        "config/storage.toml:3: redis.prefix = \"a{b\": expected 1 to 64 bytes without braces and control characters"
    );
    for table in ["rows; DROP", "1rows", ""] {
        assert_eq!(
            said(&format!("sql.table = {table:?}")),
            format!(
                "config/storage.toml:3: sql.table = {table:?}: expected 1 to 48 of A to Z, a to z, 0 to 9 and _, no digit first"
            )
        );
    }
}

#[test]
fn a_value_of_the_wrong_type_is_named_with_what_was_expected() {
    assert_eq!(
        said("redis.partitions = \"many\""),
        "config/storage.toml:3: redis.partitions = \"many\": expected an integer from 1 to 16384"
    );
    for wrong in ["500", "0.5", "true", "[1]", "{ s = 1 }", "1979-05-27"] {
        let message = said(&format!("landing.interval = {wrong}"));
        assert!(
            message.starts_with("config/storage.toml:3: landing.interval = "),
            "{message}"
        );
        assert!(message.contains("expected a duration"), "{message}");
    }
    assert_eq!(
        said("hot.trust_absent = \"yes\""),
        "config/storage.toml:3: hot.trust_absent = \"yes\": expected true or false"
    );
    assert_eq!(
        said("limits = 5"),
        "config/storage.toml:3: limits = (integer): expected a section: [limits]"
    );
    let beyond = said("hot.load_rows_max = 99999999999999999999");
    assert!(
        beyond.contains("= \"99999999999999999999\": expected an integer from 1 to 1000000"),
        "{beyond}"
    );
    let huge = said("limits.call_bytes_max = 9223372036854775807");
    assert!(
        huge.ends_with(
            "call_bytes_max = 9223372036854775807: expected an integer from 1 to 67108864"
        ),
        "{huge}"
    );
}

#[test]
fn an_unknown_name_is_answered_with_the_nearest_known_one() {
    assert_eq!(
        said("redis.urll = 1"),
        "config/storage.toml:3: unknown key redis.urll; did you mean redis.url?"
    );
    assert_eq!(
        said("redis.table = 1"),
        "config/storage.toml:3: unknown key redis.table; did you mean sql.table?"
    );
    assert_eq!(
        said("redis.user = \"game\""),
        "config/storage.toml:3: unknown key redis.user; did you mean redis.url?"
    );
    assert_eq!(
        said("reddis.url = 1"),
        "config/storage.toml:3: unknown section reddis; did you mean redis?"
    );
    assert_eq!(
        said("limits.something = 1"),
        "config/storage.toml:3: unknown key limits.something; limits has value_bytes_max, fields_max, call_bytes_max"
    );
    assert_eq!(
        said("elsewhere.url = 1"),
        "config/storage.toml:3: unknown section elsewhere; there are redis, sql, hot, landing, backpressure, durability, feed, sessions, limits, sinks"
    );
}

#[test]
fn a_variable_is_answered_by_its_own_name() {
    assert_eq!(
        said_of("STORAGE__REDIS__PARTITIONS", "abc"),
        "STORAGE__REDIS__PARTITIONS=abc: expected an integer from 1 to 16384"
    );
    assert_eq!(
        said_of("STORAGE__REDIS__URLL", "memory:"),
        "unknown variable STORAGE__REDIS__URLL; did you mean STORAGE__REDIS__URL?"
    );
    assert_eq!(
        said_of("STORAGE__nothing", "1"),
        "unknown variable STORAGE__nothing; the name is STORAGE__SECTION__KEY, such as STORAGE__REDIS__URL"
    );
}

#[test]
fn text_that_is_not_toml_is_answered_with_its_line() {
    let message = said("redis.prefix = ");
    assert!(
        message.starts_with("config/storage.toml:3: not TOML: "),
        "{message}"
    );
    let twice = said("redis.url = \"memory:\"");
    assert!(
        twice.starts_with("config/storage.toml:3: not TOML: "),
        "{twice}"
    );
}

#[test]
fn a_missing_url_is_answered_with_both_ways_to_set_it() {
    let error = Settings::from_toml("redis.url = \"memory:\"", "storage.toml").unwrap_err();
    assert_eq!(
        error.to_string(),
        "sql.url is missing; set it in the settings file or as STORAGE__SQL__URL"
    );
}

#[test]
fn values_that_do_not_fit_each_other_are_refused_where_they_were_set() {
    assert_eq!(
        said("hot.refresh_interval = \"20h\""),
        "config/storage.toml:3: hot.refresh_interval = \"20h\": expected at most half of hot.clean_ttl, \"30m\""
    );
    assert_eq!(
        said("limits.value_bytes_max = 8388609"),
        "config/storage.toml:3: limits.value_bytes_max = 8388609: expected at most limits.call_bytes_max, 8388608"
    );
    for line in [
        "hot.refresh_interval = \"31m\"",
        "backpressure.soft_age = \"2h\"\nbackpressure.hard_age = \"1h\"",
        "redis.tls_ca_file = \"ca.pem\"",
        "sql.tls_ca_file = \"ca.pem\"",
    ] {
        let message = said(line);
        assert!(
            message.starts_with(&format!(
                "config/storage.toml:3: {}: expected ",
                line.lines().next().unwrap()
            )),
            "{message}"
        );
    }
    let no_user = said_of("STORAGE__SQL__URL", "mysql://db/game");
    assert!(
        no_user
            == "STORAGE__SQL__URL=mysql://db:3306/game: expected a user in the URL: mysql://USER@HOST:PORT/DATABASE",
        "{no_user}"
    );
}

#[test]
fn fields_that_a_program_sets_are_checked_as_those_of_a_file() {
    let mut settings = Settings::embedded("game.db");
    settings.redis.partitions = 16_385;
    let error = settings.validate().unwrap_err();
    assert_eq!(
        error.to_string(),
        "redis.partitions = 16385: expected an integer from 1 to 16384"
    );
}

/// Also a number that no file can have.
#[test]
fn no_field_that_a_program_sets_is_beyond_its_range() {
    let said = |change: fn(&mut Settings)| {
        let mut settings = Settings::embedded("what?.db");
        settings.validate().unwrap();
        change(&mut settings);
        settings.validate().unwrap_err().to_string()
    };
    assert_eq!(
        said(|settings| settings.limits.fields_max = usize::MAX),
        "limits = (table): expected numbers up to 9223372036854775807, and paths in UTF-8"
    );
    assert_eq!(
        said(|settings| settings.hot.absent_ttl = Duration::MAX)
            .split(": ")
            .nth(1),
        Some(
            "expected a duration such as \"500ms\", \"10s\", \"5min\" or \"1h\", from \"100ms\" to \"1h\""
        )
    );
    assert_eq!(
        said(|settings| settings.landing.worker_name = Some(String::new())),
        "landing.worker_name = \"\": expected 1 to 64 bytes without control characters, or \"\" for host and process id"
    );
}

#[test]
fn the_first_and_the_last_allowed_value_are_allowed() {
    for line in [
        "redis.partitions = 1",
        "redis.partitions = 16384",
        "redis.partitions = 0x10",
        "redis.partitions = +16_384",
        "sql.table = \"_1\"",
        "hot.operation_deadline = \"30s\"",
        "hot.refresh_interval = \"0s\"",
        "hot.refresh_interval = \"30min\"",
        "limits.value_bytes_max = 8388608",
    ] {
        assert!(
            said(line).starts_with("Settings {"),
            "{line}: {}",
            said(line)
        );
    }
}
