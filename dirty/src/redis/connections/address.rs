//! The addresses of a Redis, as the driver takes them.

use std::path::Path;

use redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _,
    TlsCertificates,
};
use storage_config::{HotUrl, Login, Node, RedisSettings};

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
    /// The addresses that `redis.url` names.
    pub(crate) fn of(settings: &RedisSettings) -> Result<Self, Failure> {
        let tls = settings.url.tls();
        if tls {
            // Without a provider rustls panics. If the program has chosen one already, this fails
            // and changes nothing.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let server = |addr| connection(addr, &settings.login(), settings.url.database(), settings);
        match &settings.url {
            HotUrl::Memory => Err(refused(
                "redis.url is memory:, which names the engine in memory and no server",
            )),
            HotUrl::Server { node, .. } => Ok(Self::Server(server(tcp(node, tls))?)),
            HotUrl::Unix { path, .. } => {
                Ok(Self::Server(server(ConnectionAddr::Unix(path.into()))?))
            }
            HotUrl::Cluster { seeds, .. } => {
                let mut known = Vec::new();
                for node in seeds {
                    known.push(server(tcp(node, tls))?);
                }
                Ok(Self::Cluster(known))
            }
            HotUrl::Sentinel {
                sentinels,
                master,
                sentinel_login,
                ..
            } => {
                let mut known = Vec::new();
                for node in sentinels {
                    known.push(connection(tcp(node, tls), sentinel_login, 0, settings)?);
                }
                Ok(Self::Sentinel {
                    sentinels: known,
                    master: master.clone(),
                    server: server(tcp(&unknown(), tls))?,
                })
            }
        }
    }
}

/// Stands for the master until the Sentinels name its address.
fn unknown() -> Node {
    Node {
        host: "master".to_owned(),
        port: 6379,
    }
}

fn tcp(node: &Node, tls: bool) -> ConnectionAddr {
    let (host, port) = (node.host.clone(), node.port);
    if tls {
        ConnectionAddr::TcpTls {
            host,
            port,
            insecure: false,
            tls_params: None,
        }
    } else {
        ConnectionAddr::Tcp(host, port)
    }
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

fn refused(text: &str) -> Failure {
    Failure::Settings(text.to_owned())
}

fn connection(
    addr: ConnectionAddr,
    login: &Login,
    database: u32,
    settings: &RedisSettings,
) -> Result<ConnectionInfo, Failure> {
    let info = addr
        .into_connection_info()
        .map_err(|_| refused("the driver does not take the address in redis.url"))?;
    let mut redis = info.redis_settings().clone().set_db(database.into());
    if let Some(user) = &login.user {
        redis = redis.set_username(user);
    }
    if let Some(password) = &login.password {
        redis = redis.set_password(password.expose());
    }
    // Callers share connections. Small packets that are sent at once make nothing faster then.
    let tcp = info.tcp_settings().clone().set_nodelay(false);
    let info = info.set_redis_settings(redis).set_tcp_settings(tcp);
    let files = [
        &settings.tls_ca_file,
        &settings.tls_cert_file,
        &settings.tls_key_file,
    ];
    match files.iter().any(|file| file.is_some()) && settings.url.tls() {
        true => with_certificates(info, settings),
        false => Ok(info),
    }
}

fn with_certificates(
    info: ConnectionInfo,
    settings: &RedisSettings,
) -> Result<ConnectionInfo, Failure> {
    let root_cert = settings.tls_ca_file.as_deref().map(read).transpose()?;
    let client_tls = match (&settings.tls_cert_file, &settings.tls_key_file) {
        (Some(certificate), Some(key)) => Some(ClientTlsConfig {
            client_cert: read(certificate)?,
            client_key: read(key)?,
        }),
        _ => None,
    };
    let certificates = TlsCertificates {
        client_tls,
        root_cert,
    };
    let client = Client::build_with_tls(info, certificates)
        .map_err(|error| refused(&format!("the certificates of redis can't be used: {error}; see redis.tls_ca_file, redis.tls_cert_file and redis.tls_key_file")))?;
    Ok(client.get_connection_info().clone())
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(file).map_err(|error| {
        refused(&format!(
            "the certificates in {} can't be used: {error}",
            file.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(url: &str) -> Addresses {
        Addresses::of(&RedisSettings::new(url.parse().unwrap())).unwrap()
    }

    /// User, password and number of the database.
    fn login(info: &ConnectionInfo) -> (Option<&str>, Option<&str>, i64) {
        let redis = info.redis_settings();
        (redis.username(), redis.password(), redis.db())
    }

    #[test]
    fn every_url_leads_to_its_addresses() {
        let labels = |url: &str| match addresses(url) {
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
        let Addresses::Cluster(seeds) = addresses("redis-cluster://u:p%40@a:1,b:2") else {
            panic!()
        };
        for seed in &seeds {
            assert_eq!(login(seed), (Some("u"), Some("p@"), 0));
        }
    }

    #[test]
    fn the_memory_engine_has_no_address() {
        let of_memory = Addresses::of(&RedisSettings::new(HotUrl::Memory));
        assert!(matches!(of_memory, Err(Failure::Settings(_))));
    }

    #[test]
    fn sentinels_have_a_login_of_their_own_and_the_master_has_the_urls() {
        let url = "rediss-sentinel://u:p@a/main/3?sentinel-pass=q";
        let Addresses::Sentinel {
            sentinels,
            master,
            server,
        } = addresses(url)
        else {
            panic!()
        };
        assert_eq!(login(&sentinels[0]), (None, Some("q"), 0));
        assert_eq!(login(&server), (Some("u"), Some("p"), 3));
        assert_eq!(master, "main");
        let found = sibling(&server, "10.0.0.1", 6380);
        assert!(
            matches!(found.addr(), ConnectionAddr::TcpTls { .. })
                && login(&found) == login(&server)
        );
        assert_eq!(label(&found), "10.0.0.1:6380");
    }
}
