//! Every form of URL, and what is close to one.

use storage_config::{ColdUrl, HotUrl, MysqlAddress, Node, Secret};

fn node(host: &str, port: u16) -> Node {
    Node {
        host: host.to_owned(),
        port,
    }
}

#[test]
fn hot_urls_of_every_form_are_read_and_shown_in_full() {
    for (url, shown) in [
        ("memory:", "memory:"),
        ("redis://one", "redis://one:6379/0"),
        ("redis://one/", "redis://one:6379/0"),
        ("rediss://one:7000/3", "rediss://one:7000/3"),
        ("redis://:p@10.0.0.1", "redis://:***@10.0.0.1:6379/0"),
        ("redis://[::1]", "redis://[::1]:6379/0"),
        ("redis://ann@[fe80::1]:7/2", "redis://ann@[fe80::1]:7/2"),
        (
            "redis+unix:///run/redis.sock",
            "redis+unix:///run/redis.sock?db=0",
        ),
        (
            "redis+unix:///a%20b?db=2&user=ann&pass=p",
            "redis+unix:///a%20b?db=2&user=ann&pass=***",
        ),
        (
            "redis-sentinel://a,b:1/main",
            "redis-sentinel://a:26379,b:1/main/0",
        ),
        (
            "rediss-sentinel://u:p@a/main/4",
            "rediss-sentinel://u:***@a:26379/main/4",
        ),
        (
            "redis-sentinel://a/main?sentinel-pass=q",
            "redis-sentinel://a:26379/main/0?sentinel-pass=***",
        ),
        (
            "redis-sentinel://a/main?sentinel-user=w@x&sentinel-pass=q",
            "redis-sentinel://a:26379/main/0?sentinel-user=w%40x&sentinel-pass=***",
        ),
        (
            "redis-cluster://a:7000,b,[::1]:7002",
            "redis-cluster://a:7000,b:6379,[::1]:7002",
        ),
        ("rediss-cluster://u:p@a/0", "rediss-cluster://u:***@a:6379"),
    ] {
        assert_eq!(url.parse::<HotUrl>().unwrap().to_string(), shown, "{url}");
    }
}

#[test]
fn escapes_in_a_login_are_undone_and_an_unescaped_at_sign_is_understood() {
    let HotUrl::Server {
        login, node: at, ..
    } = "redis://an%3An:p%2F%40%3A%25%C3%A4@one".parse().unwrap()
    else {
        panic!()
    };
    assert_eq!(
        (login.user.as_deref(), login.password),
        (Some("an:n"), Some(Secret::new("p/@:%ä")))
    );
    assert_eq!(at, node("one", 6379));
    let HotUrl::Server { login, .. } = "redis://ann:p@ss:word@one".parse().unwrap() else {
        panic!()
    };
    assert_eq!(login.password, Some(Secret::new("p@ss:word")));
}

#[test]
fn hot_urls_that_miss_something_are_refused_with_what_is_expected() {
    for (url, expected) in [
        ("", "memory:"),
        ("one:6379", "redis://HOST:PORT/DB"),
        ("http://one", "redis://HOST:PORT/DB"),
        ("redis://", "one host"),
        ("redis://a,b", "one host"),
        ("redis://one:0", "a port from 1 to 65535"),
        ("redis://one:65536", "a port from 1 to 65535"),
        ("redis://::1", "IPv6 address in brackets"),
        ("redis://[::g]", "IPv6 address in brackets"),
        ("redis://[::1]x", "IPv6 address in brackets"),
        ("redis://o ne", "a host name"),
        ("redis://one/x", "the number of a database"),
        ("redis://one/-1", "the number of a database"),
        ("redis://one?timeout=1", "no such parameter"),
        ("redis://one#1", "%23"),
        ("redis://%ff@one", "UTF-8"),
        ("redis+unix://", "three slashes"),
        ("redis+unix://one/sock", "three slashes"),
        ("redis-sentinel://a,b", "the master's name"),
        ("redis-sentinel:///main", "at least one host"),
        ("redis-sentinel://a/ma%20in", "a master's name of letters"),
        ("redis-sentinel://a/main?master=main", "no such parameter"),
        ("redis-cluster://", "at least one host"),
        ("redis-cluster://a,,b", "a host name"),
        ("redis-cluster://a/1", "database 0 alone"),
        ("rediss+unix:///sock", "redis://HOST:PORT/DB"),
    ] {
        let error = url.parse::<HotUrl>().unwrap_err();
        assert!(error.expected.contains(expected), "{url}: {error}");
    }
}

#[test]
fn cold_urls_of_every_form_are_read_and_shown_in_full() {
    for (url, shown) in [
        ("mysql://ann@one/game", "mysql://ann@one:3306/game"),
        (
            "mariadb://ann:p@[::1]:33/game",
            "mysql://ann:***@[::1]:33/game",
        ),
        (
            "mysql://ann@/game?socket=/run/mysqld.sock",
            "mysql://ann@/game?socket=/run/mysqld.sock",
        ),
        ("sqlite:game.db", "sqlite:game.db"),
        ("sqlite:///var/game.db", "sqlite:/var/game.db"),
        ("sqlite://game 100%.db", "sqlite:game 100%.db"),
        ("sqlite::memory:", "sqlite::memory:"),
    ] {
        assert_eq!(url.parse::<ColdUrl>().unwrap().to_string(), shown, "{url}");
    }
    let ColdUrl::Mysql {
        address, database, ..
    } = "mysql://ann@one/game".parse().unwrap()
    else {
        panic!()
    };
    assert_eq!(
        (address, database.as_str()),
        (MysqlAddress::Tcp(node("one", 3306)), "game")
    );
}

#[test]
fn cold_urls_that_miss_something_are_refused_with_what_is_expected() {
    for (url, expected) in [
        ("", "mysql://USER@HOST:PORT/DATABASE"),
        ("postgres://ann@one/game", "mysql://USER@HOST:PORT/DATABASE"),
        ("mysql:game", "mysql://USER@HOST:PORT/DATABASE"),
        ("mysql://ann@one", "the database's name"),
        ("mysql://ann@one/a/b", "the database's name"),
        ("mysql:///game", "one host"),
        ("mysql://a,b/game", "one host"),
        ("mysql://one/game?socket=/s", "either a host or"),
        ("mysql:///game?socket=", "either a host or"),
        ("mysql://one/game?ssl-mode=REQUIRED", "keys of their own"),
        ("sqlite:", "sqlite:PATH"),
        ("sqlite:game.db?mode=rwc", "without parameters"),
    ] {
        let error = url.parse::<ColdUrl>().unwrap_err();
        assert!(error.expected.contains(expected), "{url}: {error}");
    }
}
