//! Which of a cluster's 16,384 slots a key belongs to.

/// How many slots a cluster has.
pub(crate) const SLOTS: u16 = 16_384;

/// The slot of a key: of its hash tag, if it has one, as the cluster specification says.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    crc16(tag(key).unwrap_or(key)) % SLOTS
}

/// The text between the first '{' and the first '}' after it. `None` if there is no such text.
fn tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|byte| *byte == b'{')?;
    let rest = key.get(open + 1..)?;
    let close = rest.iter().position(|byte| *byte == b'}')?;
    rest.get(..close).filter(|tag| !tag.is_empty())
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 {
                crc << 1
            } else {
                (crc << 1) ^ 0x1021
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_cluster_specification() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot_of(b"123456789"), 12_739);
        assert_eq!(slot_of(b"slug-data:{93}:a:b:c:d"), slot_of(b"93"));
        assert_eq!(slot_of(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot_of(b"foo{{bar}}zap"), slot_of(b"{bar"));
    }
}
