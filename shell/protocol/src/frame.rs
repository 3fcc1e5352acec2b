//! Where a frame begins and ends: `length:4 │ so many bytes`.

/// Bytes in front of a frame.
pub const HEADER: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<'a> {
    /// What stands in the frame; `HEADER` more bytes than that are done with.
    Whole(&'a [u8]),
    /// So many bytes must be there before more can be said.
    Needs(usize),
    /// Longer than allowed. Said before any room is made for it.
    TooLong(usize),
}

/// What stands at the beginning of these bytes, where no frame may have more than `most`.
pub fn next(bytes: &[u8], most: usize) -> Next<'_> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else { return Next::Needs(HEADER) };
    let length = u32::from_le_bytes(*header) as usize;
    if length > most {
        return Next::TooLong(length);
    }
    rest.get(..length).map_or(Next::Needs(HEADER + length), Next::Whole)
}

/// Leaves room for the length; what is put in after this belongs to the frame, up to `end`.
pub(crate) fn begin(out: &mut Vec<u8>) -> usize {
    let begin = out.len();
    out.extend_from_slice(&[0; HEADER]);
    begin
}

pub(crate) fn end(out: &mut [u8], begin: usize) {
    let length = u32::try_from(out.len() - begin - HEADER).unwrap_or(u32::MAX);
    out[begin..begin + HEADER].copy_from_slice(&length.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_taken_only_when_it_is_whole() {
        assert_eq!(next(&[], 9), Next::Needs(4));
        assert_eq!(next(&[2, 0, 0], 9), Next::Needs(4));
        assert_eq!(next(&[2, 0, 0, 0, 9], 9), Next::Needs(6));
        assert_eq!(next(&[2, 0, 0, 0, 9, 9, 1], 9), Next::Whole(&[9, 9]));
        assert_eq!(next(&[0, 0, 0, 0], 9), Next::Whole(&[]));
    }

    #[test]
    fn a_length_that_cannot_be_is_refused_before_its_bytes_come() {
        assert_eq!(next(&[10, 0, 0, 0], 9), Next::TooLong(10));
        assert_eq!(next(&[255, 255, 255, 255, 1], 9), Next::TooLong(u32::MAX as usize));
    }
}
