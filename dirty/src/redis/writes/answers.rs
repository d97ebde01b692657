//! The answers to writes. A script keeps those of a call under the call's number.

use bytes::Bytes;
use redis::Value;
use storage_model::Applied;

use crate::redis::error::Failure;
use crate::redis::reply;
use crate::{Mutated, Observed, Refusal};

/// The answers to the writes of a call, as [`decode`] takes them.
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

/// The answer of a script to a mutation with this many changes.
pub(in crate::redis) fn decode(value: Value, changes: usize) -> Result<Mutated, Failure> {
    if !matches!(value, Value::Array(_)) {
        return applied(&reply::bytes(value)?, changes).map(Mutated::Applied);
    }
    let mut values = reply::list(value)?.into_iter();
    let mut next = || reply::bytes(values.next().unwrap_or_default());
    let mut name = next()?;
    let mut place = None;
    if &*name == b"partner" {
        place = Some(reply::digits(&next()?)?);
        name = next()?;
    }
    if &*name == b"load" {
        let (marker, present) = (reply::marker(&next()?)?, &*next()? == b"1");
        let epoch = reply::epoch(&next()?)?;
        return Ok(Mutated::Load(Observed {
            marker,
            present,
            epoch,
        }));
    }
    let refusal = refusal_of(&name, next)?;
    Ok(Mutated::Refused(match place {
        None => refusal,
        Some(at) => Refusal::Partner {
            at,
            refusal: Box::new(refusal),
        },
    }))
}

/// The refusal of this name, with the values behind it.
fn refusal_of(
    name: &[u8],
    mut next: impl FnMut() -> Result<Bytes, Failure>,
) -> Result<Refusal, Failure> {
    Ok(match name {
        b"expired" => Refusal::Expired,
        b"moved" => Refusal::Moved {
            epoch: reply::epoch(&next()?)?,
            generation: reply::epoch(&next()?)?,
        },
        b"version" => Refusal::Version(reply::version(&next()?)?),
        b"exists" => Refusal::Exists(reply::field(&next()?)?),
        b"differs" => Refusal::Differs(reply::field(&next()?)?),
        b"integer" => Refusal::NotInteger(reply::field(&next()?)?),
        b"overflow" => Refusal::Overflow(reply::field(&next()?)?),
        b"bounds" => Refusal::OutOfBounds {
            field: reply::field(&next()?)?,
            value: reply::digits(&next()?)?,
        },
        b"unlanded" => Refusal::NotLanded,
        b"held" => Refusal::Held(Box::new(reply::session(&next()?)?)),
        b"fenced" => {
            let text = next()?;
            let session = (!text.is_empty())
                .then(|| reply::session(&text))
                .transpose()?;
            Refusal::Fenced(session.map(Box::new))
        }
        b"grace" => Refusal::Grace(reply::epoch(&next()?)?),
        b"unconfirmed" => Refusal::Unconfirmed(reply::epoch(&next()?)?),
        b"failed" => return Err(Failure::of_script(&next()?)),
        other => {
            let name = String::from_utf8_lossy(other);
            return Err(Failure::Nonsense(format!("unknown answer {name:?}")));
        }
    })
}

/// The answer "version changed counters…" for each owner, a line each, as it is remembered under the
/// operation's id. For a write that only sets fields, `update.lua` answers "version" alone.
pub(in crate::redis) fn applied(text: &[u8], changes: usize) -> Result<Applied, Failure> {
    let mut lines = text.split(|byte| *byte == b'\n');
    let mut applied = applied_to_one(lines.next().unwrap_or_default(), changes)?;
    applied.also = lines
        .map(|line| applied_to_one(line, 0))
        .collect::<Result<_, _>>()?;
    Ok(applied)
}

fn applied_to_one(text: &[u8], changes: usize) -> Result<Applied, Failure> {
    let mut parts = text.split(|byte| *byte == b' ').peekable();
    let version = reply::version(parts.next().unwrap_or_default())?;
    let is_number = |part: &&[u8]| !part.starts_with(b"@");
    let changed = parts.next_if(is_number).map_or_else(
        || Ok(u32::try_from(changes).unwrap_or(u32::MAX)),
        reply::digits,
    )?;
    let mut counters = Vec::new();
    while let Some(part) = parts.next_if(is_number) {
        counters.push(reply::digits(part)?);
    }
    let place = parts.next().and_then(|part| part.strip_prefix(b"@"));
    Ok(Applied {
        version,
        changed,
        counters,
        position: place.map(reply::position).transpose()?,
        also: Vec::new(),
    })
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
