//! Bytes that the core carries and does not look into. Cloning one is cheap.

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Bytes that take no memory of their own: room for the answer to a write.
const SHORT: usize = 22;
/// A list of more than so many bytes becomes a payload as it is: to copy it costs more than to hold two allocations.
const WHOLE: usize = 8 << 10;

#[derive(Clone)]
pub struct Payload(Bytes);

#[derive(Clone)]
enum Bytes {
    Short { length: u8, bytes: [u8; SHORT] },
    Long(Arc<[u8]>),
    Whole(Arc<Vec<u8>>),
}

impl Payload {
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Bytes::Short { length, bytes } => &bytes[..usize::from(*length)],
            Bytes::Long(bytes) => bytes,
            Bytes::Whole(bytes) => bytes,
        }
    }

    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for Payload {
    fn default() -> Self {
        Payload(Bytes::Short { length: 0, bytes: [0; SHORT] })
    }
}

impl From<&[u8]> for Payload {
    fn from(slice: &[u8]) -> Self {
        let mut bytes = [0; SHORT];
        let Some(short) = bytes.get_mut(..slice.len()) else { return Payload(Bytes::Long(slice.into())) };
        short.copy_from_slice(slice);
        Payload(Bytes::Short { length: slice.len() as u8, bytes })
    }
}

impl From<Vec<u8>> for Payload {
    fn from(mut bytes: Vec<u8>) -> Self {
        if bytes.len() <= WHOLE {
            return bytes.as_slice().into();
        }
        bytes.shrink_to_fit();
        Payload(Bytes::Whole(Arc::new(bytes)))
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Payload) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Payload {}

impl PartialOrd for Payload {
    fn partial_cmp(&self, other: &Payload) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Payload {
    fn cmp(&self, other: &Payload) -> Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}

impl Hash for Payload {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(self.as_slice()) {
            Ok(text) if text.len() <= 40 => write!(f, "{text:?}"),
            Ok(_) | Err(_) => write!(f, "{} bytes", self.len()),
        }
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.as_slice())
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;

        impl Visitor<'_> for Bytes {
            type Value = Payload;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Payload, E> {
                Ok(bytes.into())
            }

            fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Payload, E> {
                Ok(bytes.into())
            }
        }

        deserializer.deserialize_bytes(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_any_length_it_is_what_it_was_made_of() {
        let bytes: Vec<u8> = (0..=255).cycle().take(2 * WHOLE).collect();
        for length in [0, 1, SHORT - 1, SHORT, SHORT + 1, 100, WHOLE, WHOLE + 1, 2 * WHOLE - 1] {
            let payload = Payload::from(&bytes[..length]);
            assert_eq!((payload.as_slice(), payload.len()), (&bytes[..length], length));
            assert_eq!(payload, Payload::from(bytes[..length].to_vec()));
            assert!(payload < Payload::from(&bytes[1..]));
        }
        assert_eq!(size_of::<Payload>(), 24);
    }
}
