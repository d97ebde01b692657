//! Requests of clients and answers of servers, in RESP version 2.

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// No value.
    Nil,
    /// A number.
    Int(i64),
    /// Bytes.
    Bulk(Vec<u8>),
    /// A status such as `OK`.
    Status(String),
    /// An error: code, space, text.
    Error(String),
    /// Several answers.
    Array(Vec<Reply>),
}

impl Reply {
    /// `OK`.
    #[must_use]
    pub fn ok() -> Self {
        Self::Status("OK".to_owned())
    }

    /// Bytes, or nil for none.
    pub fn maybe(bytes: Option<impl Into<Vec<u8>>>) -> Self {
        bytes.map_or(Self::Nil, |bytes| Self::Bulk(bytes.into()))
    }

    /// A count.
    #[must_use]
    pub fn count(count: usize) -> Self {
        Self::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// Appends the answer as it goes over the wire.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let line = |out: &mut Vec<u8>, kind: u8, text: &[u8]| {
            out.push(kind);
            out.extend_from_slice(text);
            out.extend_from_slice(b"\r\n");
        };
        match self {
            Self::Nil => out.extend_from_slice(b"$-1\r\n"),
            Self::Int(number) => line(out, b':', number.to_string().as_bytes()),
            Self::Bulk(bytes) => {
                line(out, b'$', bytes.len().to_string().as_bytes());
                out.extend_from_slice(bytes);
                out.extend_from_slice(b"\r\n");
            }
            Self::Status(text) => line(out, b'+', text.as_bytes()),
            Self::Error(text) => line(out, b'-', text.replace(['\r', '\n'], " ").as_bytes()),
            Self::Array(items) => {
                line(out, b'*', items.len().to_string().as_bytes());
                items.iter().for_each(|item| item.encode(out));
            }
        }
    }
}

/// Takes the first whole request from the front of a buffer. None if no request is whole yet.
pub fn take_request(buffer: &mut bytes::BytesMut) -> Option<Vec<Vec<u8>>> {
    let mut at = 0;
    let count = number(buffer, b'*', &mut at)?;
    let mut request = Vec::with_capacity(count);
    for _ in 0..count {
        let length = number(buffer, b'$', &mut at)?;
        request.push(buffer.get(at..at + length)?.to_vec());
        at += length + 2;
    }
    if buffer.len() < at {
        return None;
    }
    drop(buffer.split_to(at));
    Some(request)
}

/// Reads `kind`, a number and the end of the line.
fn number(buffer: &[u8], kind: u8, at: &mut usize) -> Option<usize> {
    let rest = buffer.get(*at..)?.strip_prefix(&[kind])?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    *at += end + 3;
    std::str::from_utf8(rest.get(..end)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_taken_only_when_all_of_it_is_there() {
        let whole = b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n*1\r\n$4\r\nPING\r\n";
        for end in 0..23 {
            assert_eq!(
                take_request(&mut whole.get(..end).unwrap().into()),
                None,
                "{end} bytes"
            );
        }
        let mut buffer = bytes::BytesMut::from(&whole[..]);
        assert_eq!(
            take_request(&mut buffer),
            Some(vec![b"GET".to_vec(), b"a\r\nb".to_vec()])
        );
        assert_eq!(take_request(&mut buffer), Some(vec![b"PING".to_vec()]));
        assert_eq!(take_request(&mut buffer), None);
    }
}
