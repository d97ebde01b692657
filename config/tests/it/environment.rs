//! Overrides by variables.

use std::time::Duration;

use storage_config::{HotUrl, Secret, Settings};

fn settings() -> Settings {
    Settings::embedded("game.db")
}

#[test]
fn variables_override_every_type_of_value_and_others_are_passed_over() {
    let mut settings = settings();
    let variables = [
        ("STORAGE__REDIS__URL", "redis://one"),
        ("STORAGE__REDIS__PASSWORD", "hunter2"),
        ("STORAGE__REDIS__DATABASE", "3"),
        ("STORAGE__REDIS__PARTITIONS", "16"),
        ("STORAGE__HOT__CLEAN_TTL", "90min"),
        ("STORAGE__HOT__TRUST_ABSENT", "true"),
        ("STORAGE__LANDING__WORKER_NAME", "north"),
        ("STORAGE__LIMITS__FIELDS_MAX", "10"),
        ("STORAGE_SERVICE_HOST", "10.0.0.1"),
        ("PATH", "/bin"),
    ];
    settings.apply_env(variables).unwrap();
    assert_eq!(settings.redis.url.to_string(), "redis://one:6379/0");
    assert_eq!(
        settings.redis.login().password,
        Some(Secret::new("hunter2"))
    );
    assert_eq!(
        (settings.redis.database_number(), settings.redis.partitions),
        (3, 16)
    );
    assert_eq!(settings.hot.clean_ttl, Duration::from_mins(90));
    assert!(settings.hot.trust_absent);
    assert_eq!(settings.landing.worker_name.as_deref(), Some("north"));
    assert_eq!(settings.limits.fields_max, 10);
}

#[test]
fn an_empty_variable_leaves_an_optional_setting_to_the_url() {
    let mut settings = settings();
    settings.redis.url = "redis://ann:secret@one/4".parse::<HotUrl>().unwrap();
    settings.redis.user = Some("bob".to_owned());
    settings.redis.database = Some(5);
    settings
        .apply_env([
            ("STORAGE__REDIS__USER", ""),
            ("STORAGE__REDIS__DATABASE", ""),
        ])
        .unwrap();
    assert_eq!(settings.redis.login().user.as_deref(), Some("ann"));
    assert_eq!(settings.redis.database_number(), 4);
}

#[test]
fn a_refused_variable_changes_nothing() {
    let mut settings = settings();
    let variables = [
        ("STORAGE__REDIS__PREFIX", "other"),
        ("STORAGE__REDIS__PARTITIONS", "abc"),
    ];
    assert!(settings.apply_env(variables).is_err());
    assert_eq!(settings, Settings::embedded("game.db"));
}

/// The only test that needs a process environment: it starts itself with one, so that no other test
/// sees it.
#[test]
fn two_variables_are_enough_to_start_and_they_override_a_file() {
    const INSIDE: &str = "CONFIG_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        let settings = Settings::from_env().unwrap();
        let expected = Settings::new(
            "redis://one".parse().unwrap(),
            "sqlite:cold.db".parse().unwrap(),
        );
        assert_eq!(settings, expected);
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/example.cluster.toml");
        assert_eq!(Settings::load(file).unwrap_err().to_string(), MISFIT);
        return;
    }
    let mut inner = std::process::Command::new(std::env::current_exe().unwrap());
    inner.args([
        "--exact",
        "environment::two_variables_are_enough_to_start_and_they_override_a_file",
    ]);
    inner
        .env(INSIDE, "1")
        .env("STORAGE__REDIS__URL", "redis://one")
        .env("STORAGE__SQL__URL", "sqlite:cold.db");
    let output = inner.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

/// The file's certificates don't fit the variable's URL without TLS; the message names the file's
/// line.
const MISFIT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/example.cluster.toml:6: redis.tls_ca_file = \"/etc/storage/redis-ca.pem\": expected \"\", or a redis.url with TLS: ",
    "rediss://, rediss-sentinel:// or rediss-cluster://"
);
