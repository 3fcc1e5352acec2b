//! Replies as bytes, in RESP 2 or RESP 3.
//!
//! Not here: which reply a command has (`expect.rs` for answers of the core, the commands' own files for the rest).

use std::borrow::Cow;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Protocol {
    #[default]
    Two,
    Three,
}

/// An error as the client reads it: a code in capitals and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault(pub(crate) Cow<'static, str>);

impl Fault {
    pub(crate) const SYNTAX: Fault = Fault(Cow::Borrowed("ERR syntax error"));
    pub(crate) const NOT_AN_INTEGER: Fault = Fault(Cow::Borrowed("ERR value is not an integer or out of range"));
    pub(crate) const WRONG_TYPE: Fault =
        Fault(Cow::Borrowed("WRONGTYPE Operation against a key holding the wrong kind of value"));
    pub(crate) const CROSS_SLOT: Fault = Fault(Cow::Borrowed("CROSSSLOT Keys in request don't hash to the same slot"));

    pub(crate) fn new(text: impl Into<Cow<'static, str>>) -> Fault {
        Fault(text.into())
    }
}

/// Writes to the end of `out`.
#[derive(Debug)]
pub(crate) struct Reply<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    pub(crate) protocol: Protocol,
}

impl Reply<'_> {
    fn line(&mut self, kind: u8, number: i64) {
        self.out.push(kind);
        put_number(self.out, number);
        self.out.extend_from_slice(b"\r\n");
    }

    pub(crate) fn simple(&mut self, text: &str) {
        self.out.push(b'+');
        self.out.extend_from_slice(text.as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    pub(crate) fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    pub(crate) fn fault(&mut self, fault: &Fault) {
        self.out.push(b'-');
        // What a client sent may stand in it: a line break would make two replies of one.
        let text = fault.0.bytes().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte });
        self.out.extend(text);
        self.out.extend_from_slice(b"\r\n");
    }

    pub(crate) fn integer(&mut self, number: i64) {
        self.line(b':', number);
    }

    /// Beyond what fits, the most that does.
    pub(crate) fn count(&mut self, number: u64) {
        self.integer(i64::try_from(number).unwrap_or(i64::MAX));
    }

    pub(crate) fn bulk(&mut self, bytes: &[u8]) {
        self.line(b'$', bytes.len() as i64);
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    pub(crate) fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    pub(crate) fn null(&mut self) {
        match self.protocol {
            Protocol::Two => self.out.extend_from_slice(b"$-1\r\n"),
            Protocol::Three => self.out.extend_from_slice(b"_\r\n"),
        }
    }

    /// Where an array would have been.
    pub(crate) fn null_array(&mut self) {
        match self.protocol {
            Protocol::Two => self.out.extend_from_slice(b"*-1\r\n"),
            Protocol::Three => self.out.extend_from_slice(b"_\r\n"),
        }
    }

    /// So many replies follow.
    pub(crate) fn array(&mut self, length: usize) {
        self.line(b'*', length as i64);
    }

    /// So many pairs follow.
    pub(crate) fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Two => self.array(pairs * 2),
            Protocol::Three => self.line(b'%', pairs as i64),
        }
    }
}

/// The bytes of one reply.
pub(crate) fn bytes(protocol: Protocol, write: impl FnOnce(&mut Reply<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut Reply { out: &mut out, protocol });
    out
}

fn put_number(out: &mut Vec<u8>, number: i64) {
    let mut text = [0; 20];
    let mut begin = text.len();
    let mut rest = number.unsigned_abs();
    loop {
        begin -= 1;
        text[begin] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&text[begin..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_looks_different_in_each_protocol() {
        for (protocol, expected) in [(Protocol::Two, "$-1\r\n*-1\r\n*2\r\n"), (Protocol::Three, "_\r\n_\r\n%1\r\n")] {
            let written = bytes(protocol, |reply| {
                reply.null();
                reply.null_array();
                reply.map(1);
            });
            assert_eq!(written, expected.as_bytes());
        }
    }

    #[test]
    fn numbers_and_errors() {
        let written = bytes(Protocol::Two, |reply| {
            [0, 7, -1, 10, i64::MAX, i64::MIN].into_iter().for_each(|number| reply.integer(number));
            reply.count(u64::MAX);
            reply.fault(&Fault::new("ERR two\r\nlines"));
        });
        let expected = ":0\r\n:7\r\n:-1\r\n:10\r\n:9223372036854775807\r\n:-9223372036854775808\r\n\
                        :9223372036854775807\r\n-ERR two  lines\r\n";
        assert_eq!(String::from_utf8(written).expect("text"), expected);
    }
}
