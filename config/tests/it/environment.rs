//! Overrides by variables.

use std::time::Duration;

use storage_config::{Secret, Settings};

const URLS: &str = "redis.url = \"memory:\"\nsql.url = \"sqlite:game.db\"";

#[test]
fn variables_override_every_type_of_value_and_others_are_passed_over() {
    let variables = [
        ("STORAGE__REDIS__URL", "redis://one/3"),
        ("STORAGE__REDIS__PASSWORD", "12345"),
        ("STORAGE__REDIS__PARTITIONS", "16"),
        ("STORAGE__HOT__CLEAN_TTL", "90min"),
        ("STORAGE__HOT__TRUST_ABSENT", "true"),
        ("STORAGE__LANDING__WORKER_NAME", "7"),
        ("STORAGE__LIMITS__FIELDS_MAX", "10"),
        ("STORAGE_SERVICE_HOST", "10.0.0.1"),
        ("PATH", "/bin"),
    ];
    let settings = Settings::from_sources(URLS, "storage.toml", variables).unwrap();
    assert_eq!(settings.redis.url.to_string(), "redis://one:6379/3");
    assert_eq!(settings.redis.login().password, Some(Secret::new("12345")));
    assert_eq!(settings.redis.partitions, 16);
    assert_eq!(settings.hot.clean_ttl, Duration::from_mins(90));
    assert!(settings.hot.trust_absent);
    assert_eq!(settings.landing.worker_name.as_deref(), Some("7"));
    assert_eq!(settings.limits.fields_max, 10);
}

#[test]
fn an_empty_variable_leaves_an_optional_setting_open() {
    let file = "redis.url = \"redis://ann:secret@one/4\"\nredis.password = \"other\"\nsql.url = \"sqlite:game.db\"";
    let password = |variables: &[(&str, &str)]| {
        let settings = Settings::from_sources(file, "storage.toml", variables.to_vec()).unwrap();
        settings.redis.login().password
    };
    assert_eq!(password(&[]), Some(Secret::new("other")));
    let empty = ("STORAGE__REDIS__PASSWORD", "");
    assert_eq!(password(&[empty]), Some(Secret::new("secret")));
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

/// Starts a test of this file again, in a process with these variables.
fn inside(test: &str, variables: &[(&str, &str)]) -> std::io::Result<std::process::Output> {
    let mut inner = std::process::Command::new(std::env::current_exe()?);
    inner.args(["--exact", &format!("environment::{test}"), "--nocapture"]);
    let variables = variables.iter().copied();
    inner
        .env("CONFIG_TEST_INSIDE", "1")
        .envs(variables)
        .output()
}

#[test]
fn a_password_can_stand_in_a_file_whose_line_end_is_no_part_of_it() {
    if std::env::var_os("CONFIG_TEST_INSIDE").is_some() {
        match Settings::from_env() {
            Ok(settings) => println!("read {:?}", settings.sql.password.unwrap().expose()),
            Err(error) => println!("refused {error}"),
        }
        return;
    }
    let test = "a_password_can_stand_in_a_file_whose_line_end_is_no_part_of_it";
    let file = std::env::temp_dir().join(format!("password-{}", std::process::id()));
    let path = file.display().to_string();
    let urls = [
        ("STORAGE__REDIS__URL", "redis://one"),
        ("STORAGE__SQL__URL", "mysql://game@two/game"),
    ];
    let with = |more: &[(&str, &str)]| {
        let output = inside(test, &[&urls[..], more].concat()).unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for (content, read) in [
        ("hunter2\n", "hunter2"),
        ("hunter2\r\n", "hunter2"),
        (" hunter 2", " hunter 2"),
    ] {
        std::fs::write(&file, content).unwrap();
        let said = with(&[("STORAGE__SQL__PASSWORD_FILE", &path)]);
        assert!(said.contains(&format!("read {read:?}")), "{said}");
    }
    let both = with(&[
        ("STORAGE__SQL__PASSWORD_FILE", &path),
        ("STORAGE__SQL__PASSWORD", "other"),
    ]);
    assert!(
        both.contains("only one of STORAGE__SQL__PASSWORD and") && !both.contains("hunter"),
        "{both}"
    );
    std::fs::write(&file, "\n").unwrap();
    let empty = with(&[("STORAGE__SQL__PASSWORD_FILE", &path)]);
    assert!(empty.contains("a file that is not empty"), "{empty}");
    std::fs::remove_file(&file).unwrap();
    let missing = with(&[("STORAGE__SQL__PASSWORD_FILE", &path)]);
    assert!(
        missing.contains("STORAGE__SQL__PASSWORD_FILE=") && missing.contains("No such file"),
        "{missing}"
    );
    let unknown = with(&[("STORAGE__SQL__PASSWORT_FILE", &path)]);
    assert!(unknown.contains("unknown variable"), "{unknown}");
}

/// The file's certificates don't fit the variable's URL without TLS; the message names the file's
/// line.
const MISFIT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/example.cluster.toml:6: redis.tls_ca_file = \"/etc/storage/redis-ca.pem\": expected \"\", or a redis.url with TLS: ",
    "rediss://, rediss-sentinel:// or rediss-cluster://"
);
