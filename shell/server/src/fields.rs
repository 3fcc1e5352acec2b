//! Messages with named fields, as one payload of a stream.
//!
//! ```text
//! payload   the value itself, where there is one field and its name is `data`: as messages published over HTTP are
//!         | ff 58 01, then for each field: name:string, value:string     (string: a length of 4 bytes, little-endian)
//! ```
//!
//! The mark begins with a byte that no text has. A lone `data` that would look like a list of fields is written as one.

use std::borrow::Cow;

const MARK: [u8; 3] = [0xff, b'X', 1];

/// The name of the only field of a plain message.
pub(crate) const PLAIN: &[u8] = b"data";

pub(crate) fn encode<'a>(fields: &[(&'a [u8], &'a [u8])]) -> Cow<'a, [u8]> {
    if let [(PLAIN, value)] = fields
        && decode(value).is_none()
    {
        return Cow::Borrowed(value);
    }
    let mut bytes = MARK.to_vec();
    for (name, value) in fields {
        for part in [name, value] {
            bytes.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes());
            bytes.extend_from_slice(part);
        }
    }
    Cow::Owned(bytes)
}

/// The fields of a payload that has them; none of a plain one.
pub(crate) fn decode(payload: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut rest = payload.strip_prefix(&MARK)?;
    let mut fields = Vec::new();
    while !rest.is_empty() {
        fields.push((string(&mut rest)?, string(&mut rest)?));
    }
    (!fields.is_empty()).then_some(fields)
}

fn string<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk()?;
    let (string, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *rest = after;
    Some(string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fields_come_back(fields in proptest::collection::vec(("[a-d]{0,4}|data", any::<Vec<u8>>()), 1..4)) {
            let fields: Vec<(&[u8], &[u8])> =
                fields.iter().map(|(name, value)| (name.as_bytes(), value.as_slice())).collect();
            let payload = encode(&fields);
            prop_assert_eq!(decode(&payload).unwrap_or_else(|| vec![(PLAIN, &payload)]), fields);
        }

        #[test]
        fn nonsense_is_plain(bytes: Vec<u8>) {
            let marked: Vec<u8> = MARK.iter().chain(&bytes).copied().collect();
            if let Some(fields) = decode(&marked) {
                let again = encode(&fields);
                prop_assert!(again.as_ref() == marked.as_slice() || fields.len() == 1);
            }
        }
    }

    #[test]
    fn a_plain_message_is_its_value() {
        assert_eq!(encode(&[(b"data", b"hello")]).as_ref(), b"hello");
        let nested = encode(&[(b"a", b"b")]).into_owned();
        let wrapped = encode(&[(b"data", &nested)]);
        assert_eq!(decode(&wrapped), Some(vec![(&b"data"[..], nested.as_slice())]), "and never taken for fields");
    }
}
