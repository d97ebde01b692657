//! The sections `sinks.NAME`.

use storage_config::{Settings, SinkSettings};

const URLS: &str = "redis.url = \"memory:\"\nsql.url = \"sqlite::memory:\"\n";

fn read(lines: &str) -> Result<Vec<(String, SinkSettings)>, String> {
    let settings = Settings::from_toml(&format!("{URLS}{lines}\n"), "f");
    let settings = settings.map_err(|error| format!("{error} {error:?}"))?;
    settings.validate().map_err(|error| error.to_string())?;
    let sinks = settings.sinks.into_iter();
    Ok(sinks.map(|(name, sink)| (name.to_string(), sink)).collect())
}

fn said(lines: &str) -> String {
    let error = read(lines).err().unwrap_or_default();
    error
        .split(" Value {")
        .next()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn each_kind_of_sink_has_its_target() {
    let lines = "[sinks.audit]\nkind = \"file\"\ndir = \"/a\"\n\
                 [sinks.others]\nkind = \"stream\"\nurl = \"redis://h/3\"\nkeep = 5\n\
                 [sinks.web]\nkind = \"webhook\"\nurl = \"https://h/p\"\ntimeout = \"2s\"";
    let sinks = read(lines).unwrap();
    let [(audit, file), (others, stream), (web, webhook)] = sinks.as_slice() else {
        panic!("{sinks:?}")
    };
    assert_eq!([audit, others, web], ["audit", "others", "web"]);
    assert!(matches!(file, SinkSettings::File { dir, .. } if dir == "/a"));
    let SinkSettings::Stream {
        url,
        key_prefix,
        keep,
        timeout,
        ..
    } = stream
    else {
        panic!("{stream:?}")
    };
    assert_eq!(url.to_string(), "redis://h:6379/3");
    assert_eq!(
        (key_prefix.as_str(), *keep, timeout.as_secs()),
        ("events:", 5, 10)
    );
    let SinkSettings::Webhook {
        url,
        authorization,
        proxy,
        timeout,
        ..
    } = webhook
    else {
        panic!("{webhook:?}")
    };
    assert_eq!(
        (url.expose(), authorization, proxy),
        ("https://h/p", &None, &None)
    );
    assert_eq!(timeout.as_secs(), 2);
}

#[test]
fn a_mistake_in_a_sink_is_named_with_the_way_out() {
    for (lines, expected) in [
        (
            "sinks.a.dir = \"/a\"",
            "sinks.a.kind is missing; set it in the settings file or as STORAGE__SINKS__A__KIND",
        ),
        (
            "sinks.a.kind = \"file\"",
            "sinks.a.dir is missing; set it in the settings file or as STORAGE__SINKS__A__DIR",
        ),
        (
            "sinks.a.kind = \"kafka\"",
            "f:3: sinks.a.kind = \"kafka\": expected \"file\", \"stream\" or \"webhook\"",
        ),
        (
            "[sinks.a]\nkind = \"webhook\"\nurl = \"https://h/\"\nkeep = 3",
            "f:6: sinks.a.keep = 3: expected no such key, since sinks.a.kind is \"webhook\"",
        ),
        (
            "[sinks.a]\nkind = \"webhook\"\nurl = \"redis://h\"",
            "f:5: sinks.a.url = \"redis://h:6379/0\": expected http://HOST:PORT/PATH or https://… (TLS), without a login",
        ),
        (
            "[sinks.a]\nkind = \"stream\"\nurl = \"redis-cluster://h\"",
            "f:5: sinks.a.url = \"redis-cluster://h:6379\": expected one server: redis://HOST:PORT/DB, rediss://… (TLS) or redis+unix:///PATH",
        ),
        (
            "[sinks.a]\nkind = \"stream\"\nurl = \"redis://h\"\ntimeout = \"1h\"",
            "f:6: sinks.a.timeout = \"1h\": expected a duration such as \"500ms\", \"10s\", \"5min\" or \"1h\", from \"100ms\" to \"1m\"",
        ),
        (
            "sinks = 5",
            "f:3: sinks = (integer): expected a section: [sinks.NAME]",
        ),
        (
            "sinks.a = 5",
            "f:3: sinks.a = (integer): expected a section: [sinks.a]",
        ),
    ] {
        let said = said(lines);
        assert!(said.starts_with(expected), "{said}\n{expected}");
    }
    for name in ["A", "a-b", "a__b"] {
        let said = said(&format!("sinks.{name}.kind = \"file\""));
        assert!(
            said.contains(&format!("unknown section sinks.{name}; a sink's name has")),
            "{said}"
        );
    }
    let said = said("sinks.a.ur = 1");
    assert!(
        said.starts_with("f:3: unknown key sinks.a.ur; did you mean sinks.a.url?"),
        "{said}"
    );
}

#[test]
fn variables_make_and_change_sinks() {
    let from = |variables: &[(&str, &str)]| Settings::from_sources(URLS, "f", variables.to_vec());
    let settings = from(&[
        ("STORAGE__SINKS__MY_LOG__DIR", "/b"),
        ("STORAGE__SINKS__MY_LOG__KIND", "file"),
    ]);
    let settings = settings.unwrap();
    let (name, sink) = settings.sinks.first_key_value().unwrap();
    assert_eq!(name.as_str(), "my_log");
    assert!(matches!(sink, SinkSettings::File { dir, .. } if dir == "/b"));
    for variable in [
        "STORAGE__SINKS__A__KINDS",
        "STORAGE__SINKS__a__KIND",
        "STORAGE__SINKS__KIND",
    ] {
        let error = from(&[(variable, "file")]).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("unknown variable {variable}")),
            "{error}"
        );
    }
}

/// Neither the header nor the path of a web address, which often is a secret of its own.
#[test]
fn no_secret_of_a_sink_is_shown() {
    for (lines, is_fine) in [
        (
            "url = \"https://h/hunter2\"\nauthorization = \"Bearer hunter2\"",
            true,
        ),
        ("url = \"https://h?key=hunter2\"\nkeep = 4", false),
        ("url = \"https://ann:hunter2@h/\"", false),
        ("url = \"https://h:x/hunter2\"", false),
        ("url = \"htps://h/hunter2\"", false),
        ("url = \"redis://:hunter2@h\"", false),
        ("url = \"https://h\"\nauthorization = \"hunter2\\n\"", false),
        ("url = \"https://h\"\nauthorization = [\"hunter2\"]", false),
    ] {
        let read = read(&format!("[sinks.a]\nkind = \"webhook\"\n{lines}"));
        assert_eq!(read.is_ok(), is_fine, "{read:?}");
        assert!(!format!("{read:?}").contains("hunter2"), "{read:?}");
    }
}
