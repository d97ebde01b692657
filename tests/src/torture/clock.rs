//! The clock of the servers of the hot tier, which a preloaded library moves.

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// A file that says by how much the clock of the servers that were started with [`Skew::env`] is wrong.
#[derive(Debug)]
pub struct Skew {
    library: PathBuf,
    path: PathBuf,
    file: std::fs::File,
}

impl Skew {
    /// Builds the library, with the C compiler that building the tests needed too, and sets the clock right.
    ///
    /// # Errors
    /// There is no C compiler.
    pub fn prepare(folder: &Path) -> Result<Self> {
        let (source, library, path) = (folder.join("clock.c"), folder.join("clock.so"), folder.join("skew"));
        std::fs::write(&source, include_str!("clock.c"))?;
        let built = Command::new("cc").args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source).output();
        let built = built.context("cannot run cc")?;
        ensure!(built.status.success(), "cc failed: {}", String::from_utf8_lossy(&built.stderr));
        let file = std::fs::File::create(&path)?;
        file.write_all_at(&[0; 4096], 0)?;
        Ok(Self { library, path, file })
    }

    /// The variables that make a server follow this clock.
    #[must_use]
    pub fn env(&self) -> Vec<(String, String)> {
        let text = |path: &Path| path.display().to_string();
        vec![("LD_PRELOAD".to_owned(), text(&self.library)), ("SKEW_FILE".to_owned(), text(&self.path))]
    }

    /// Makes the clock wrong by so many microseconds, at once.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn set(&self, micros: i64) -> Result<()> {
        Ok(self.file.write_all_at(&micros.to_ne_bytes(), 0)?)
    }
}
