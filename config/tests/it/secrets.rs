//! No message and no debug form shows a password.

use storage_config::{ColdUrl, HotUrl, Secret, Settings};

const PASSWORD: &str = "hunter2";

/// URLs with the password at every place, well-formed and not.
const URLS: [&str; 26] = [
    "redis://:hunter2@one",
    "redis://ann:hunter2@one:6379/1",
    "rediss://ann:hunter2@one,two",
    "redis://ann:hunter2@one:port",
    "redis://ann:hunter2@one/db",
    "redis://ann:hunter2",
    "redis://ann:hun/hunter2@one",
    "redis://ann:a?hunter2@one",
    "redis://ann:a@hunter2?b@one",
    "redis://ann:#hunter2@one",
    "redis://ann:%zz%ffhunter2@one",
    "redis:/ann:hunter2@one",
    "redis:ann:hunter2@one",
    "ann:hunter2@one",
    "hunter2",
    "redis+unix:///run/redis.sock?pass=hunter2",
    "redis+unix:///run/redis.sock?pass=a@hunter2&x=1",
    "redis+unix://ann:hunter2@one/run/redis.sock",
    "redis-sentinel://ann:hunter2@one",
    "redis-sentinel://ann:hunter2@one/main?sentinel-pass=hunter2",
    "redis-sentinel://one/main?sentinel-pass=hunter2&x=1",
    "redis-cluster://ann:hunter2@one,two:x",
    "postgres://ann:hunter2@one/game",
    "mysql://ann:hunter2@one/game",
    "mysql://ann:hunter2@one",
    "mysql://ann:hunter2@/game?sslmode=hunter2",
];

#[test]
fn no_url_shows_its_password_however_it_is_misspelt() {
    for url in URLS {
        for key in ["redis.url", "sql.url"] {
            let text = format!("{key} = '{url}'");
            let file =
                Settings::from_toml(&text, "storage.toml").map(|settings| format!("{settings:?}"));
            let variable = format!("STORAGE__{}", key.to_uppercase().replace('.', "__"));
            let urls = "redis.url = \"memory:\"\nsql.url = \"sqlite::memory:\"";
            let outcome = Settings::from_sources(urls, "storage.toml", [(variable.as_str(), url)]);
            let said = outcome
                .as_ref()
                .map_or_else(ToString::to_string, |_| String::new());
            let shown = format!("{file:?} {outcome:?} {said}");
            assert!(!shown.contains(PASSWORD), "{url} as {key}: {shown}");
        }
        let parsed = format!("{:?} {:?}", url.parse::<HotUrl>(), url.parse::<ColdUrl>());
        assert!(!parsed.contains(PASSWORD), "{url}: {parsed}");
    }
}

#[test]
fn a_url_under_the_key_of_something_else_does_not_show_its_password() {
    for key in [
        "redis.tls_ca_file",
        "sql.tls_ca_file",
        "redis.partitions",
        "landing.interval",
        "hot.trust_absent",
        "durability.default",
    ] {
        let url = format!("redis://ann:{PASSWORD}@one");
        let text =
            format!("{key} = {url:?}\nredis.url = \"redis://one\"\nsql.url = \"sqlite:game.db\"");
        let error = Settings::from_toml(&text, "storage.toml")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("redis://ann:***@one:6379/0") && !error.contains(PASSWORD),
            "{key}: {error}"
        );
    }
}

#[test]
fn a_password_of_the_wrong_type_is_not_shown() {
    for value in ["12345", "12345.5", "[12345]", "{ a = 12345 }"] {
        let error =
            Settings::from_toml(&format!("redis.password = {value}"), "storage.toml").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("12345"), "{error:?}");
    }
}

#[test]
fn a_table_under_another_key_is_not_shown() {
    for text in [
        "redis.url = { password = \"hunter2\" }",
        "[redis.url]\nhost = \"h\"\npassword = \"hunter2\"",
        "sql.url = { password = \"hunter2\" }",
        "sql.table = { password = \"hunter2\" }",
        "[sinks.a]\nkind = \"webhook\"\nurl = { password = \"hunter2\" }",
        "[sinks.a]\nkind = { password = \"hunter2\" }",
    ] {
        let error = Settings::from_toml(text, "storage.toml").unwrap_err();
        assert!(
            !format!("{error} {error:?}").contains(PASSWORD),
            "{error:?}"
        );
    }
}

#[test]
fn text_that_is_not_toml_is_not_shown() {
    for text in [
        "redis.password = hunter2",
        "redis.password = \"hunter2",
        "hunter2",
        "[redis\npassword = \"hunter2\"",
    ] {
        let error = Settings::from_toml(text, "storage.toml").unwrap_err();
        assert!(
            !format!("{error} {error:?}").contains(PASSWORD),
            "{error:?}"
        );
    }
}

#[test]
fn settings_show_everything_but_passwords() {
    let mut settings = Settings::new(
        format!("redis://ann:{PASSWORD}@one").parse().unwrap(),
        format!("mysql://bob:{PASSWORD}@two/game").parse().unwrap(),
    );
    settings.redis.password = Some(Secret::new(PASSWORD));
    settings.sql.password = Some(Secret::new(PASSWORD));
    let shown = format!(
        "{settings:?} {} {} {}",
        settings.redis.url,
        settings.sql.url,
        Secret::new(PASSWORD)
    );
    assert!(!shown.contains(PASSWORD), "{shown}");
    assert!(
        shown.contains("redis://ann:***@one:6379/0")
            && shown.contains("mysql://bob:***@two:3306/game"),
        "{shown}"
    );
    assert_eq!(settings.sql.login().password.unwrap().expose(), PASSWORD);
}
