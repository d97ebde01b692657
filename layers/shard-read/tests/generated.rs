//! The committed code is that of the protocol.

#[path = "../examples/generate/protocol.rs"]
mod protocol;

#[test]
fn the_committed_code_is_made_from_the_protocol() {
    let (code, descriptors) = protocol::generated().unwrap();
    assert!(
        code == include_str!("../src/generated/shard_read.v1.rs")
            && descriptors == include_bytes!("../src/generated/descriptors.bin"),
        "run: cargo run -p storage-shard-read --example generate"
    );
}
