//! The state that a server reports by INFO.

use crate::redis::error::Failure;
use crate::{Evictions, MemoryUse};

/// The part of INFO that decides whether and how a server is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerInfo {
    /// The process that answers and its replication history, as the scripts name them (R14).
    pub(crate) incarnation: String,
    /// Why unlanded data is not safe on the server. `None` if it is safe.
    pub(crate) unsafe_policy: Option<String>,
    /// Its program and version, for messages.
    pub(crate) program: String,
    /// Whether it keeps an append-only file.
    pub(crate) appends: bool,
    /// How many replicas follow it.
    pub(crate) replicas: u32,
    /// The memory in use. `None` without a limit.
    pub(crate) memory: Option<MemoryUse>,
}

impl ServerInfo {
    /// Parses INFO. Fails for a server that is too old, and for a replica.
    pub(crate) fn parse(info: &str) -> Result<Self, Failure> {
        let value = |name: &str| value_of(info, name);
        let required = |name: &str| {
            value(name).ok_or_else(|| Failure::Nonsense(format!("INFO has no {name}")))
        };
        let (program, version, oldest) = match value("valkey_version") {
            Some(version) => ("Valkey", version, (7, 2)),
            None => ("Redis", required("redis_version")?, (7, 0)),
        };
        if !is_at_least(version, oldest) {
            let (major, minor) = oldest;
            return Err(Failure::Settings(format!(
                "the server is {program} {version}; {program} {major}.{minor} or later is needed"
            )));
        }
        if value("role").is_some_and(|role| role != "master") {
            return Err(Failure::server("READONLY", "the server is a replica"));
        }
        let policy = required("maxmemory_policy")?;
        let unsafe_policy = policy.starts_with("allkeys-").then(|| {
            format!("maxmemory-policy is {policy}, which evicts unlanded data; set it to noeviction or one of volatile-*")
        });
        let incarnation = incarnation(required("run_id")?, required("master_replid")?);
        let replica = |line: &&str| line.starts_with("slave") && line.contains("state=online");
        Ok(Self {
            incarnation,
            unsafe_policy,
            program: format!("{program} {version}"),
            appends: value("aof_enabled") == Some("1"),
            memory: memory_use(info, policy.starts_with("volatile-")),
            replicas: u32::try_from(info.lines().filter(replica).count()).unwrap_or(u32::MAX),
        })
    }
}

/// The incarnation that INFO tells. `None` for a replica.
pub(in crate::redis) fn primary(info: &str) -> Option<String> {
    let value = |name: &str| value_of(info, name);
    (value("role")? == "master").then_some(())?;
    Some(incarnation(value("run_id")?, value("master_replid")?))
}

fn incarnation(run: &str, replication: &str) -> String {
    format!("{run}/{replication}")
}

fn value_of<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(str::trim)
}

/// The memory in use, if the server has a limit.
fn memory_use(info: &str, evicts: bool) -> Option<MemoryUse> {
    let number = |name: &str| value_of(info, name)?.parse().ok();
    let rejected = value_of(info, "errorstat_OOM").and_then(|text| {
        let count = text.strip_prefix("count=")?;
        count.split(',').next()?.parse().ok()
    });
    let evictions = Evictions {
        evicted: number("evicted_keys").unwrap_or_default(),
        // A server shows no count before the first such answer.
        rejected: rejected.unwrap_or_default(),
    };
    Some(MemoryUse {
        server: String::new(),
        used: number("used_memory")?,
        limit: number("maxmemory").filter(|limit| *limit > 0)?,
        evictions: evicts.then_some(evictions),
    })
}

fn is_at_least(version: &str, oldest: (u32, u32)) -> bool {
    let mut numbers = version
        .split('.')
        .map(|part| part.parse::<u32>().unwrap_or_default());
    (
        numbers.next().unwrap_or_default(),
        numbers.next().unwrap_or_default(),
    ) >= oldest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(lines: &str) -> Result<ServerInfo, Failure> {
        ServerInfo::parse(&format!(
            "# Server\r\nrun_id:aa\r\nmaster_replid:bb\r\n{}\r\n",
            lines.replace(' ', "\r\n")
        ))
    }

    #[test]
    fn a_server_with_a_limit_tells_its_use_and_what_an_evicting_one_did() {
        let of = |policy: &str, rest: &str| {
            let lines = format!(
                "redis_version:7.0.0 role:master maxmemory_policy:{policy} used_memory:900 {rest}"
            );
            let memory = info(&lines).unwrap().memory;
            memory.map(|memory| (memory.percent(), memory.evictions))
        };
        let evictions = |evicted, rejected| Some(Evictions { evicted, rejected });
        assert_eq!(of("noeviction", "maxmemory:0"), None);
        assert_eq!(
            of("noeviction", "maxmemory:1000 evicted_keys:0"),
            Some((90, None))
        );
        assert_eq!(
            of("volatile-lru", "maxmemory:500 evicted_keys:7"),
            Some((180, evictions(7, 0)))
        );
        assert_eq!(
            of(
                "volatile-ttl",
                "maxmemory:1000 evicted_keys:7 errorstat_ERR:count=5 errorstat_OOM:count=12"
            ),
            Some((90, evictions(7, 12)))
        );
    }

    #[test]
    fn only_servers_that_keep_unlanded_data_and_know_our_scripts_are_accepted() {
        let good = info("redis_version:7.0.15 role:master maxmemory_policy:volatile-lru").unwrap();
        let expected = ServerInfo {
            incarnation: "aa/bb".into(),
            unsafe_policy: None,
            program: "Redis 7.0.15".into(),
            appends: false,
            replicas: 0,
            memory: None,
        };
        assert_eq!(good, expected);
        let followed = "redis_version:8.0.1 role:master maxmemory_policy:noeviction aof_enabled:1 connected_slaves:2 \
                        slave0:ip=::1,port=1,state=online,offset=9 slave1:ip=::1,port=2,state=wait_bgsave,offset=0";
        let followed = info(followed).unwrap();
        assert_eq!(
            (followed.appends, followed.replicas, &*followed.program),
            (true, 1, "Redis 8.0.1")
        );
        assert!(
            info(
                "redis_version:7.2.4 valkey_version:7.2.5 role:master maxmemory_policy:noeviction"
            )
            .is_ok()
        );
        let old = info("redis_version:6.2.14 role:master maxmemory_policy:noeviction").unwrap_err();
        assert_eq!(
            old,
            Failure::Settings("the server is Redis 6.2.14; Redis 7.0 or later is needed".into())
        );
        assert!(matches!(
            info("redis_version:7.0.0 role:slave maxmemory_policy:noeviction"),
            Err(Failure::Server { .. })
        ));
        let lru = info("redis_version:8.0.1 role:master maxmemory_policy:allkeys-lru").unwrap();
        assert!(
            lru.unsafe_policy
                .is_some_and(|why| why.contains("allkeys-lru"))
        );
        assert!(matches!(
            ServerInfo::parse("junk"),
            Err(Failure::Nonsense(_))
        ));
    }
}
