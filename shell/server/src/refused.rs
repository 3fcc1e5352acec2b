//! What was turned away at the doors, counted by reason.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why something from outside was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// No hello of a node of this version on the peer port.
    PeerHello,
    /// A frame of a peer that cannot be read.
    PeerFrame,
    /// A peer did not welcome this node.
    PeerUnwelcome,
    /// A message for a peer that takes no more.
    PeerFull,
    /// More clients than this node serves.
    TooManyClients,
    /// Bytes of a client that are no request.
    Malformed,
    /// A request, part of it, or an answer not taken in time.
    TooSlow,
    /// Larger than a request may be.
    TooLarge,
    /// A command that does not exist, or with the wrong arguments.
    BadRequest,
}

impl Why {
    pub const ALL: [Why; 9] = [
        Why::PeerHello,
        Why::PeerFrame,
        Why::PeerUnwelcome,
        Why::PeerFull,
        Why::TooManyClients,
        Why::Malformed,
        Why::TooSlow,
        Why::TooLarge,
        Why::BadRequest,
    ];

    /// As it stands in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Why::PeerHello => "peer_hello",
            Why::PeerFrame => "peer_frame",
            Why::PeerUnwelcome => "peer_unwelcome",
            Why::PeerFull => "peer_full",
            Why::TooManyClients => "too_many_clients",
            Why::Malformed => "malformed",
            Why::TooSlow => "too_slow",
            Why::TooLarge => "too_large",
            Why::BadRequest => "bad_request",
        }
    }
}

#[derive(Debug, Default)]
pub struct Refused {
    counts: [AtomicU64; Why::ALL.len()],
}

impl Refused {
    pub fn count(&self, why: Why) {
        self.counts[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub fn so_far(&self, why: Why) -> u64 {
        self.counts[why as usize].load(Ordering::Relaxed)
    }
}
