//! `grants`: the rights that the users of the database and of Redis need, as statements to paste.
//!
//! | module | concept |
//! | --- | --- |
//! | `database` | statements for MySQL and MariaDB |
//! | `redis` | lines for Redis and its Sentinels |

mod database;
mod redis;

use std::io::Write as _;

use storage_config::{ColdUrl, Settings};

use crate::config_args::ConfigArgs;
use crate::exit::Exit;
use crate::open;

/// Arguments of `grants`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Print the statements of one tier alone
    #[arg(long, value_enum, value_name = "TIER")]
    only: Option<Tier>,
}

/// A tier whose users need rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Tier {
    /// SQL for MySQL and MariaDB.
    Database,
    /// Lines for redis-cli.
    Redis,
}

/// The user in the statements if the settings name none.
const USER: &str = "game";
/// The placeholder for a password.
const PASSWORD: &str = "PASSWORD";

/// The statements for these settings, with comments on their purpose. They hold no password.
#[must_use]
pub fn statements(settings: &Settings, only: Option<Tier>) -> String {
    match only {
        Some(Tier::Database) => of_database(settings),
        Some(Tier::Redis) => redis::lines(&settings.redis),
        None => format!(
            "{}\n{}",
            of_database(settings),
            redis::lines(&settings.redis)
        ),
    }
}

fn of_database(settings: &Settings) -> String {
    match &settings.sql.url {
        ColdUrl::Mysql { database, .. } => database::statements(
            settings.sql.login().user.as_deref().unwrap_or(USER),
            database,
        ),
        ColdUrl::SqliteFile(path) => {
            format!(
                "-- The database is the file {}: who runs the program writes it, and its folder.\n",
                path.display()
            )
        }
        ColdUrl::SqliteMemory => {
            "-- The database lives in the memory of the program and needs no rights.\n".to_owned()
        }
    }
}

/// Prints the statements. Asks no server.
///
/// # Errors
/// The settings are wrong, or the output can't be written.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let settings = open::settings(&args.config)?;
    std::io::stdout().write_all(statements(&settings, args.only).as_bytes())?;
    Ok(Exit::Fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPERATIONS: &str = include_str!("../../../../book/src/operations.md");

    #[test]
    fn the_operators_document_shows_the_statements_that_are_printed() {
        let text = "[redis]\nurl = \"redis://127.0.0.1:6379/0\"\n[sql]\nurl = \"mysql://game@127.0.0.1:3306/game\"\n";
        let settings = Settings::from_toml(text, "test").unwrap();
        let said = statements(&settings, None);
        let of = |tier| statements(&settings, Some(tier));
        assert_eq!(said, [of(Tier::Database), of(Tier::Redis)].join("\n"));
        assert!(
            OPERATIONS.contains(&said),
            "book/src/operations.md must hold:\n{said}"
        );
    }
}
