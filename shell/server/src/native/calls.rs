//! What one connection has under way. A client's numbers may be nonsense, or twice the same: the core gets numbers of
//! our own, which are given again once they are free.

use super::{BYTES_MOST, REQUESTS_MOST, WAITING_MOST};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// The client's number.
    pub(super) number: u64,
    /// This node did not serve the slot when the request came.
    pub(super) hopped: bool,
    /// Waits for a position: counted apart, since it may do so for long.
    pub(super) waiting: bool,
    /// Bytes that it may cost.
    pub(super) bytes: usize,
}

/// Invariant: `requests`, `waiting` and `bytes` are the sums over `calls`.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Option<Call>>,
    free: Vec<usize>,
    /// Without those that wait.
    requests: usize,
    waiting: usize,
    bytes: usize,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.requests == 0 && self.waiting == 0
    }

    /// May another request be taken?
    pub(super) fn has_room(&self) -> bool {
        self.requests < REQUESTS_MOST && (self.bytes < BYTES_MOST || self.requests == 0)
    }

    /// May another wait?
    pub(super) fn may_wait(&self) -> bool {
        self.waiting < WAITING_MOST
    }

    /// Returns our own number for it.
    pub(super) fn begin(&mut self, call: Call) -> u64 {
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.calls.push(None);
                self.calls.len() - 1
            }
        };
        if call.waiting {
            self.waiting += 1;
        } else {
            self.requests += 1;
            self.bytes += call.bytes;
        }
        self.calls[place] = Some(call);
        place as u64
    }

    pub(super) fn end(&mut self, number: u64) -> Option<Call> {
        let place = usize::try_from(number).ok()?;
        let call = self.calls.get_mut(place)?.take()?;
        self.free.push(place);
        if call.waiting {
            self.waiting -= 1;
        } else {
            self.requests -= 1;
            self.bytes -= call.bytes;
        }
        Some(call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_counted_in_requests_and_in_bytes_and_one_always_goes() {
        let call = |waiting, bytes| Call { number: 7, hopped: false, waiting, bytes };
        let mut calls = Calls::default();
        let large = calls.begin(call(false, 2 * BYTES_MOST));
        assert!(!calls.has_room());
        assert_eq!(calls.end(large), Some(call(false, 2 * BYTES_MOST)));
        assert_eq!(calls.end(large), None, "each ends once");
        let numbers: Vec<u64> = (0..REQUESTS_MOST).map(|_| calls.begin(call(false, 1))).collect();
        assert!(!calls.has_room() && calls.may_wait());
        assert!(numbers.into_iter().all(|number| calls.end(number).is_some()));
        assert!(calls.is_empty() && calls.has_room());
        for _ in 0..WAITING_MOST {
            calls.begin(call(true, 1));
        }
        assert!(!calls.may_wait() && calls.has_room() && !calls.is_empty());
    }
}
