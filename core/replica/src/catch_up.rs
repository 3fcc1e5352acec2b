//! Snapshots on their way: cut into pieces, sent while the bucket serves, checked whole before anything is installed.
//!
//! Both sides remember how far they are, so that within an epoch a transfer goes on where it stopped, whatever is
//! lost on the way.

use crate::copy::Copy;
use crate::event::Event;
use crate::machine::{Replica, Role};
use crate::message::{Body, Got, Partial, Piece};
use crate::peer::Stage;
use crate::sink::Sink;
use atoll_types::{BucketRecord, BucketSnapshot, Mark, NodeId, Time};
use std::sync::Arc;

/// Larger claims are refused before anything is kept.
const LENGTH_MOST: u64 = 1 << 34;
/// Pieces on their way at a time.
const PIECES_MOST: u64 = 8;

/// The primary's side of one transfer.
#[derive(Debug)]
pub(crate) struct Copying {
    snapshot: Arc<BucketSnapshot>,
    /// So much has arrived.
    have: u64,
    sent: u64,
}

impl Copying {
    pub(crate) fn mark(&self) -> Mark {
        self.snapshot.mark
    }

    /// What was sent and has not arrived is sent again.
    pub(crate) fn rewind(&mut self) {
        self.sent = self.have;
    }

    fn length(&self) -> u64 {
        self.snapshot.bytes.len() as u64
    }
}

/// The receiver's side.
#[derive(Debug)]
pub(crate) struct Incoming {
    mark: Mark,
    length: u64,
    checksum: u32,
    bytes: Vec<u8>,
}

impl Incoming {
    pub(crate) fn partial(&self) -> Partial {
        Partial { mark: self.mark, checksum: self.checksum, have: self.bytes.len() as u64 }
    }

    fn is_of(&self, piece: &Piece) -> bool {
        (self.mark, self.length, self.checksum) == (piece.mark, piece.length, piece.checksum)
    }
}

impl Replica {
    /// It lacks something that it should hold, and is to be given a new copy.
    pub fn is_useless(&self) -> bool {
        self.useless
    }

    /// It holds nothing yet, not even the bucket's beginning.
    pub fn is_blank(&self) -> bool {
        self.blank
    }

    /// This one shares nothing with the log: it gets the whole state first.
    pub(crate) fn begin_copying(&mut self, now: Time, sink: &mut Sink, to: NodeId, partial: Option<Partial>) {
        let base = self.log.base().offset;
        let Role::Primary(primary) = &mut self.role else { return };
        let usable = primary.snapshot.as_ref().is_some_and(|snapshot| snapshot.mark.offset >= base);
        if !usable {
            primary.snapshot = Some(Arc::new(self.copy.snapshot()));
        }
        let Some(snapshot) = primary.snapshot.clone() else { return };
        let same = |partial: &Partial| (partial.mark, partial.checksum) == (snapshot.mark, snapshot.checksum);
        let have = partial.filter(same).map_or(0, |partial| partial.have.min(snapshot.bytes.len() as u64));
        if let Some(peer) = primary.peer(to) {
            peer.stage = Stage::Copying(Copying { snapshot, have, sent: have });
            peer.waiting_since.get_or_insert(now);
        }
        self.send_pieces(now, sink);
    }

    pub(crate) fn send_pieces(&mut self, now: Time, sink: &mut Sink) {
        let (bucket, epoch, base) = (self.bucket, self.epoch(), self.log.base().offset);
        let Role::Primary(primary) = &mut self.role else { return };
        let most = sink.settings.piece_bytes.max(1) as u64;
        for peer in &mut primary.peers {
            let Stage::Copying(copying) = &mut peer.stage else { continue };
            if copying.mark().offset < base {
                // The log no longer goes on from it: it would be of no use.
                (peer.stage, peer.waiting_since) = (Stage::Asked, None);
                continue;
            }
            let length = copying.length();
            // At least one piece, also of nothing: it tells the receiver that this is all.
            while copying.sent < length.max(1) && copying.sent < copying.have + most * PIECES_MOST {
                let end = (copying.sent + most).min(length);
                let Some(bytes) = copying.snapshot.bytes.as_slice().get(copying.sent as usize..end as usize) else {
                    break;
                };
                let (mark, checksum) = (copying.snapshot.mark, copying.snapshot.checksum);
                let piece = Piece { mark, length, checksum, at: copying.sent, bytes: bytes.into() };
                sink.send(peer.node, bucket, epoch, Body::Piece(piece));
                copying.sent = end.max(copying.sent + 1).min(length.max(1));
                peer.retry_at = now + sink.settings.retry;
            }
        }
        let copying = primary.peers.iter().any(|peer| matches!(peer.stage, Stage::Copying(_)));
        if !copying {
            primary.snapshot = None;
        }
    }

    /// The other side has so much.
    pub(crate) fn on_got(&mut self, now: Time, sink: &mut Sink, from: NodeId, got: &Got) {
        let Role::Primary(primary) = &mut self.role else { return };
        let Some(peer) = primary.peer(from) else { return };
        let Stage::Copying(copying) = &mut peer.stage else { return };
        if (copying.snapshot.mark, copying.snapshot.checksum) != (got.mark, got.checksum) {
            return;
        }
        match got.have {
            None => (copying.have, copying.sent) = (0, 0),
            Some(have) if have > copying.length() => return,
            Some(have) => {
                if have > copying.have {
                    copying.have = have;
                    copying.sent = copying.sent.max(have);
                    peer.waiting_since = Some(now);
                }
            }
        }
        let Stage::Copying(copying) = &mut peer.stage else { return };
        if copying.have == copying.length() {
            // It goes on from the snapshot like any other: the opening write finds whether it is there.
            let offset = copying.mark().offset;
            peer.stage = Stage::Streaming;
            (peer.matched, peer.sent, peer.retry_at) = (offset, offset, now);
        }
        self.send_pieces(now, sink);
        self.flush_primary(now, sink);
    }

    /// A piece of the state that this copy is to become.
    pub(crate) fn on_piece(&mut self, now: Time, sink: &mut Sink, from: NodeId, piece: &Piece) {
        let (bucket, epoch) = (self.bucket, self.epoch());
        let catching_up = self.duty.as_ref().is_some_and(|duty| duty.appointment.catching_up.contains(&self.me));
        let Role::Backup(backup) = &mut self.role else { return };
        // One that agreed with its primary already, and fell behind so far that the log no longer has what it needs, is
        // given a snapshot after all. Of less than it has only an old piece can be, that comes late.
        let late = backup.open && piece.mark.offset <= self.log.last_offset();
        if backup.primary != from || late || !catching_up || piece.length > LENGTH_MOST {
            return;
        }
        backup.open = false;
        backup.waiting_since = Some(now);
        let (mark, checksum) = (piece.mark, piece.checksum);
        if self.log.base() == mark && self.log.is_empty() && !self.useless {
            // Installed already; the answer was lost.
            let got = Got { mark, checksum, have: Some(piece.length) };
            return sink.send(from, bucket, epoch, Body::Got(got));
        }
        if backup.incoming.as_ref().is_none_or(|incoming| !incoming.is_of(piece)) {
            let (length, bytes) = (piece.length, Vec::new());
            backup.incoming = Some(Incoming { mark, length, checksum, bytes });
        }
        let Some(incoming) = &mut backup.incoming else { return };
        let room = incoming.length - incoming.bytes.len() as u64;
        if piece.at == incoming.bytes.len() as u64 && piece.bytes.len() as u64 <= room {
            incoming.bytes.extend_from_slice(piece.bytes.as_slice());
        }
        let mut have = Some(incoming.bytes.len() as u64);
        if have == Some(incoming.length) {
            let bytes = std::mem::take(&mut incoming.bytes);
            backup.incoming = None;
            if !self.install(sink, &BucketSnapshot { mark, bytes: bytes.into(), checksum }) {
                have = None;
            }
        }
        sink.send(from, bucket, epoch, Body::Got(Got { mark, checksum, have }));
    }

    /// Becomes what the snapshot says, whole or not at all.
    fn install(&mut self, sink: &mut Sink, snapshot: &BucketSnapshot) -> bool {
        let Some(duty) = &self.duty else { return false };
        let range = duty.range;
        let Some(copy) = Copy::open(snapshot, self.copy.machine.as_ref()).filter(|copy| copy.range == range) else {
            return false;
        };
        let (bucket, mark, digest) = (self.bucket, copy.applied, copy.digest());
        self.replace(copy);
        (self.useless, self.blank) = (false, false);
        let record = BucketRecord::Copied { bucket, range, width: sink.width, snapshot: snapshot.clone() };
        let seq = sink.persist(record);
        self.shut(seq);
        sink.event(|| Event::Installed { bucket, mark, digest });
        true
    }
}
