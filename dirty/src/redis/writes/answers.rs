//! The answers to the writes of a call, as its script keeps them under the call's number.

use redis::Value;

use crate::redis::error::Failure;

/// The answers to the writes of a call, as [`decode`](super::decode) takes them.
pub(super) fn answers_of(text: &[u8]) -> Result<Vec<Value>, Failure> {
    match text.strip_prefix(b"*") {
        None => Ok(lines(text).collect()),
        Some(framed) => Framed(framed).answers().ok_or_else(|| {
            Failure::Nonsense(
                "the answers to a call's writes are cut or have no lengths".to_owned(),
            )
        }),
    }
}

/// The answers of `update.lua`, a line each.
fn lines(text: &[u8]) -> impl Iterator<Item = Value> {
    text.split(|byte| *byte == b'\n').map(|line| {
        if line.first().is_some_and(u8::is_ascii_digit) {
            return Value::BulkString(line.to_vec());
        }
        // The text of an error has spaces of its own.
        let words: usize = if line.starts_with(b"failed ") {
            2
        } else {
            usize::MAX
        };
        let words = line.splitn(words, |byte| *byte == b' ');
        Value::Array(words.map(|word| Value::BulkString(word.to_vec())).collect())
    })
}

/// The answers of `transact.lua`. An answer is its number of words and a space, then each word as
/// its length, ':' and its bytes. An answer of 0 words is a text, which follows like a word.
struct Framed<'a>(&'a [u8]);

impl<'a> Framed<'a> {
    fn answers(mut self) -> Option<Vec<Value>> {
        let mut answers = Vec::new();
        while !self.0.is_empty() {
            answers.push(match self.number(b' ')? {
                0 => self.word()?,
                count => Value::Array((0..count).map(|_| self.word()).collect::<Option<_>>()?),
            });
        }
        Some(answers)
    }

    fn word(&mut self) -> Option<Value> {
        let length = self.number(b':')?;
        Some(Value::BulkString(self.take(length)?.to_vec()))
    }

    /// A number, up to the byte that ends it.
    fn number(&mut self, end: u8) -> Option<usize> {
        let at = self.0.iter().position(|byte| *byte == end)?;
        let number = self.take(at)?;
        self.take(1)?;
        std::str::from_utf8(number).ok()?.parse().ok()
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&[u8]]) -> Value {
        let words = words.iter().map(|word| Value::BulkString(word.to_vec()));
        Value::Array(words.collect())
    }

    #[test]
    fn words_of_framed_answers_hold_any_bytes() {
        let answers = answers_of(b"*0 8:12 2 5 62 6:exists4:a \n:1 5:alone0 3:1\n2").unwrap();
        let expected = [
            Value::BulkString(b"12 2 5 6".to_vec()),
            words(&[b"exists", b"a \n:"]),
            words(&[b"alone"]),
            Value::BulkString(b"1\n2".to_vec()),
        ];
        assert_eq!(answers, expected);
    }

    #[test]
    fn framed_answers_that_are_cut_or_have_no_lengths_are_no_answers() {
        let whole = b"*0 8:12 2 5 62 6:exists4:gold";
        for end in 2..whole.len() {
            if end != 13 {
                assert!(answers_of(whole.get(..end).unwrap()).is_err(), "{end}");
            }
        }
        for text in [
            &b"*x"[..],
            b"*99999999999999999999 ",
            b"*1 -1:x",
            b"*4 4:gold",
            b"* ",
        ] {
            assert!(answers_of(text).is_err());
        }
    }

    #[test]
    fn lines_are_versions_or_words() {
        let answers = answers_of(b"7\nversion 9\nfailed CORRUPT the flags\n8 1 5").unwrap();
        let expected = [
            Value::BulkString(b"7".to_vec()),
            words(&[b"version", b"9"]),
            words(&[b"failed", b"CORRUPT the flags"]),
            Value::BulkString(b"8 1 5".to_vec()),
        ];
        assert_eq!(answers, expected);
    }
}
