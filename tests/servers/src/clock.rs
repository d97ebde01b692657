//! A server's wall clock that a test moves.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use crate::program;

/// A library that a server preloads, which adds an offset to its wall clock.
const SHIM: &str = include_str!("clock_shim.c");
/// The library maps a whole page.
const FILE_BYTES: u64 = 4096;

/// The library and the file with the offset, in the server's folder. The offset outlives a restart
/// of the server.
pub(crate) struct Clock {
    library: PathBuf,
    skew: PathBuf,
}

impl Clock {
    /// Compiles the library into `folder`. The clock is right at first.
    pub(crate) fn make(folder: &Path) -> Result<Self> {
        let compiler = program::find(&[Path::new("cc")], "gcc libc6-dev")?;
        let (source, library, skew) = (
            folder.join("clock.c"),
            folder.join("clock.so"),
            folder.join("clock.skew"),
        );
        fs::write(&source, SHIM)?;
        let output = Command::new(compiler)
            .args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o"])
            .args([&library, &source])
            .output()
            .context("cannot run the C compiler")?;
        if !output.status.success() {
            bail!(
                "the clock does not compile: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        File::create(&skew)?.set_len(FILE_BYTES)?;
        Ok(Self { library, skew })
    }

    /// Turns a command into one with this clock. `env` sets the variables and becomes the program,
    /// so its process id stays.
    pub(crate) fn wrap(&self, program: &Path, args: Vec<String>) -> Result<(PathBuf, Vec<String>)> {
        let env = program::find(&[Path::new("env")], "coreutils")?;
        let own = [
            format!("LD_PRELOAD={}", self.library.display()),
            format!("CLOCK_SKEW_FILE={}", self.skew.display()),
            program.display().to_string(),
        ];
        Ok((env, own.into_iter().chain(args).collect()))
    }

    /// Sets the offset. The file keeps its size, since the library reads the mapped page at any
    /// time.
    pub(crate) fn set(&self, micros: i64) -> Result<()> {
        let file = File::options()
            .write(true)
            .open(&self.skew)
            .context("cannot open the file with the clock's offset")?;
        file.write_all_at(&micros.to_ne_bytes(), 0)
            .context("cannot write the clock's offset")
    }
}
