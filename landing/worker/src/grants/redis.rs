//! Lines for Redis and its Sentinels, in the syntax of `redis-cli`.

use storage_config::{HotUrl, RedisSettings};

use super::{PASSWORD, USER};

/// Commands, each group with its purpose. Commands inside scripts are included, because Redis
/// checks the right to each command that a script calls.
const COMMANDS: [(&str, &str); 8] = [
    (
        "to know the server, and its scripts",
        "info time script|load evalsha",
    ),
    ("the values of owners", "hget hmget hgetall hset hdel"),
    ("what is known of owners, leases, locks", "get set exists"),
    ("what may leave", "pexpire persist del unlink"),
    ("marks that wait to be landed", "hlen hscan rename type"),
    ("notes of the feed", "xadd xlen xrange xtrim"),
    (
        "who lands, and links of transactions",
        "zadd zrange zrangebyscore zrem zremrangebyscore",
    ),
    (
        "writes that wait for replicas or the disk",
        "wait config|get",
    ),
];
/// The commands of programs that only read, including those in their scripts.
const READING: &str =
    "info time script|load evalsha hget hmget hgetall get exists hlen hscan xlen xrange";
/// Commands that Redis 7.0 does not know and refuses to grant.
const OF_7_2: &str = "+waitaof +client|setinfo";
/// Also needed for a database number.
const OF_DATABASES: &str = "select";
/// Also needed for a cluster.
const OF_CLUSTER: &str = "cluster|slots asking";
/// The command for a Sentinel.
const OF_SENTINELS: &str = "sentinel|get-master-addr-by-name";

/// The rights of the user of game servers and workers.
pub(super) fn lines(redis: &RedisSettings) -> String {
    if redis.url == HotUrl::Memory {
        return "-- The hot tier lives in the memory of the program and needs no rights.\n"
            .to_owned();
    }
    let named = redis.login().user;
    let user = named.as_deref().unwrap_or(USER);
    let keys = quoted(&format!("~{}-*", pattern(&redis.prefix)));
    let mut commands: Vec<&str> = COMMANDS
        .iter()
        .flat_map(|(_, names)| names.split(' '))
        .collect();
    let mut out = "\
-- In Redis, on each server, by redis-cli: the lines that begin with ACL, then ACL SAVE or CONFIG REWRITE. For game servers and workers.
"
    .to_owned();
    if named.is_none() {
        out += &format!(
            "-- The settings name no user; with this one, redis.url is redis://{USER}@….\n"
        );
    }
    for (why, names) in COMMANDS {
        out += &format!("-- {why}: {names}\n");
    }
    if redis.url.database() != 0 {
        commands.push(OF_DATABASES);
        out += &format!("-- the database {}: {OF_DATABASES}\n", redis.url.database());
    }
    if matches!(redis.url, HotUrl::Cluster { .. }) {
        commands.extend(OF_CLUSTER.split(' '));
        out += &format!("-- a cluster: {OF_CLUSTER}\n");
    }
    let rights: Vec<String> = commands
        .iter()
        .map(|command| format!("+{command}"))
        .collect();
    out += &format!(
        "ACL SETUSER {} reset on >{PASSWORD} {keys} {}\n",
        quoted(user),
        rights.join(" ")
    );
    out += &format!(
        "-- Redis 7.2 or later, and Valkey: writes that wait for the disk, and what the driver says of itself.\nACL SETUSER {} {OF_7_2}\n",
        quoted(user)
    );
    let mut reading: Vec<&str> = READING.split(' ').collect();
    reading.extend(commands.iter().filter(|command| {
        OF_DATABASES == **command || OF_CLUSTER.split(' ').any(|one| one == **command)
    }));
    let rights: Vec<String> = reading
        .iter()
        .map(|command| format!("+{command}"))
        .collect();
    out += &format!(
        "-- For commands that only read (status, errors, verify, export).\nACL SETUSER {} reset on >{PASSWORD} {keys} {}\n",
        quoted(&format!("{user}_reader")),
        rights.join(" ")
    );
    if let HotUrl::Sentinel { sentinel_login, .. } = &redis.url
        && let Some(guard) = &sentinel_login.user
    {
        out += &format!(
            "-- On each Sentinel.\nACL SETUSER {} reset on >{PASSWORD} +{OF_SENTINELS}\n",
            quoted(guard)
        );
    }
    out
}

/// A prefix as a pattern of keys that matches only this prefix. A blank, which a pattern can't
/// hold, becomes a wildcard for one character.
fn pattern(prefix: &str) -> String {
    let escaped = |c: char| match c {
        '*' | '?' | '[' | ']' | '\\' => format!("\\{c}"),
        c if c.is_whitespace() => "?".to_owned(),
        c => c.to_string(),
    };
    prefix.chars().map(escaped).collect()
}

/// An argument in the syntax of `redis-cli` and of a server's inline commands.
fn quoted(argument: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "~_-:./*".contains(c);
    if argument.chars().all(is_plain) {
        return argument.to_owned();
    }
    format!(
        "\"{}\"",
        argument.replace('\\', "\\\\").replace('"', "\\\"")
    )
}

#[cfg(test)]
mod tests {
    use storage_config::Settings;

    use super::*;

    fn of(url: &str, prefix: &str) -> String {
        let text =
            format!("[redis]\nurl = {url:?}\nprefix = {prefix:?}\n[sql]\nurl = \"sqlite:x.db\"\n");
        lines(&Settings::from_toml(&text, "test").unwrap().redis)
    }

    #[test]
    fn a_prefix_is_a_pattern_for_itself_alone_and_no_password_is_shown() {
        assert!(
            of("redis://h:1/0", "slug")
                .contains("ACL SETUSER game reset on >PASSWORD ~slug-* +info")
        );
        let odd = of("redis://us%22er:s3cret@h:1/0", "a*b [c]\\\"d");
        assert!(
            odd.contains(
                r#"ACL SETUSER "us\"er" reset on >PASSWORD "~a\\*b?\\[c\\]\\\\\"d-*" +info"#
            ),
            "{odd}"
        );
        assert!(!odd.contains("s3cret"), "{odd}");
    }

    #[test]
    fn clusters_sentinels_and_databases_need_more() {
        assert!(of("redis-cluster://h:1", "slug").contains("+cluster|slots +asking"));
        assert!(of("redis://h:1/3", "slug").contains("+select"));
        let sentinels = of(
            "redis-sentinel://h:1/main/0?sentinel-user=guard&sentinel-pass=s3cret",
            "slug",
        );
        assert!(
            sentinels
                .contains("ACL SETUSER guard reset on >PASSWORD +sentinel|get-master-addr-by-name"),
            "{sentinels}"
        );
    }
}
