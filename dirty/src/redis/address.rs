//! Where a Redis is, as its URL says.

use std::path::Path;
use std::str::FromStr;

use redis::{Client, ConnectionAddr, ConnectionInfo, TlsCertificates};

use super::RedisOptions;
use super::error::Failure;

/// Addresses to start from, with everything a connection needs to know.
#[derive(Debug, Clone)]
pub(crate) struct Addresses {
    /// One server, or some nodes of a cluster.
    pub(crate) seeds: Vec<ConnectionInfo>,
    /// Whether they are nodes of a cluster.
    pub(crate) cluster: bool,
}

impl Addresses {
    /// Reads the options' URL.
    pub(crate) fn of(options: &RedisOptions) -> Result<Self, Failure> {
        let (scheme, rest) = options.url.split_once("://").ok_or_else(|| settings("the URL has no scheme"))?;
        let (plain, cluster) = match scheme {
            "redis" | "redis+unix" => (scheme, false),
            "rediss" => ("rediss", false),
            "redis-cluster" => ("redis", true),
            "rediss-cluster" => ("rediss", true),
            other => {
                return Err(settings(&format!(
                    "the scheme {other:?} is none of redis, rediss, redis+unix, redis-cluster and rediss-cluster"
                )));
            }
        };
        if plain == "rediss" {
            // Without a provider rustls panics; if the program has chosen one already, this fails and nothing changes.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let urls = if cluster { node_urls(plain, rest) } else { vec![format!("{plain}://{rest}")] };
        let seeds = urls.iter().map(|url| connection(url, options)).collect::<Result<_, _>>()?;
        Ok(Self { seeds, cluster })
    }
}

/// What an error and a table call an address.
pub(crate) fn label(info: &ConnectionInfo) -> String {
    info.addr().to_string()
}

/// The same connection to another node of the cluster.
pub(crate) fn sibling(info: &ConnectionInfo, host: &str, port: u16) -> ConnectionInfo {
    let host = host.to_owned();
    let addr = match info.addr().clone() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => ConnectionAddr::TcpTls { host, port, insecure, tls_params },
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

/// One URL for each host of `user:password@a:1,b:2`.
fn node_urls(scheme: &str, rest: &str) -> Vec<String> {
    let (user, hosts) = rest.rsplit_once('@').map_or(("", rest), |(user, hosts)| (user, hosts));
    let at = if user.is_empty() { "" } else { "@" };
    hosts.trim_end_matches('/').split(',').map(|host| format!("{scheme}://{user}{at}{host}")).collect()
}

fn connection(url: &str, options: &RedisOptions) -> Result<ConnectionInfo, Failure> {
    // The driver's error may repeat the URL, and with it the password.
    let mut info = ConnectionInfo::from_str(url).map_err(|_| settings("the URL can't be read; is each address host:port?"))?;
    let mut redis = info.redis_settings().clone();
    if let (None, Some(user)) = (redis.username(), &options.user) {
        redis = redis.set_username(user);
    }
    if let (None, Some(password)) = (redis.password(), &options.password) {
        redis = redis.set_password(password);
    }
    if let (0, Some(database)) = (redis.db(), options.database) {
        redis = redis.set_db(database);
    }
    let tcp = info.tcp_settings().clone().set_nodelay(options.tcp_nodelay);
    info = info.set_redis_settings(redis).set_tcp_settings(tcp);
    match &options.ca_file {
        Some(file) if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) => with_authorities(info, file),
        _ => Ok(info),
    }
}

fn with_authorities(info: ConnectionInfo, file: &Path) -> Result<ConnectionInfo, Failure> {
    let unreadable =
        |error: &dyn std::fmt::Display| settings(&format!("the certificates in {} can't be used: {error}", file.display()));
    let pem = std::fs::read(file).map_err(|error| unreadable(&error))?;
    let certificates = TlsCertificates { client_tls: None, root_cert: Some(pem) };
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
        let labels = |url: &str| addresses(url).unwrap().seeds.iter().map(label).collect::<Vec<_>>();
        assert_eq!(labels("redis://u:p@h:1/2"), ["h:1"]);
        assert_eq!(labels("rediss://h"), ["h:6379"]);
        assert_eq!(labels("redis+unix:///tmp/r.sock"), ["/tmp/r.sock"]);
        assert_eq!(labels("redis-cluster://:p%40@a:1,b:2"), ["a:1", "b:2"]);
        let cluster = addresses("redis-cluster://u:p%40@a:1,b:2").unwrap();
        assert!(cluster.cluster && cluster.seeds.iter().all(|seed| seed.redis_settings().password() == Some("p@")));
    }

    #[test]
    fn a_url_that_cannot_work_is_refused_without_its_password() {
        for url in ["localhost", "http://:secret@h", "redis://:secret@h:99999", "redis-cluster://:secret@"] {
            let Failure::Settings(text) = addresses(url).unwrap_err() else { panic!("{url}") };
            assert!(!text.contains("secret"), "{text}");
        }
        assert!(!format!("{:?}", RedisOptions::new("redis://:secret@h")).contains("secret"));
    }
}
