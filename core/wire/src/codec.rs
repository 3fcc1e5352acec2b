//! Values to and from postcard bytes. The one place that knows which encoding the body of a frame has.

use postcard::ser_flavors::Flavor;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why bytes are not the value they should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    Malformed(postcard::Error),
    /// The value ended this many bytes too early.
    Trailing(usize),
}

/// Writes to the end of a vector that the caller owns, so that a frame is built without a copy.
struct Append<'a>(&'a mut Vec<u8>);

impl Flavor for Append<'_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

pub(crate) fn append<T: Serialize>(value: &T, out: &mut Vec<u8>) {
    postcard::serialize_with_flavor(value, Append(out))
        .expect("only lists of unknown length fail, and no type of the core has one");
}

/// Reads one value that fills `bytes` exactly. Lists grow as their elements are read: postcard gives serde a size
/// hint only where the input is long enough for it, and serde reserves no more than a mebibyte on a hint.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Unreadable> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(Unreadable::Trailing(rest.len())),
        Err(error) => Err(Unreadable::Malformed(error)),
    }
}

/// The four bytes at `at`, as a number.
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The eight bytes at `at`, as a number.
pub(crate) fn long_word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
