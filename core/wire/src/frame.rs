//! The frames of a recording.
//!
//! ```text
//! length u32 LE │ crc32c u32 LE of the length │ crc32c u32 LE of the body │ body
//! ```
//!
//! The length has a checksum of its own: otherwise a length damaged in the middle of a file would look like a file that
//! was cut off, and everything behind it would be dropped without a word.
//!
//! Not here: the frames of a journal (`record`), which also carry a seq and end in a different way.

use crate::codec;

const HEADER: usize = 12;

/// What stands at one place of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    Whole {
        body: &'a [u8],
        next: usize,
    },
    /// The file ends here, between two frames.
    End,
    /// The file ends inside this frame.
    Cut,
    Damaged,
}

/// Appends a frame around what `fill` writes.
pub(crate) fn put(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER]);
    fill(out);
    let length = u32::try_from(out.len() - start - HEADER).expect("the core's limits keep an input far below 4 GiB");
    let length = length.to_le_bytes();
    let checksum = crc32c::crc32c(&out[start + HEADER..]);
    out[start..start + 4].copy_from_slice(&length);
    out[start + 4..start + 8].copy_from_slice(&crc32c::crc32c(&length).to_le_bytes());
    out[start + 8..start + HEADER].copy_from_slice(&checksum.to_le_bytes());
}

pub(crate) fn take(bytes: &[u8], at: usize) -> Found<'_> {
    let frame = match bytes.get(at..) {
        None | Some([]) => return Found::End,
        Some(frame) => frame,
    };
    let (Some(length), Some(length_checksum), Some(checksum)) =
        (codec::word(frame, 0), codec::word(frame, 4), codec::word(frame, 8))
    else {
        return Found::Cut;
    };
    if crc32c::crc32c(&length.to_le_bytes()) != length_checksum {
        // A file that was made longer before a power loss, and not yet filled, ends in zeros.
        return if frame.iter().all(|&byte| byte == 0) { Found::Cut } else { Found::Damaged };
    }
    let stop = HEADER.saturating_add(length as usize);
    let Some(body) = frame.get(HEADER..stop) else {
        return Found::Cut;
    };
    if crc32c::crc32c(body) == checksum {
        return Found::Whole { body, next: at + stop };
    }
    // With nothing but zeros behind it, the frame is the last one and half written.
    if frame[stop..].iter().all(|&byte| byte == 0) { Found::Cut } else { Found::Damaged }
}
