//! The lines of a file, with their numbers, read piece by piece.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

use super::line::BYTE_ORDER_MARK;

/// The longest line. A longer line is skipped, so that a file without line ends does not fill the
/// memory.
pub(super) const LINE_BYTES_MAX: usize = 256 << 20;
/// How much of a line that is too long is kept, in bytes. It tells what the file is.
const START: usize = 64;

/// One line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RawLine {
    /// The line's bytes.
    Whole(Vec<u8>),
    /// The line is longer than the limit. Its first bytes.
    TooLong(Vec<u8>),
}

impl RawLine {
    /// The line's bytes, or the first ones of a line that is too long.
    pub(super) fn start(&self) -> &[u8] {
        match self {
            Self::Whole(bytes) | Self::TooLong(bytes) => bytes,
        }
    }

    /// Whether the line holds nothing.
    pub(super) fn is_blank(&self) -> bool {
        trimmed(self.start()).is_empty()
    }
}

/// A file that is read line by line.
#[derive(Debug)]
pub(super) struct Lines<R> {
    file: R,
    limit: usize,
    /// Complete lines so far.
    count: u64,
    /// The current line, as far as it was read.
    begun: Option<RawLine>,
    /// Bytes of the current line and its end, including skipped bytes.
    bytes: u64,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    pub(super) fn new(file: R, limit: usize) -> Self {
        Self {
            file,
            limit,
            count: 0,
            begun: None,
            bytes: 0,
        }
    }

    /// Complete lines so far.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The next line: its number from 1, the line, and its length in the file in bytes. `None` at
    /// the end.
    ///
    /// # Errors
    /// Reading the file failed.
    ///
    /// # Cancel safety
    /// No byte is lost: a partly read line is kept.
    pub(super) async fn next(&mut self) -> io::Result<Option<(u64, RawLine, u64)>> {
        loop {
            let some = self.file.fill_buf().await?;
            if some.is_empty() {
                return Ok(self.begun.is_some().then(|| self.end()));
            }
            let length = some.iter().position(|byte| *byte == b'\n');
            let part = some.get(..length.unwrap_or(some.len())).unwrap_or_default();
            let taken = part.len() + usize::from(length.is_some());
            let begun = self
                .begun
                .take()
                .unwrap_or_else(|| RawLine::Whole(Vec::new()));
            self.begun = Some(with(begun, part, self.limit));
            self.bytes += taken as u64;
            self.file.consume(taken);
            if length.is_some() {
                return Ok(Some(self.end()));
            }
        }
    }

    fn end(&mut self) -> (u64, RawLine, u64) {
        self.count += 1;
        let line = self
            .begun
            .take()
            .unwrap_or_else(|| RawLine::Whole(Vec::new()));
        (self.count, line, std::mem::take(&mut self.bytes))
    }
}

fn with(line: RawLine, part: &[u8], limit: usize) -> RawLine {
    match line {
        RawLine::Whole(mut bytes) if bytes.len() + part.len() <= limit => {
            bytes.extend_from_slice(part);
            RawLine::Whole(bytes)
        }
        RawLine::Whole(bytes) => {
            RawLine::TooLong(bytes.iter().chain(part).take(START).copied().collect())
        }
        RawLine::TooLong(start) => RawLine::TooLong(start),
    }
}

fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_prefix(BYTE_ORDER_MARK.as_bytes())
        .unwrap_or(line)
        .trim_ascii()
}

/// Why a file is no list of owners, and the way out, by a line and its number. The first bytes tell
/// an encoding and a compression. All lines up to the first that is not blank must be asked, and no
/// further one.
pub(super) fn unfit(number: u64, line: &RawLine) -> Option<String> {
    let start = line.start();
    if number == 1
        && let Some(encoding) = foreign_encoding(start)
    {
        return Some(format!(
            "is in {encoding}, as its byte order mark says: convert it to UTF-8"
        ));
    }
    if number == 1
        && let Some((format, unpack)) = compression(start)
    {
        return Some(format!(
            "is compressed by {format}: unpack it by {unpack} FILE, and pipe that to this command with - for the file"
        ));
    }
    let (shape, convert) = foreign_shape(start)?;
    Some(format!(
        "does not hold one owner a line, as line {number} {shape}: convert it by {convert} FILE, and pipe that to this command with - for the file"
    ))
}

/// How a JSON file is divided into lines other than one owner a line, by its first line that is not
/// blank. And the program that converts it.
fn foreign_shape(line: &[u8]) -> Option<(&'static str, &'static str)> {
    match trimmed(line) {
        [b'[', ..] => Some(("begins a JSON array", "jq -c '.[]'")),
        [b'{'] => Some(("ends in the middle of an object", "jq -c .")),
        _ => None,
    }
}

/// The compression of a file by its first bytes, and the program that unpacks it.
fn compression(start: &[u8]) -> Option<(&'static str, &'static str)> {
    let marks: [(&[u8], &str, &str); 5] = [
        (&[0x1f, 0x8b], "gzip", "gzip -dc"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "zstd", "zstd -dc"),
        (b"BZh", "bzip2", "bzip2 -dc"),
        (b"\xfd7zXZ\0", "xz", "xz -dc"),
        (b"PK\x03\x04", "zip", "unzip -p"),
    ];
    marks
        .iter()
        .find(|(mark, _, _)| start.starts_with(mark))
        .map(|(_, format, unpack)| (*format, *unpack))
}

/// The encoding of a file by its first bytes. `None` for UTF-8.
fn foreign_encoding(start: &[u8]) -> Option<&'static str> {
    let marks: [(&[u8], &str); 4] = [
        (&[0xff, 0xfe, 0, 0], "UTF-32"),
        (&[0, 0, 0xfe, 0xff], "UTF-32"),
        (&[0xff, 0xfe], "UTF-16"),
        (&[0xfe, 0xff], "UTF-16"),
    ];
    marks
        .iter()
        .find(|(mark, _)| start.starts_with(mark))
        .map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use tokio::io::BufReader;

    use super::*;

    async fn lines(text: &[u8], buffer: usize, limit: usize) -> Vec<(u64, Option<String>, u64)> {
        let mut lines = Lines::new(BufReader::with_capacity(buffer, text), limit);
        let mut all = Vec::new();
        while let Some((number, line, bytes)) = lines.next().await.unwrap() {
            let text = match line {
                RawLine::Whole(bytes) => Some(String::from_utf8(bytes).unwrap()),
                RawLine::TooLong(_) => None,
            };
            all.push((number, text, bytes));
        }
        all
    }

    #[tokio::test]
    async fn lines_are_whole_however_they_are_read_and_one_that_is_too_long_is_passed_over() {
        for buffer in [1, 2, 3, 7, 100] {
            let read = lines(b"ab\n\nabcde\nxyz\r\nend", buffer, 4).await;
            let text = |text: &str| Some(text.to_owned());
            let wanted = [
                (1, text("ab"), 3),
                (2, text(""), 1),
                (3, None, 6),
                (4, text("xyz\r"), 5),
                (5, text("end"), 3),
            ];
            assert_eq!(read, wanted, "read by {buffer} bytes");
        }
        assert_eq!(lines(b"", 8, 4).await, []);
        assert_eq!(lines(b"\n", 8, 4).await, [(1, Some(String::new()), 1)]);
    }

    #[test]
    fn other_encodings_are_told_by_their_first_bytes() {
        assert_eq!(foreign_encoding(&[0xff, 0xfe, b'{', 0]), Some("UTF-16"));
        assert_eq!(foreign_encoding(&[0xfe, 0xff, 0, b'{']), Some("UTF-16"));
        assert_eq!(
            foreign_encoding(&[0xff, 0xfe, 0, 0, b'{', 0, 0, 0]),
            Some("UTF-32")
        );
        assert_eq!(foreign_encoding("\u{feff}{".as_bytes()), None);
        assert_eq!(foreign_encoding(b"{"), None);
    }

    #[test]
    fn compressed_files_are_told_by_their_first_bytes() {
        let name = |start: &[u8]| compression(start).map(|(name, _)| name);
        assert_eq!(name(b"\x1f\x8b\x08\0"), Some("gzip"));
        assert_eq!(name(b"\x28\xb5\x2f\xfd\x04"), Some("zstd"));
        assert_eq!(name(b"BZh91AY"), Some("bzip2"));
        assert_eq!(name(b"\xfd7zXZ\0\0"), Some("xz"));
        assert_eq!(name(b"PK\x03\x04\x14"), Some("zip"));
        for text in [&b"{\"app\":1}"[..], b"PK", b"", b"\x1f"] {
            assert_eq!(name(text), None);
        }
    }

    #[test]
    fn an_array_and_an_object_of_several_lines_are_told_by_one_line() {
        let way = |line: &[u8]| foreign_shape(line).map(|(_, way)| way);
        for array in [&b"["[..], b" [{\"app\":1},\r", b"\xef\xbb\xbf[]"] {
            assert_eq!(way(array), Some("jq -c '.[]'"));
        }
        for object in [&b"{"[..], b"\t{ \r", b"\xef\xbb\xbf{"] {
            assert_eq!(way(object), Some("jq -c ."));
        }
        for line in [&b"{}"[..], b"{\"app\":[", b"not json", b" \r", b""] {
            assert_eq!(way(line), None);
        }
    }

    #[test]
    fn a_file_is_named_unfit_with_the_way_out() {
        let unfit = |number, line: &[u8]| unfit(number, &RawLine::Whole(line.to_vec()));
        assert_eq!(
            unfit(1, b"\x1f\x8b").as_deref(),
            Some(
                "is compressed by gzip: unpack it by gzip -dc FILE, and pipe that to this command with - for the file"
            )
        );
        assert_eq!(
            unfit(3, b"[").as_deref(),
            Some(
                "does not hold one owner a line, as line 3 begins a JSON array: convert it by jq -c '.[]' FILE, and pipe that to this command with - for the file"
            )
        );
        assert_eq!(unfit(2, b"BZh"), None, "only the first bytes tell");
        assert_eq!(unfit(1, b""), None);
    }

    #[tokio::test]
    async fn an_array_in_a_line_that_is_too_long_is_known_all_the_same() {
        for buffer in [1, 3, 1000] {
            let text = [&b"[{"[..], &[b' '; 200]].concat();
            let mut lines = Lines::new(BufReader::with_capacity(buffer, &text[..]), 100);
            let (number, line, _) = lines.next().await.unwrap().unwrap();
            assert!(matches!(&line, RawLine::TooLong(start) if start.len() == START));
            assert!(unfit(number, &line).is_some_and(|why| why.contains("array")));
        }
    }
}
