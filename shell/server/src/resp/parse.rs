//! Requests out of the bytes of a connection. Nothing is copied: arguments are places in the buffer.
//!
//! ```text
//! *2\r\n $3\r\nGET\r\n $1\r\nk\r\n     an array of bulk strings
//! GET k\r\n                            or one line of words, for people
//! ```
//!
//! A request may arrive in any number of pieces: what was found is remembered, so that a long one is walked over once.
//! Memory is taken for arguments that have arrived, never because a number says so.
//!
//! Not here: what the commands mean (`table.rs`).

use std::ops::Range;
use thiserror::Error;

/// The longest line: a length, or a request in words.
pub(crate) const LINE_MOST: usize = 64 * 1024;
/// How many arguments one request may have.
const ARGUMENTS_MOST: usize = 1024 * 1024;

/// After one of these nobody can say where the next request begins: the connection ends.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Malformed {
    #[error("ERR Protocol error: invalid multibulk length")]
    Count,
    #[error("ERR Protocol error: invalid bulk length")]
    Length,
    #[error("ERR Protocol error: expected '$', got '{}'", .0.escape_ascii())]
    NoBulk(u8),
    #[error("ERR Protocol error: a bulk string does not end with CR LF")]
    NoEnd,
    #[error("ERR Protocol error: too big inline request")]
    LongLine,
    #[error("ERR Protocol error: unbalanced quotes in request")]
    Quotes,
    #[error("ERR Protocol error: the request has more than {0} bytes")]
    TooLarge(usize),
    #[error("an HTTP request")]
    Http,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of one argument, and of a whole request.
    pub(crate) argument: usize,
    pub(crate) request: usize,
}

/// Invariant: every place lies within the bytes that were looked at.
#[derive(Debug)]
pub(crate) struct Parser {
    limits: Limits,
    /// Where the arguments found so far are, from the beginning of the request.
    places: Vec<Range<usize>>,
    /// How many arguments there will be; none while the first line is missing.
    wanted: Option<usize>,
    /// Everything before this is understood.
    at: usize,
    /// No line ends before this.
    searched: usize,
    /// Words of a line that had quotes are no part of the buffer.
    unquoted: Vec<u8>,
    from_line: bool,
}

/// The arguments of one request, the command's name first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arguments<'a> {
    bytes: &'a [u8],
    places: &'a [Range<usize>],
}

impl<'a> Arguments<'a> {
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Nothing, where there is no such argument: its bytes are as good as absent.
    pub(crate) fn get(&self, index: usize) -> &'a [u8] {
        self.places.get(index).and_then(|place| self.bytes.get(place.clone())).unwrap_or_default()
    }

    pub(crate) fn from(&self, index: usize) -> Arguments<'a> {
        Arguments { bytes: self.bytes, places: self.places.get(index..).unwrap_or_default() }
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        (0..self.len()).map(move |index| self.get(index))
    }

    pub(crate) fn to_owned(self) -> Owned {
        let mut owned = Owned::default();
        for argument in self.iter() {
            let begin = owned.bytes.len();
            owned.bytes.extend_from_slice(argument);
            owned.places.push(begin..owned.bytes.len());
        }
        owned
    }
}

/// Arguments that outlive the buffer they came in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owned {
    bytes: Vec<u8>,
    places: Vec<Range<usize>>,
}

impl Owned {
    pub(crate) fn arguments(&self) -> Arguments<'_> {
        Arguments { bytes: &self.bytes, places: &self.places }
    }
}

impl Parser {
    pub(crate) fn new(limits: Limits) -> Parser {
        let (places, unquoted) = (Vec::new(), Vec::new());
        Parser { limits, places, wanted: None, at: 0, searched: 0, unquoted, from_line: false }
    }

    /// `buffer` begins where the request does, and is what was given before with more at its end. The length of the
    /// request, once all of it is there; its arguments are in `arguments` until `begin`. None: more is needed.
    pub(crate) fn parse(&mut self, buffer: &[u8]) -> Result<Option<usize>, Malformed> {
        let whole = self.walk(buffer)?;
        let known = if whole { self.at } else { buffer.len() };
        if known > self.limits.request {
            return Err(Malformed::TooLarge(self.limits.request));
        }
        Ok(whole.then_some(self.at))
    }

    /// The next request begins.
    pub(crate) fn begin(&mut self) {
        self.places.clear();
        self.unquoted.clear();
        // One long request must not cost its memory for as long as the connection lives.
        self.places.shrink_to(1024);
        self.unquoted.shrink_to(1024);
        (self.wanted, self.at, self.searched, self.from_line) = (None, 0, 0, false);
    }

    pub(crate) fn arguments<'a>(&'a self, buffer: &'a [u8]) -> Arguments<'a> {
        let bytes = if self.from_line { &self.unquoted } else { buffer };
        Arguments { bytes, places: &self.places }
    }

    fn walk(&mut self, buffer: &[u8]) -> Result<bool, Malformed> {
        let wanted = match self.wanted {
            Some(wanted) => wanted,
            None => match buffer.first() {
                None => return Ok(false),
                Some(b'*') => {
                    let Some(count) = self.length(buffer, 1, ARGUMENTS_MOST, || Malformed::Count)? else {
                        return Ok(false);
                    };
                    // An empty array is no request, and no error.
                    *self.wanted.insert(count)
                }
                Some(_) => return self.words(buffer),
            },
        };
        while self.places.len() < wanted {
            match buffer.get(self.at) {
                None => return Ok(false),
                Some(b'$') => {}
                Some(&other) => return Err(Malformed::NoBulk(other)),
            }
            let (begin, most) = (self.at, self.limits.argument);
            let Some(length) = self.length(buffer, begin + 1, most, || Malformed::Length)? else { return Ok(false) };
            let end = self.at + length;
            // Told before the bytes arrive: a client need not send what will be refused.
            if end > self.limits.request {
                return Err(Malformed::TooLarge(self.limits.request));
            }
            match buffer.get(end..end + 2) {
                None => {
                    // The length is read again when more has come; that is cheap.
                    self.at = begin;
                    return Ok(false);
                }
                Some(b"\r\n") => {}
                Some(_) => return Err(Malformed::NoEnd),
            }
            self.places.push(self.at..end);
            self.at = end + 2;
        }
        Ok(true)
    }

    /// The number between `from` and the end of its line, if it is at most so much; `at` goes behind the line.
    #[inline]
    fn length(
        &mut self,
        buffer: &[u8],
        from: usize,
        most: usize,
        wrong: impl Fn() -> Malformed,
    ) -> Result<Option<usize>, Malformed> {
        let number = match buffer.get(from..).and_then(short_number) {
            Some((number, length)) => {
                self.at = from + length;
                Some(number)
            }
            None => match self.number(buffer, from, wrong())? {
                Some(number) => usize::try_from(number).ok(),
                None => return Ok(None),
            },
        };
        number.filter(|number| *number <= most).map(Some).ok_or_else(wrong)
    }

    /// The same, however it is written.
    fn number(&mut self, buffer: &[u8], from: usize, wrong: Malformed) -> Result<Option<i64>, Malformed> {
        let line = buffer.get(from..).unwrap_or_default();
        // The longest number has twenty characters.
        let Some(end) = line.iter().take(32).position(|&byte| byte == b'\n') else {
            return if line.len() >= 32 { Err(wrong) } else { Ok(None) };
        };
        let digits = line[..end].strip_suffix(b"\r").ok_or(wrong.clone())?;
        let number = integer(digits).ok_or(wrong)?;
        self.at = from + end + 1;
        Ok(Some(number))
    }

    /// A request in words.
    fn words(&mut self, buffer: &[u8]) -> Result<bool, Malformed> {
        let fresh = &buffer[self.searched.min(buffer.len())..];
        let Some(end) = fresh.iter().position(|&byte| byte == b'\n') else {
            self.searched = buffer.len();
            return if buffer.len() > LINE_MOST { Err(Malformed::LongLine) } else { Ok(false) };
        };
        let end = self.searched + end;
        if end > LINE_MOST {
            return Err(Malformed::LongLine);
        }
        let line = &buffer[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if is_http(line) {
            return Err(Malformed::Http);
        }
        self.from_line = true;
        self.at = end + 1;
        let mut rest = line;
        loop {
            rest = rest.trim_ascii_start();
            let Some(&first) = rest.first() else { return Ok(true) };
            let begin = self.unquoted.len();
            rest = match first {
                b'"' | b'\'' => self.quoted(first, &rest[1..])?,
                _ => {
                    let length = rest.iter().position(|byte| byte.is_ascii_whitespace()).unwrap_or(rest.len());
                    self.unquoted.extend_from_slice(&rest[..length]);
                    &rest[length..]
                }
            };
            self.places.push(begin..self.unquoted.len());
        }
    }

    /// A word in quotes; gives what comes after it.
    fn quoted<'a>(&mut self, quote: u8, mut rest: &'a [u8]) -> Result<&'a [u8], Malformed> {
        loop {
            let (&byte, after) = rest.split_first().ok_or(Malformed::Quotes)?;
            rest = after;
            if byte == quote {
                let is_over = rest.first().is_none_or(u8::is_ascii_whitespace);
                return if is_over { Ok(rest) } else { Err(Malformed::Quotes) };
            }
            if byte != b'\\' {
                self.unquoted.push(byte);
                continue;
            }
            let (&escaped, after) = rest.split_first().ok_or(Malformed::Quotes)?;
            rest = after;
            if quote == b'\'' && escaped != b'\'' {
                self.unquoted.extend_from_slice(&[b'\\', escaped]);
                continue;
            }
            let hex = |place: usize| rest.get(place).and_then(|&digit| char::from(digit).to_digit(16));
            if let (b'x', Some(high), Some(low)) = (escaped, hex(0), hex(1)) {
                self.unquoted.push((high * 16 + low) as u8);
                rest = &rest[2..];
                continue;
            }
            self.unquoted.push(match escaped {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'b' => 8,
                b'a' => 7,
                other => other,
            });
        }
    }
}

/// A number of a few digits, as nearly all are, and the length of its line.
#[inline]
fn short_number(line: &[u8]) -> Option<(usize, usize)> {
    let digit = |byte: u8| Some(usize::from(byte.wrapping_sub(b'0'))).filter(|digit| *digit <= 9);
    match *line {
        [one, b'\r', b'\n', ..] => Some((digit(one)?, 3)),
        [ten, one, b'\r', b'\n', ..] => Some((digit(ten)? * 10 + digit(one)?, 4)),
        [hundred, ten, one, b'\r', b'\n', ..] => Some((digit(hundred)? * 100 + digit(ten)? * 10 + digit(one)?, 5)),
        [..] => None,
    }
}

/// `GET /path HTTP/1.1`, and whatever else a browser may begin with.
fn is_http(line: &[u8]) -> bool {
    line.rsplit(|&byte| byte == b' ').next().is_some_and(|last| last.starts_with(b"HTTP/"))
}

/// A decimal number as clients write it: digits, with a minus before them at most.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    if text.is_empty() || text.len() > 20 || text[0] == b'+' {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
