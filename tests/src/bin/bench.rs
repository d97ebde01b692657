//! Measures every path beside its limit or its alternative, and prints whether the goals are met.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use storage_tests::bench::reader::{ReaderArgs, read};
use storage_tests::bench::server::{ServerArgs, serve};
use storage_tests::bench::{Args, run};
use storage_tests::holder::{HolderArgs, hold};

#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    role: Option<Role>,
    #[command(flatten)]
    args: Args,
}

/// The subcommands of the processes that this program starts of itself.
#[derive(Debug, Subcommand)]
enum Role {
    #[command(hide = true, disable_help_flag = true)]
    Worker {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    #[command(hide = true)]
    Reader(ReaderArgs),
    #[command(hide = true)]
    Server(ServerArgs),
    #[command(hide = true)]
    Holder(HolderArgs),
}

fn main() -> ExitCode {
    match Cli::parse() {
        Cli {
            role: Some(Role::Worker { args }),
            ..
        } => storage_tests::worker::work(args),
        Cli {
            role: Some(Role::Reader(args)),
            ..
        } => outcome(block_on(read(args))),
        Cli {
            role: Some(Role::Server(args)),
            ..
        } => outcome(block_on(serve(args))),
        Cli {
            role: Some(Role::Holder(args)),
            ..
        } => outcome(block_on(hold(args))),
        Cli { args, .. } => outcome(block_on(measure(args))),
    }
}

async fn measure(args: Args) -> anyhow::Result<()> {
    if args.list {
        for case in args.cases()? {
            let plan = case.plan();
            println!(
                "{:<22} {}\n{:22} : {}",
                plan.name, plan.ours, "", plan.baseline
            );
        }
        return Ok(());
    }
    let report = run(&args, &std::env::current_exe()?).await?;
    println!("{report}");
    anyhow::ensure!(
        report.failed.is_empty(),
        "{} could not be measured",
        report.failed.len()
    );
    Ok(())
}

fn block_on<T>(task: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(task)
}

fn outcome(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}
