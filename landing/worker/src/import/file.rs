//! The lines of a file, with their numbers, read piece by piece.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// The longest line. A longer line is skipped, so that a file without line ends does not fill the
/// memory.
pub(super) const LINE_BYTES_MAX: usize = 256 << 20;

/// One line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// The line's bytes.
    Whole(Vec<u8>),
    /// The line is longer than the limit.
    TooLong,
}

/// A file that is read line by line.
#[derive(Debug)]
pub(super) struct Lines<R> {
    file: R,
    limit: usize,
    /// Complete lines so far.
    count: u64,
    /// The current line, as far as it was read.
    begun: Option<Line>,
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
    pub(super) async fn next(&mut self) -> io::Result<Option<(u64, Line, u64)>> {
        loop {
            let some = self.file.fill_buf().await?;
            if some.is_empty() {
                return Ok(self.begun.is_some().then(|| self.end()));
            }
            let length = some.iter().position(|byte| *byte == b'\n');
            let part = some.get(..length.unwrap_or(some.len())).unwrap_or_default();
            let taken = part.len() + usize::from(length.is_some());
            let begun = self.begun.take().unwrap_or_else(|| Line::Whole(Vec::new()));
            self.begun = Some(with(begun, part, self.limit));
            self.bytes += taken as u64;
            self.file.consume(taken);
            if length.is_some() {
                return Ok(Some(self.end()));
            }
        }
    }

    fn end(&mut self) -> (u64, Line, u64) {
        self.count += 1;
        let line = self.begun.take().unwrap_or_else(|| Line::Whole(Vec::new()));
        (self.count, line, std::mem::take(&mut self.bytes))
    }
}

fn with(line: Line, part: &[u8], limit: usize) -> Line {
    match line {
        Line::Whole(mut bytes) if bytes.len() + part.len() <= limit => {
            bytes.extend_from_slice(part);
            Line::Whole(bytes)
        }
        _ => Line::TooLong,
    }
}

/// The encoding of a file by its first bytes. `None` for UTF-8.
pub(super) fn foreign_encoding(start: &[u8]) -> Option<&'static str> {
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
                Line::Whole(bytes) => Some(String::from_utf8(bytes).unwrap()),
                Line::TooLong => None,
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
}
