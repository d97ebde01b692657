//! Makes the code of the messages and their descriptors from `proto/shard_read.proto`.

mod protocol;

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let (code, descriptors) = protocol::generated()?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/generated");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("shard_read.v1.rs"), code)?;
    std::fs::write(folder.join("descriptors.bin"), descriptors)?;
    Ok(())
}
