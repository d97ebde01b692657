//! Converts the settings to the options of this crate.

use storage_config::{ColdUrl, MysqlAddress, SqlSettings, TlsMode};

use crate::{ColdOptions, Tls};

impl From<&SqlSettings> for ColdOptions {
    fn from(settings: &SqlSettings) -> Self {
        let login = settings.login();
        Self {
            user: login.user,
            password: login.password.map(|password| password.expose().to_owned()),
            tls: Some(match settings.tls {
                TlsMode::Disabled => Tls::Disabled,
                TlsMode::Preferred => Tls::Preferred,
                TlsMode::Required => Tls::Required,
                TlsMode::VerifyCa => Tls::VerifyCa,
                TlsMode::VerifyIdentity => Tls::VerifyIdentity,
            }),
            ca_file: settings.tls_ca_file.clone(),
            connections: settings.connections,
            connect_timeout: settings.connect_timeout,
            acquire_timeout: settings.acquire_timeout,
            statement_timeout: settings.statement_timeout,
            table: settings.table.clone(),
            ..Self::new(url(&settings.url))
        }
    }
}

/// The URL in the driver's form, without a login.
fn url(url: &ColdUrl) -> String {
    match url {
        ColdUrl::Mysql {
            address: MysqlAddress::Tcp(node),
            database,
            ..
        } => format!("mysql://{node}/{}", escaped(database)),
        ColdUrl::Mysql {
            address: MysqlAddress::Socket(path),
            database,
            ..
        } => {
            format!(
                "mysql://localhost/{}?socket={}",
                escaped(database),
                escaped(&path.to_string_lossy())
            )
        }
        ColdUrl::SqliteFile(path) => format!("sqlite:{}", escaped(&path.to_string_lossy())),
        ColdUrl::SqliteMemory => "sqlite::memory:".to_owned(),
    }
}

/// Percent-encodes all characters except letters, digits and those of paths. The driver decodes the
/// text.
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    text.bytes()
        .map(|byte| {
            if plain(byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_keep_their_place_and_lose_their_login() {
        let of = |text: &str| url(&text.parse().unwrap());
        assert_eq!(
            of("mysql://ann:secret@db.example:3307/game"),
            "mysql://db.example:3307/game"
        );
        assert_eq!(of("sqlite:a b#1.db"), "sqlite:a%20b%231.db");
        assert_eq!(of("sqlite::memory:"), "sqlite::memory:");
    }
}
