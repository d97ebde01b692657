//! The header of a stored object. The module `codec` describes its layout.

use xxhash_rust::xxh3::xxh3_64;

use super::CodecError;

/// The number of bytes in a header.
pub(super) const LEN: usize = 18;

pub(super) const MAGIC: [u8; 3] = [0xc1, b'S', b'O'];
pub(super) const FORMAT: u8 = 1;
pub(super) const CODEC_MESSAGE_PACK: u8 = 1;
pub(super) const COMPRESSION_NONE: u8 = 0;

/// The start of the bytes that the checksum covers. They reach to the end of the object.
const CHECKED_FROM: usize = 12;
/// Most game objects fit, so most encodings allocate once.
const CAPACITY: usize = 512;

/// A buffer with the header. Its checksum is still empty.
pub(super) fn begin(schema_version: u32) -> Vec<u8> {
    let mut object = Vec::with_capacity(CAPACITY);
    object.extend_from_slice(&MAGIC);
    object.push(FORMAT);
    object.extend_from_slice(&[0; 8]);
    object.extend_from_slice(&[CODEC_MESSAGE_PACK, COMPRESSION_NONE]);
    object.extend_from_slice(&schema_version.to_be_bytes());
    object
}

/// Fills in the checksum, once the payload follows the header.
pub(super) fn seal(mut object: Vec<u8>) -> Vec<u8> {
    if let Some((head, checked)) = object.split_at_mut_checked(CHECKED_FROM)
        && let Some(checksum) = head.last_chunk_mut()
    {
        *checksum = xxh3_64(checked).to_be_bytes();
    }
    object
}

/// The schema version and the payload of an object with a valid header and checksum.
pub(super) fn open(object: &[u8]) -> Result<(u32, &[u8]), CodecError> {
    let cut_short = || CodecError::CutShort {
        bytes: object.len(),
        header: LEN,
    };
    let rest = object
        .strip_prefix(&MAGIC)
        .ok_or_else(|| not_an_object(object))?;
    // The format comes first, because another format may have another layout from here on.
    let (&format, rest) = rest.split_first().ok_or_else(cut_short)?;
    if format != FORMAT {
        return Err(CodecError::Format {
            found: format,
            newest: FORMAT,
        });
    }
    let (stored, checked) = rest.split_first_chunk().ok_or_else(cut_short)?;
    let (&[codec, compression, schema @ ..], payload) =
        checked.split_first_chunk::<6>().ok_or_else(cut_short)?;
    let (stored, computed) = (u64::from_be_bytes(*stored), xxh3_64(checked));
    if stored != computed {
        return Err(CodecError::Checksum { stored, computed });
    }
    if codec != CODEC_MESSAGE_PACK {
        return Err(CodecError::Codec { found: codec });
    }
    if compression != COMPRESSION_NONE {
        return Err(CodecError::Compression { found: compression });
    }
    Ok((u32::from_be_bytes(schema), payload))
}

#[cold]
fn not_an_object(bytes: &[u8]) -> CodecError {
    let first: Vec<String> = bytes
        .iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let found = if first.is_empty() {
        "is empty".to_owned()
    } else {
        format!("begins with {}", first.join(" "))
    };
    CodecError::NotAnObject { found }
}
