//! Values to and from postcard bytes. The one place that knows which encoding the body of a frame has.

use postcard::de_flavors;
use postcard::ser_flavors::Flavor;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::Cell;

/// No number takes more bytes than this. What is written at once and is longer is a payload or a name.
const NUMBER_MOST: usize = 19;

/// Why bytes are not the value they should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    Malformed(postcard::Error),
    /// The value ended this many bytes too early.
    Trailing(usize),
}

/// Writes to the end of a vector that the caller owns, so that a frame is built without a copy.
struct Append<'a> {
    out: &'a mut Vec<u8>,
    /// At least as many as a reader will count.
    loose: usize,
}

impl Flavor for Append<'_> {
    /// The loose bytes.
    type Output = usize;

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.loose += 1;
        self.out.push(byte);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        if bytes.len() <= NUMBER_MOST {
            self.loose += bytes.len();
        }
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<usize> {
        Ok(self.loose)
    }
}

/// Tells how many loose bytes it has, or a few more.
pub fn append<T: Serialize>(value: &T, out: &mut Vec<u8>) -> usize {
    postcard::serialize_with_flavor(value, Append { out, loose: 0 })
        .expect("only lists of unknown length fail, and no type of the core has one")
}

/// Reads from a slice and counts the loose bytes: all that is not in a payload or a name. A few of them may be a value
/// with a place in a list and memory of its own, so they are what reading costs.
struct Counted<'a> {
    bytes: &'a [u8],
    left: &'a Cell<usize>,
}

impl<'a> de_flavors::Flavor<'a> for Counted<'a> {
    type Remainder = &'a [u8];
    type Source = &'a [u8];

    fn pop(&mut self) -> postcard::Result<u8> {
        let (&first, rest) = self.bytes.split_first().ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
        let Some(left) = self.left.get().checked_sub(1) else { return Err(postcard::Error::DeserializeUnexpectedEnd) };
        self.left.set(left);
        self.bytes = rest;
        Ok(first)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.bytes.len().min(self.left.get()))
    }

    fn try_take_n(&mut self, count: usize) -> postcard::Result<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn finalize(self) -> postcard::Result<&'a [u8]> {
        Ok(self.bytes)
    }
}

/// Reads one value that fills `bytes` exactly, and tells how many loose bytes it has. None: more than `most`.
pub(crate) fn read_within<T: DeserializeOwned>(bytes: &[u8], most: usize) -> Result<Option<(T, usize)>, Unreadable> {
    // One more: where nothing is left, it was too much.
    let left = Cell::new(most + 1);
    let mut deserializer = postcard::Deserializer::from_flavor(Counted { bytes, left: &left });
    let value = T::deserialize(&mut deserializer);
    if left.get() == 0 {
        return Ok(None);
    }
    let loose = most + 1 - left.get();
    match value.and_then(|value| Ok((value, deserializer.finalize()?))) {
        Ok((value, [])) => Ok(Some((value, loose))),
        Ok((_, rest)) => Err(Unreadable::Trailing(rest.len())),
        Err(error) => Err(Unreadable::Malformed(error)),
    }
}

/// Reads one value that fills `bytes` exactly. Lists grow as their elements are read: postcard gives serde a size
/// hint only where the input is long enough for it, and serde reserves no more than a mebibyte on a hint.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Unreadable> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(Unreadable::Trailing(rest.len())),
        Err(error) => Err(Unreadable::Malformed(error)),
    }
}

/// The four bytes at `at`, as a number.
pub fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The eight bytes at `at`, as a number.
pub fn long_word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
