//! Measures a MessagePack value without decoding it.

/// The most sequences and maps around one value. The outermost one counts.
///
/// Decoding recurses. At this depth it stays far from the end of any thread's stack, for any bytes.
pub const DEPTH_MAX: usize = 128;

/// The reason why bytes can't be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// More than [`DEPTH_MAX`] sequences and maps nest.
    TooDeep,
    /// The bytes end within the value, or hold the byte c1, which MessagePack does not use.
    Malformed,
}

/// The length in bytes of the first value. The time is linear in its items, since bytes and text
/// are skipped.
pub(super) fn measure(bytes: &[u8]) -> Result<usize, Fault> {
    let mut walk = Walk { rest: bytes };
    walk.value(DEPTH_MAX)?;
    Ok(bytes.len() - walk.rest.len())
}

struct Walk<'a> {
    rest: &'a [u8],
}

impl Walk<'_> {
    /// Skips one value that may hold `depth` more levels.
    fn value(&mut self, depth: usize) -> Result<(), Fault> {
        let [marker] = self.take()?;
        match marker {
            0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => Ok(()), // small integers, nil, booleans
            0x80..=0x8f => self.items(2 * u64::from(marker & 0x0f), depth), // a map's keys and values
            0x90..=0x9f => self.items(u64::from(marker & 0x0f), depth),
            0xa0..=0xbf => self.skip(usize::from(marker & 0x1f)),
            0xcc | 0xd0 => self.skip(1),
            0xcd | 0xd1 => self.skip(2),
            0xca | 0xce | 0xd2 => self.skip(4),
            0xcb | 0xcf | 0xd3 => self.skip(8),
            0xd4..=0xd8 => self.skip((1 << (marker - 0xd4)) + 1), // an extension of 1 to 16 bytes, and its type
            0xc4 | 0xd9 => self.length_8().and_then(|length| self.skip(length)),
            0xc5 | 0xda => self.length_16().and_then(|length| self.skip(length)),
            0xc6 | 0xdb => self.length_32().and_then(|length| self.skip(length)),
            0xc7 => self.length_8().and_then(|length| self.extension(length)),
            0xc8 => self.length_16().and_then(|length| self.extension(length)),
            0xc9 => self.length_32().and_then(|length| self.extension(length)),
            0xdc => self
                .take()
                .and_then(|n| self.items(u16::from_be_bytes(n).into(), depth)),
            0xdd => self
                .take()
                .and_then(|n| self.items(u32::from_be_bytes(n).into(), depth)),
            0xde => self
                .take()
                .and_then(|n| self.items(2 * u64::from(u16::from_be_bytes(n)), depth)),
            0xdf => self
                .take()
                .and_then(|n| self.items(2 * u64::from(u32::from_be_bytes(n)), depth)),
            0xc1 => Err(Fault::Malformed),
        }
    }

    /// Skips the items of a sequence or map. A false count ends with the bytes, because each item
    /// has at least one byte.
    fn items(&mut self, count: u64, depth: usize) -> Result<(), Fault> {
        let depth = depth.checked_sub(1).ok_or(Fault::TooDeep)?;
        (0..count).try_for_each(|_| self.value(depth))
    }

    fn extension(&mut self, length: usize) -> Result<(), Fault> {
        self.skip(1)?; // its type
        self.skip(length)
    }

    fn length_8(&mut self) -> Result<usize, Fault> {
        self.take().map(|[length]| usize::from(length))
    }

    fn length_16(&mut self) -> Result<usize, Fault> {
        self.take()
            .map(|length| usize::from(u16::from_be_bytes(length)))
    }

    fn length_32(&mut self) -> Result<usize, Fault> {
        usize::try_from(u32::from_be_bytes(self.take()?)).map_err(|_| Fault::Malformed)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(Fault::Malformed)?;
        self.rest = rest;
        Ok(*head)
    }

    fn skip(&mut self, bytes: usize) -> Result<(), Fault> {
        self.rest = self.rest.get(bytes..).ok_or(Fault::Malformed)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One value for each marker of MessagePack, with its length.
    fn every_marker() -> Vec<Vec<u8>> {
        let with = |head: &[u8], body: usize| [head, &vec![0; body]].concat();
        let mut values: Vec<Vec<u8>> = (0x00..=0x7f)
            .chain(0xe0..=0xff)
            .chain([0xc0, 0xc2, 0xc3])
            .map(|byte| vec![byte])
            .collect();
        values.extend((0_u8..16).map(|n| with(&[0x80 | n], 2 * usize::from(n))));
        values.extend((0_u8..16).map(|n| with(&[0x90 | n], usize::from(n))));
        values.extend((0_u8..32).map(|n| with(&[0xa0 | n], usize::from(n))));
        let numbers = [
            (0xca, 4),
            (0xcb, 8),
            (0xcc, 1),
            (0xcd, 2),
            (0xce, 4),
            (0xcf, 8),
            (0xd0, 1),
            (0xd1, 2),
            (0xd2, 4),
            (0xd3, 8),
        ];
        values.extend(numbers.map(|(marker, body)| with(&[marker], body)));
        values.extend(
            [(0xd4, 2), (0xd5, 3), (0xd6, 5), (0xd7, 9), (0xd8, 17)]
                .map(|(marker, body)| with(&[marker], body)),
        );
        values.extend([0xc4, 0xd9].map(|marker| with(&[marker, 200], 200)));
        values.extend([0xc5, 0xda].map(|marker| with(&[marker, 1, 2], 258)));
        values.extend([0xc6, 0xdb].map(|marker| with(&[marker, 0, 1, 0, 2], 65_538)));
        values.extend([
            with(&[0xc7, 3], 4),
            with(&[0xc8, 1, 0], 257),
            with(&[0xc9, 0, 0, 1, 0], 257),
        ]);
        values.extend([with(&[0xdc, 1, 1], 257), with(&[0xdd, 0, 0, 1, 1], 257)]);
        values.extend([with(&[0xde, 1, 1], 514), with(&[0xdf, 0, 0, 1, 1], 514)]);
        values
    }

    #[test]
    fn every_kind_of_value_is_measured_to_its_last_byte_and_refused_one_byte_short() {
        let values = every_marker();
        let markers: std::collections::BTreeSet<u8> = values.iter().map(|value| value[0]).collect();
        assert_eq!(markers.len(), 255, "all but c1");
        for value in values {
            assert_eq!(
                measure(&[&value[..], &[0]].concat()),
                Ok(value.len()),
                "{:02x}",
                value[0]
            );
            assert_eq!(
                measure(&value[..value.len() - 1]),
                Err(Fault::Malformed),
                "{:02x}",
                value[0]
            );
        }
    }

    #[test]
    fn a_byte_that_messagepack_does_not_use_is_malformed() {
        assert_eq!(measure(&[0xc1]), Err(Fault::Malformed));
    }

    #[test]
    fn nesting_is_measured_up_to_the_limit_and_refused_beyond_it() {
        let nested = |levels: usize| [vec![0x91; levels], vec![0xc0]].concat();
        assert_eq!(measure(&nested(DEPTH_MAX)), Ok(DEPTH_MAX + 1));
        assert_eq!(measure(&nested(DEPTH_MAX + 1)), Err(Fault::TooDeep));
        assert_eq!(measure(&nested(1 << 20)), Err(Fault::TooDeep));
    }

    #[test]
    fn a_count_that_lies_ends_where_the_bytes_end() {
        assert_eq!(
            measure(&[0xdf, 0xff, 0xff, 0xff, 0xff, 1]),
            Err(Fault::Malformed)
        );
    }
}
