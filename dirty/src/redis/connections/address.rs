//! The address of a Redis, parsed from its URL.

use std::path::Path;
use std::str::FromStr;

use redis::{Client, ConnectionAddr, ConnectionInfo, TlsCertificates};

use crate::redis::RedisOptions;
use crate::redis::error::Failure;

/// The addresses to start from, with all settings that a connection needs.
#[derive(Debug, Clone)]
pub(crate) enum Addresses {
    /// One server.
    Server(ConnectionInfo),
    /// Some nodes of a cluster.
    Cluster(Vec<ConnectionInfo>),
    /// The Sentinels of a master.
    Sentinel {
        /// The Sentinels, each with its own login.
        sentinels: Vec<ConnectionInfo>,
        /// The name under which the Sentinels know the master.
        master: String,
        /// The settings of a connection to the master, without the address.
        server: ConnectionInfo,
    },
}

impl Addresses {
    /// Parses the URL of the options.
    pub(crate) fn of(options: &RedisOptions) -> Result<Self, Failure> {
        let (scheme, rest) = options
            .url
            .split_once("://")
            .ok_or_else(|| settings("the URL has no scheme"))?;
        let (plain, kind) = scheme.split_once('-').unwrap_or((scheme, ""));
        if !matches!(
            (plain, kind),
            ("redis" | "rediss", "" | "cluster" | "sentinel") | ("redis+unix", "")
        ) {
            return Err(settings(&format!(
                "the scheme {scheme:?} is none of redis, rediss, redis+unix, redis-cluster, rediss-cluster, redis-sentinel and \
                 rediss-sentinel"
            )));
        }
        if plain == "rediss" {
            // Without a provider rustls panics. If the program has chosen one already, this fails
            // and changes nothing.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        match kind {
            "cluster" => {
                let (login, hosts) = split_login(rest);
                let urls = hosts
                    .trim_end_matches('/')
                    .split(',')
                    .map(|host| format!("{plain}://{login}{host}"));
                Ok(Self::Cluster(
                    urls.map(|url| server(&url, options))
                        .collect::<Result<_, _>>()?,
                ))
            }
            "sentinel" => sentinel(plain, rest, options),
            _ => Ok(Self::Server(server(&format!("{plain}://{rest}"), options)?)),
        }
    }
}

/// `[user:password@]a:1,b:2/master[/db]`.
fn sentinel(plain: &str, rest: &str, options: &RedisOptions) -> Result<Addresses, Failure> {
    const PORT: &str = "26379";
    let (login, rest) = split_login(rest);
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (master, database) = path.split_once('/').unwrap_or((path, ""));
    if hosts.is_empty() || master.is_empty() {
        return Err(settings(
            "the URL names no Sentinel or no master; it is redis-sentinel://host:port,host:port/master",
        ));
    }
    let with_port = |host: &str| match host.rsplit_once(':') {
        Some((_, port)) if !port.ends_with(']') => host.to_owned(),
        _ => format!("{host}:{PORT}"),
    };
    let own = (
        options.sentinel_user.as_ref(),
        options.sentinel_password.as_ref(),
    );
    let sentinels = hosts.split(',').map(|host| {
        connection(
            &format!("{plain}://{}", with_port(host)),
            own,
            None,
            options,
        )
    });
    let server = server(&format!("{plain}://{login}master/{database}"), options)?;
    Ok(Addresses::Sentinel {
        sentinels: sentinels.collect::<Result<_, _>>()?,
        master: master.to_owned(),
        server,
    })
}

/// The name of an address in errors and tables.
pub(crate) fn label(info: &ConnectionInfo) -> String {
    info.addr().to_string()
}

/// The same settings, with the address of another node.
pub(crate) fn sibling(info: &ConnectionInfo, host: &str, port: u16) -> ConnectionInfo {
    let host = host.to_owned();
    let addr = match info.addr().clone() {
        ConnectionAddr::TcpTls {
            insecure,
            tls_params,
            ..
        } => ConnectionAddr::TcpTls {
            host,
            port,
            insecure,
            tls_params,
        },
        _ => ConnectionAddr::Tcp(host, port),
    };
    info.clone().set_addr(addr)
}

/// The host of an address, if it has one.
pub(crate) fn host(info: &ConnectionInfo) -> &str {
    match info.addr() {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host,
        _ => "",
    }
}

fn settings(text: &str) -> Failure {
    Failure::Settings(text.to_owned())
}

/// `user:password@` or nothing, and the rest.
fn split_login(rest: &str) -> (&str, &str) {
    rest.rfind('@')
        .and_then(|at| rest.split_at_checked(at + 1))
        .unwrap_or(("", rest))
}

/// A server of this URL, with the options' login and database where the URL has none.
fn server(url: &str, options: &RedisOptions) -> Result<ConnectionInfo, Failure> {
    connection(
        url,
        (options.user.as_ref(), options.password.as_ref()),
        options.database,
        options,
    )
}

fn connection(
    url: &str,
    (user, password): (Option<&String>, Option<&String>),
    database: Option<i64>,
    options: &RedisOptions,
) -> Result<ConnectionInfo, Failure> {
    // The driver's error may repeat the URL, and with it the password.
    let mut info = ConnectionInfo::from_str(url)
        .map_err(|_| settings("the URL can't be read; is each address host:port?"))?;
    let mut redis = info.redis_settings().clone();
    if let (None, Some(user)) = (redis.username(), user) {
        redis = redis.set_username(user);
    }
    if let (None, Some(password)) = (redis.password(), password) {
        redis = redis.set_password(password);
    }
    if let (0, Some(database)) = (redis.db(), database) {
        redis = redis.set_db(database);
    }
    let tcp = info.tcp_settings().clone().set_nodelay(options.tcp_nodelay);
    info = info.set_redis_settings(redis).set_tcp_settings(tcp);
    match &options.ca_file {
        Some(file) if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) => {
            with_authorities(info, file)
        }
        _ => Ok(info),
    }
}

fn with_authorities(info: ConnectionInfo, file: &Path) -> Result<ConnectionInfo, Failure> {
    let unreadable = |error: &dyn std::fmt::Display| {
        settings(&format!(
            "the certificates in {} can't be used: {error}",
            file.display()
        ))
    };
    let pem = std::fs::read(file).map_err(|error| unreadable(&error))?;
    let certificates = TlsCertificates {
        client_tls: None,
        root_cert: Some(pem),
    };
    let client = Client::build_with_tls(info, certificates).map_err(|error| unreadable(&error))?;
    Ok(client.get_connection_info().clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(url: &str) -> Result<Addresses, Failure> {
        Addresses::of(&RedisOptions::new(url))
    }

    #[test]
    fn every_scheme_leads_to_its_addresses() {
        let labels = |url: &str| match addresses(url).unwrap() {
            Addresses::Server(server) => vec![label(&server)],
            Addresses::Cluster(seeds) => seeds.iter().map(label).collect(),
            Addresses::Sentinel { sentinels, .. } => sentinels.iter().map(label).collect(),
        };
        assert_eq!(labels("redis://u:p@h:1/2"), ["h:1"]);
        assert_eq!(labels("rediss://h"), ["h:6379"]);
        assert_eq!(labels("redis+unix:///tmp/r.sock"), ["/tmp/r.sock"]);
        assert_eq!(labels("redis-cluster://:p%40@a:1,b:2"), ["a:1", "b:2"]);
        assert_eq!(
            labels("redis-sentinel://:p%40@a:1,b,[::1]/main"),
            ["a:1", "b:26379", "::1:26379"]
        );
        let Addresses::Cluster(seeds) = addresses("redis-cluster://u:p%40@a:1,b:2").unwrap() else {
            panic!()
        };
        assert!(
            seeds
                .iter()
                .all(|seed| seed.redis_settings().password() == Some("p@"))
        );
    }

    #[test]
    fn sentinels_have_a_login_of_their_own_and_the_master_has_the_urls() {
        let url = "rediss-sentinel://u:p@a/main/3".to_owned();
        let options = RedisOptions {
            url,
            sentinel_password: Some("q".to_owned()),
            ..RedisOptions::new("")
        };
        let Addresses::Sentinel {
            sentinels,
            master,
            server,
        } = Addresses::of(&options).unwrap()
        else {
            panic!()
        };
        let login = |info: &ConnectionInfo| {
            let redis = info.redis_settings();
            (
                redis.username().map(str::to_owned),
                redis.password().map(str::to_owned),
                redis.db(),
            )
        };
        assert_eq!(login(&sentinels[0]), (None, Some("q".to_owned()), 0));
        assert_eq!(
            login(&server),
            (Some("u".to_owned()), Some("p".to_owned()), 3)
        );
        assert_eq!(master, "main");
        let found = sibling(&server, "10.0.0.1", 6380);
        assert!(
            matches!(found.addr(), ConnectionAddr::TcpTls { .. })
                && login(&found) == login(&server)
        );
        assert_eq!(label(&found), "10.0.0.1:6380");
    }

    #[test]
    fn a_url_that_cannot_work_is_refused_without_its_password() {
        for url in [
            "localhost",
            "http://:secret@h",
            "redis://:secret@h:99999",
            "redis-cluster://:secret@",
            "redis+unix-cluster://:secret@h",
            "redis-sentinel://:secret@h",
            "redis-sentinel://:secret@/main",
            "redis-sentinel://:secret@h:x/main",
        ] {
            let Failure::Settings(text) = addresses(url).unwrap_err() else {
                panic!("{url}")
            };
            assert!(!text.contains("secret"), "{text}");
        }
        assert!(!format!("{:?}", RedisOptions::new("redis://:secret@h")).contains("secret"));
    }
}
