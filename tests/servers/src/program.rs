//! Finds the programs of the servers.

use std::{
    env,
    path::{Path, PathBuf},
};

/// A server is not installed. [`Display`](std::fmt::Display) names it and the way to install it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{program} is not installed; install it with: apt-get install {packages}")]
pub struct Missing {
    /// The missing program.
    pub program: String,
    /// Debian's packages that contain it.
    pub packages: &'static str,
}

/// Debian's folders for servers, which are often not in an ordinary user's `PATH`.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// The first of `names` that exists: a path as it is, and a bare name in `PATH` and the system's
/// folders.
pub(crate) fn find(names: &[&Path], packages: &'static str) -> Result<PathBuf, Missing> {
    names
        .iter()
        .find_map(|name| locate(name))
        .ok_or_else(|| Missing {
            program: names
                .iter()
                .map(|name| name.display().to_string())
                .collect::<Vec<_>>()
                .join(" or "),
            packages,
        })
}

fn locate(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 {
        return name.is_file().then(|| name.to_path_buf());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(SYSTEM_FOLDERS.iter().map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_with_the_command_that_installs_it() {
        let missing = find(
            &[Path::new("no-such-redis"), Path::new("/no/such/valkey")],
            "redis-server",
        )
        .unwrap_err();
        assert_eq!(
            missing.to_string(),
            "no-such-redis or /no/such/valkey is not installed; install it with: apt-get install redis-server"
        );
    }

    #[test]
    fn a_bare_name_is_found_in_the_path_and_a_path_is_taken_as_it_is() {
        let shell = find(&[Path::new("sh")], "dash").unwrap();
        assert_eq!(find(&[&shell], "dash").unwrap(), shell);
    }
}
