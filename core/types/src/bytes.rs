//! Little-endian numbers and byte strings, read from bytes that may be nonsense, and written.

/// Takes from the front. Gives nothing, and promises nothing about the rest, where the bytes are too few.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*array)
    }

    pub fn byte(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub fn short(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn word(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn long(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Several at once: to look once whether they are there costs less than to look for each.
    pub fn longs<const N: usize>(&mut self) -> Option<[u64; N]> {
        let (bytes, rest) = self.rest.split_at_checked(8 * N)?;
        let longs = bytes.as_chunks().0.first_chunk::<N>()?.map(u64::from_le_bytes);
        self.rest = rest;
        Some(longs)
    }

    pub fn signed(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    /// A length of four bytes, and so many bytes.
    pub fn string(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.word()?).ok()?;
        self.take(length)
    }

    /// So many bytes.
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    /// As many elements as a count of four bytes says. Each takes at least one byte, so that a count alone makes
    /// nobody reserve memory.
    pub fn list<T>(&mut self, mut element: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.word()?;
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(element(self)?);
        }
        Some(list)
    }

    /// Everything that is left.
    pub fn rest(self) -> &'a [u8] {
        self.rest
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Only if nothing is left.
    pub fn end(self) -> Option<()> {
        self.rest.is_empty().then_some(())
    }
}

pub fn put_short(out: &mut Vec<u8>, number: u16) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub fn put_word(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub fn put_long(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub fn put_longs<const N: usize>(out: &mut Vec<u8>, numbers: [u64; N]) {
    out.extend_from_slice(numbers.map(u64::to_le_bytes).as_flattened());
}

/// No key, value or list of the core is as long as four bytes can say.
pub fn put_length(out: &mut Vec<u8>, length: usize) {
    put_word(out, u32::try_from(length).unwrap_or(u32::MAX));
}

pub fn put_string(out: &mut Vec<u8>, string: &[u8]) {
    put_length(out, string.len());
    out.extend_from_slice(string);
}
