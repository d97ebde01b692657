//! Game servers and landing workers, which are killed and started again.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use anyhow::Result;

use super::children::{Program, Running};

/// The common arguments of all game servers.
#[derive(Debug, Clone, Copy)]
pub struct Orders {
    /// The seed of the run.
    pub seed: u64,
    /// The number of game servers.
    pub servers: u32,
    /// Write values that the database may reject.
    pub poison: bool,
    /// Write values that are larger than the packets may be.
    pub large: bool,
}

/// One game server, with all its lives.
#[derive(Debug)]
pub struct Game {
    /// Its present process.
    pub running: Running,
    program: Program,
    config: PathBuf,
    number: u32,
    generation: u32,
    orders: Orders,
}

impl Game {
    /// Starts a game server.
    ///
    /// # Errors
    /// The process can't be started.
    pub fn start(program: &Program, config: &Path, number: u32, orders: Orders) -> Result<Self> {
        let running = Self::spawn(program, config, number, 0, orders)?;
        Ok(Self {
            running,
            program: program.clone(),
            config: config.to_owned(),
            number,
            generation: 0,
            orders,
        })
    }

    fn spawn(
        program: &Program,
        config: &Path,
        number: u32,
        generation: u32,
        orders: Orders,
    ) -> Result<Running> {
        let history = history(&program.folder, number, generation);
        let mut args = [
            "game",
            "--config",
            &config.display().to_string(),
            "--history",
            &history.display().to_string(),
        ]
        .map(str::to_owned)
        .to_vec();
        let numbers = [
            ("--server", u64::from(number)),
            ("--servers", orders.servers.into()),
            ("--generation", generation.into()),
            ("--seed", orders.seed),
        ];
        for (name, number) in numbers {
            args.extend([name.to_owned(), number.to_string()]);
        }
        args.extend(
            [(orders.poison, "--poison"), (orders.large, "--large")]
                .iter()
                .filter(|(on, _)| *on)
                .map(|(_, arg)| (*arg).to_owned()),
        );
        Running::start(
            program,
            &args,
            &[],
            &format!("game-{number}-{generation}.log"),
        )
    }

    /// Starts it again after its last process has ended.
    ///
    /// # Errors
    /// The process can't be started.
    pub fn restart(&mut self) -> Result<()> {
        self.generation += 1;
        self.running = Self::spawn(
            &self.program,
            &self.config,
            self.number,
            self.generation,
            self.orders,
        )?;
        Ok(())
    }

    /// The histories of all its lives, with number and generation.
    #[must_use]
    pub fn histories(&self) -> Vec<(PathBuf, (u32, u32))> {
        let all = 0..=self.generation;
        all.map(|generation| {
            (
                history(&self.program.folder, self.number, generation),
                (self.number, generation),
            )
        })
        .collect()
    }

    /// Lets it end in order.
    ///
    /// # Errors
    /// It does not end.
    pub async fn close(&mut self) -> Result<ExitStatus> {
        self.running.close().await
    }
}

fn history(folder: &Path, number: u32, generation: u32) -> PathBuf {
    folder.join(format!("game-{number}-{generation}.history"))
}

/// One landing worker, with all its lives.
#[derive(Debug)]
pub struct Worker {
    /// Its present process.
    pub running: Running,
    program: Program,
    config: PathBuf,
    number: u32,
    generation: u32,
}

impl Worker {
    /// Starts a worker.
    ///
    /// # Errors
    /// The process can't be started.
    pub fn start(program: &Program, config: &Path, number: u32) -> Result<Self> {
        let running = Self::spawn(program, config, number, 0)?;
        Ok(Self {
            running,
            program: program.clone(),
            config: config.to_owned(),
            number,
            generation: 0,
        })
    }

    fn spawn(program: &Program, config: &Path, number: u32, generation: u32) -> Result<Running> {
        let name = format!("worker-{number}-{generation}");
        let args = ["worker", "run", "--config", &config.display().to_string()].map(str::to_owned);
        Running::start(
            program,
            &args,
            &[("STORAGE__LANDING__WORKER_NAME", &name)],
            &format!("{name}.log"),
        )
    }

    /// Starts it again after its last process has ended.
    ///
    /// # Errors
    /// The process can't be started.
    pub fn restart(&mut self) -> Result<()> {
        self.generation += 1;
        self.running = Self::spawn(&self.program, &self.config, self.number, self.generation)?;
        Ok(())
    }

    /// The name under which it holds locks.
    #[must_use]
    pub fn name(&self) -> String {
        format!("worker-{}-{}", self.number, self.generation)
    }
}
