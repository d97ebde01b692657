//! Failures to reach a server or to log in. Each names the address and the way out.

use deadpool_redis::PoolError;
use redis::ConnectionAddr;
use storage_model::{is_failed_handshake, is_unknown_host, limit_of};

use super::connect::Node;
use crate::redis::error::Failure;

/// A server that could not be used, and the known facts about it.
pub(in crate::redis) struct UnreachedServer<'a> {
    /// Its address.
    pub(in crate::redis) name: &'a str,
    /// Whether its connections use TLS.
    pub(in crate::redis) tls: bool,
    /// Whether a connection to it was ever opened. Then the settings are right, and the server is
    /// away.
    pub(in crate::redis) known: bool,
}

impl UnreachedServer<'_> {
    /// The meaning of a failure before anything of a call was sent.
    fn failure(&self, failure: Failure) -> Failure {
        let name = self.name;
        match failure {
            Failure::Lost(text) if is_unknown_host(&text) && !self.known => Failure::Settings(
                format!("{name}: no name server knows the host; correct it in redis.url ({text})"),
            ),
            Failure::Lost(text) if is_failed_handshake(&text) => Failure::Operator(format!(
                "{name}: TLS: {text}; see redis.tls_ca_file, redis.tls_cert_file, and the host in redis.url"
            )),
            Failure::Lost(text) => {
                let hint = limit_of(&text).unwrap_or_else(|| self.hint(&text));
                Failure::NoConnection(format!("{name}: {text}{hint}"))
            }
            Failure::TimedOut => Failure::NoConnection(format!("{name} did not answer in time")),
            Failure::NoConnection(text) => Failure::NoConnection(format!("{name}: {text}")),
            Failure::Server { code, text } if is_of_database(&text) => Failure::Settings(format!(
                "{name}: {code} {text}; correct the number of the database in redis.url"
            )),
            Failure::Server { code, text } => {
                let advice = match &*code {
                    "NOAUTH" | "WRONGPASS" => "; check the login in redis.url and redis.password",
                    "NOPERM" => "; `landing-worker grants` prints the rights that are needed",
                    _ => "",
                };
                Failure::Server {
                    code,
                    text: format!("{text}{advice} ({name})"),
                }
            }
            other => other,
        }
    }

    /// The mistake that may show as a connection that ends. Empty once the server was reached, and
    /// for an error that no TLS causes, such as a refused connection.
    fn hint(&self, text: &str) -> &'static str {
        match (self.known || !ends_a_connection(text), self.tls) {
            (true, _) => "",
            (false, true) => {
                "; if it speaks no TLS, redis.url begins with redis and not with rediss; if it asks for a certificate, set redis.tls_cert_file and redis.tls_key_file"
            }
            (false, false) => "; if it runs there and wants TLS, redis.url begins with rediss",
        }
    }
}

/// Whether the other side closed a connection that it had taken. A server that wants TLS does so.
fn ends_a_connection(text: &str) -> bool {
    ["reset", "broken pipe", "end of file", "unreadable answer"]
        .iter()
        .any(|words| text.to_lowercase().contains(words))
}

fn is_of_database(text: &str) -> bool {
    [
        "DB index is out of range",
        "SELECT is not allowed",
        "refused to switch database",
        "invalid DB index",
    ]
    .iter()
    .any(|words| text.contains(words))
}

impl Node {
    /// The meaning of a failure before anything of a call was sent.
    pub(in crate::redis) fn unsent(&self, failure: Failure) -> Failure {
        let tls = matches!(self.info.addr(), ConnectionAddr::TcpTls { .. });
        UnreachedServer {
            name: &self.name,
            tls,
            known: self.was_reached(),
        }
        .failure(failure)
    }

    pub(in crate::redis) fn unopened(&self, error: PoolError) -> Failure {
        self.unsent(match error {
            PoolError::Backend(error) => Failure::from(error),
            PoolError::Timeout(_) => Failure::TimedOut,
            other => Failure::NoConnection(other.to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(tls: bool, known: bool, failure: Failure) -> Failure {
        let failure = UnreachedServer {
            name: "h:6379",
            tls,
            known,
        }
        .failure(failure);
        assert!(failure.text().contains("h:6379"), "{failure:?}");
        failure
    }

    #[test]
    fn what_lasts_is_told_from_an_outage_and_names_the_setting() {
        let lost = |text: &str| Failure::Lost(text.to_owned());
        let unknown = || lost("failed to lookup address information: Name or service not known");
        assert!(
            matches!(told(false, false, unknown()), Failure::Settings(text) if text.contains("redis.url"))
        );
        assert!(
            matches!(told(false, true, unknown()), Failure::NoConnection(_)),
            "it was known before"
        );
        let resolver =
            lost("failed to lookup address information: Temporary failure in name resolution");
        for (passes, may_be_tls) in [
            (resolver, false),
            (lost("Connection refused (os error 111)"), false),
            (Failure::TimedOut, false),
            (lost("Connection reset by peer (os error 104)"), true),
            (lost("broken pipe"), true),
        ] {
            assert!(
                matches!(told(true, false, passes), Failure::NoConnection(text) if text.contains("not with rediss") == may_be_tls)
            );
        }
        let files = told(false, true, lost("Too many open files (os error 24)"));
        assert!(files.text().contains("ulimit -n"), "{files:?}");
        let certificate = lost("invalid peer certificate: UnknownIssuer");
        assert!(
            matches!(told(true, true, certificate), Failure::Operator(text) if text.contains("redis.tls_ca_file"))
        );
        let login = told(
            false,
            false,
            Failure::server("NOAUTH", "Authentication required."),
        );
        assert!(matches!(login, Failure::Server { text, .. } if text.contains("redis.password")));
        let database = told(
            false,
            false,
            Failure::server("ERR", "DB index is out of range"),
        );
        assert!(matches!(database, Failure::Settings(text) if text.contains("redis.url")));
    }
}
