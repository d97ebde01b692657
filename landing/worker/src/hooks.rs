//! `hooks`: the hooks that landings need, and how to do without one.

use std::io::{self, Write};

use anyhow::bail;
use storage_sql::Hook;

use crate::config_args::ConfigArgs;
use crate::exit::Exit;
use crate::limit::{self, Deadline};
use crate::open;

/// Arguments of `hooks`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Landings do without this hook from now on. Its layer must build its rows anew before it is
    /// used again
    #[arg(long, value_name = "NAME")]
    switch_off: Option<String>,
    /// Give up after this long. A database that is away ends the command at once
    #[arg(long, default_value = "30s")]
    deadline: Deadline,
}

/// Lists the hooks that the database names. Ends with 1 if this program lacks a needed one.
///
/// # Errors
/// The database can't be reached, or does not name the hook to switch off. Or the deadline passed.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    limit::within(args.deadline, list(args)).await
}

async fn list(args: Args) -> anyhow::Result<Exit> {
    let settings = open::settings(&args.config)?;
    let cold = storage_sql::Opening::new(&settings.sql)
        .for_pairing()
        .open()
        .await?;
    if let Some(name) = &args.switch_off {
        if !cold
            .hooks
            .hooks()
            .await?
            .iter()
            .any(|hook| hook.name == *name)
        {
            bail!("the database names no hook {name:?}: nothing was changed");
        }
        cold.hooks.define(name, false).await?;
    }
    let hooks = cold.hooks.hooks().await?;
    print(&hooks, &mut io::stdout())?;
    Ok(match hooks.iter().any(|hook| hook.is_lacked) {
        true => Exit::Found,
        false => Exit::Fine,
    })
}

fn print(hooks: &[Hook], out: &mut impl Write) -> io::Result<()> {
    if hooks.is_empty() {
        return writeln!(out, "landings need no hook");
    }
    for hook in hooks {
        let Hook {
            name, definitions, ..
        } = hook;
        let state = if hook.is_lacked {
            "needed, and this program lacks it: its workers claim no partition"
        } else if hook.is_needed {
            "needed, and this program has it"
        } else {
            "switched off"
        };
        writeln!(
            out,
            "{name:?}: {state}; changes of its definitions: {definitions}"
        )?;
    }
    Ok(())
}
