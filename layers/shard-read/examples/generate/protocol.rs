//! The code of the messages and their descriptors.

use std::error::Error;
use std::path::Path;

use prost_build::Config;

/// The code, and the descriptors.
///
/// # Errors
/// The protocol does not compile, or there is no temporary folder.
pub(crate) fn generated() -> Result<(String, Vec<u8>), Box<dyn Error>> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir()?;
    let descriptors = protox::Compiler::new([package.join("proto")])?
        .include_source_info(false)
        .include_imports(true)
        .open_file("shard_read.proto")?
        .encode_file_descriptor_set();
    let set = protox::compile(["shard_read.proto"], [package.join("proto")])?;
    Config::new()
        .bytes(["."])
        .out_dir(folder.path())
        .compile_fds(set)?;
    let code = std::fs::read_to_string(folder.path().join("shard_read.v1.rs"))?;
    Ok((code, descriptors))
}
