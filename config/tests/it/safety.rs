//! What writes wait for, and when they are refused.

use std::time::Duration;

use storage_config::{DurabilitySettings, Settings};
use storage_model::Durability;

const URLS: &str = "[redis]\nurl = \"redis://127.0.0.1\"\n[sql]\nurl = \"sqlite:game.db\"\n";

fn read(section: &str) -> Result<Settings, String> {
    Settings::from_toml(&format!("{URLS}{section}"), "storage.toml")
        .map_err(|error| error.to_string())
}

fn durability(text: &str) -> Result<Durability, String> {
    read(&format!("[durability]\ndefault = {text:?}")).map(|settings| settings.durability.default)
}

#[test]
fn every_durability_is_written_in_words() {
    let timeout = Duration::from_millis(200);
    assert_eq!(durability("cached"), Ok(Durability::Cached));
    assert_eq!(
        durability("replicated 2 200ms"),
        Ok(Durability::Replicated {
            replicas: 2,
            timeout
        })
    );
    assert_eq!(
        durability("fsynced 200ms"),
        Ok(Durability::Fsynced { timeout })
    );
    assert_eq!(
        durability("landed 1s 500ms"),
        Ok(Durability::Landed {
            timeout: Duration::from_millis(1_500)
        })
    );
    for bad in [
        "",
        "Cached",
        "cached 1s",
        "fsynced",
        "fsynced 0s",
        "fsynced 2min",
        "replicated 1s",
        "replicated 0 1s",
        "replicated -1 1s",
    ] {
        let message = durability(bad).unwrap_err();
        assert!(
            message.contains("durability.default") && message.contains("\"fsynced 200ms\""),
            "{message}"
        );
    }
}

#[test]
fn logic_types_have_their_own_in_a_file_and_in_a_variable() {
    let mut expected = DurabilitySettings::default();
    let timeout = Duration::from_secs(1);
    let player = ("player".to_owned(), Durability::Fsynced { timeout });
    expected.logic_types = [player].into();
    let table = "{ player = \"fsynced 1s\" }";
    assert_eq!(
        read(&format!("[durability]\nlogic_types = {table}"))
            .unwrap()
            .durability,
        expected
    );
    let from = |text| {
        let variables = [("STORAGE__DURABILITY__LOGIC_TYPES", text)];
        Settings::from_sources(URLS, "storage.toml", variables)
    };
    assert_eq!(from(table).unwrap().durability, expected);
    for bad in [
        "",
        "{",
        "7",
        "player",
        "{ player = 1 }",
        "{ player = \"often\" }",
        "{ }\nx = 1",
    ] {
        let error = from(bad).unwrap_err().to_string();
        assert!(
            error.starts_with("STORAGE__DURABILITY__LOGIC_TYPES=") && error.contains("a table"),
            "{error}"
        );
    }
}

#[test]
fn the_memory_of_a_process_has_neither_replicas_nor_a_disk() {
    let mut settings = Settings::embedded("game.db");
    settings.durability.default = Durability::Landed {
        timeout: Duration::from_secs(1),
    };
    settings.validate().unwrap();
    settings.durability.logic_types.insert(
        "player".to_owned(),
        Durability::Fsynced {
            timeout: Duration::from_secs(1),
        },
    );
    let error = settings.validate().unwrap_err().to_string();
    assert!(
        error.contains("fsynced 1s") && error.contains("memory:"),
        "{error}"
    );
}

#[test]
fn a_durability_that_the_memory_of_a_process_has_not_is_named_where_it_was_set() {
    let urls = "redis.url = \"memory:\"\nsql.url = \"sqlite::memory:\"\n";
    let said = |text: &str| {
        Settings::from_toml(&format!("{urls}{text}"), "storage.toml")
            .unwrap_err()
            .to_string()
    };
    let expected = "expected cached or landed, since redis.url is memory:, which has neither replicas nor a disk";
    assert_eq!(
        said("[durability]\ndefault = \"replicated 1 1s\""),
        format!("storage.toml:4: durability.default = \"replicated 1 1s\": {expected}")
    );
    let table = "{ player = \"fsynced 1s\", trade = \"landed 2s\" }";
    let of_player = format!("{{ \"player\" = \"fsynced 1s\" }}: {expected}");
    assert_eq!(
        said(&format!(
            "[durability]\ndefault = \"landed 2s\"\nlogic_types = {table}"
        )),
        format!("storage.toml:5: durability.logic_types = {of_player}")
    );
    let variable = ("STORAGE__DURABILITY__LOGIC_TYPES", table);
    let error = Settings::from_sources(urls, "storage.toml", [variable])
        .unwrap_err()
        .to_string();
    assert_eq!(error, format!("{}={of_player}", variable.0));
}

#[test]
fn a_soft_watermark_lies_below_its_hard_one_and_0_is_off() {
    for good in [
        "soft_marks = 0",
        "hard_marks = 0",
        "soft_marks = 5000000",
        "soft_age = \"1h\"",
        "soft_memory = 0\nhard_memory = 100",
    ] {
        read(&format!("[backpressure]\n{good}")).unwrap();
    }
    for (bad, key) in [
        ("soft_marks = 5000001", "backpressure.hard_marks"),
        (
            "soft_age = \"2h\"\nhard_age = \"1h\"",
            "backpressure.hard_age",
        ),
        ("hard_memory = 79", "backpressure.hard_memory"),
        ("hard_memory = 101", "from 0 to 100"),
    ] {
        let message = read(&format!("[backpressure]\n{bad}")).unwrap_err();
        assert!(message.contains(key), "{message}");
    }
}
