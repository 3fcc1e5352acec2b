//! A connection whose other side may take only so long to take what is sent: one that stopped reading would hold its
//! place, and what was to be sent to it, for ever.
//!
//! The refusals of heads that are too long come from below the handlers, without a word: here they get one.

use super::error;
use crate::gateway::Gateway;
use crate::latency::Protocol;
use std::cell::Cell;
use std::future::Future;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

#[derive(Debug)]
pub(super) struct Patient {
    stream: TcpStream,
    limit: Duration,
    /// Set while nothing is taken.
    stuck: Option<Pin<Box<Sleep>>>,
    /// Bytes that came so far.
    came: Rc<Cell<u64>>,
    /// What is said instead of what was to be, and how much of it is said.
    instead: Option<(Vec<u8>, usize)>,
    /// Where bytes are counted.
    gateway: Gateway,
}

impl Patient {
    pub(super) fn new(stream: TcpStream, limit: Duration, came: Rc<Cell<u64>>, gateway: Gateway) -> Patient {
        Patient { stream, limit, stuck: None, came, instead: None, gateway }
    }

    /// If this is the beginning of a refusal without a word, says one instead of all of it. None: it is not.
    fn explain(&mut self, context: &mut Context<'_>, bytes: &[u8], length: usize) -> Option<Poll<io::Result<usize>>> {
        if self.instead.is_none() {
            self.instead = Some((error::in_place_of(bytes)?, 0));
        }
        let (instead, said) = self.instead.as_mut()?;
        while *said < instead.len() {
            match Pin::new(&mut self.stream).poll_write(context, &instead[*said..]) {
                Poll::Ready(Ok(more)) => *said += more,
                Poll::Ready(Err(error)) => return Some(Poll::Ready(Err(error))),
                Poll::Pending => return Some(Poll::Pending),
            }
        }
        Some(Poll::Ready(Ok(length)))
    }

    fn count(&self, sent: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(length)) = sent {
            self.gateway.switch().traffic.to(Protocol::Http).add_shared(*length as u64);
        }
    }

    fn bounded<T>(&mut self, context: &mut Context<'_>, sent: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if sent.is_ready() {
            self.stuck = None;
            return sent;
        }
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(self.limit)));
        stuck.as_mut().poll(context).map(|()| Err(ErrorKind::TimedOut.into()))
    }
}

/// Did the connection end because an answer was not taken in time?
pub(super) fn ran_out(error: &hyper::Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::TimedOut) {
            return true;
        }
        cause = error.source();
    }
    false
}

impl AsyncRead for Patient {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, into);
        let more = (into.filled().len() - before) as u64;
        self.came.set(self.came.get() + more);
        self.gateway.switch().traffic.from(Protocol::Http).add_shared(more);
        read
    }
}

impl AsyncWrite for Patient {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let sent = match self.explain(context, bytes, bytes.len()) {
            Some(explained) => explained,
            None => Pin::new(&mut self.stream).poll_write(context, bytes),
        };
        self.count(&sent);
        self.bounded(context, sent)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = slices.first().map_or(&[][..], |slice| slice);
        let sent = match self.explain(context, first, slices.iter().map(|slice| slice.len()).sum()) {
            Some(explained) => explained,
            None => Pin::new(&mut self.stream).poll_write_vectored(context, slices),
        };
        self.count(&sent);
        self.bounded(context, sent)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
