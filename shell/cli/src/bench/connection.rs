//! One connection of the load: sends a batch, waits for its answers, and sends the next. Over RESP.

use super::Tally;
use atoll_types::Rng;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout_at};

#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) address: String,
    /// Where to go when that one is gone.
    pub(crate) others: Vec<String>,
    pub(crate) keys: Rc<Vec<String>>,
    pub(crate) pipeline: usize,
    pub(crate) value: Vec<u8>,
    pub(crate) read_ratio: f64,
}

impl Work {
    pub(crate) async fn run(mut self, number: u64, tally: Rc<RefCell<Tally>>, stop: Instant) {
        let mut rng = Rng::new(number);
        while Instant::now() < stop {
            let lost = match timeout_at(stop.into(), self.connected(&mut rng, &tally)).await {
                Ok(Ok(())) | Err(_) => return,
                Ok(Err(error)) => error,
            };
            tally.borrow_mut().failed(&lost.to_string());
            if let Some(other) = rng.pick(&self.others) {
                self.address.clone_from(other);
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    async fn connected(&self, rng: &mut Rng, tally: &Rc<RefCell<Tally>>) -> io::Result<()> {
        let mut stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let (mut request, mut answer) = (Vec::new(), Vec::new());
        loop {
            request.clear();
            for _ in 0..self.pipeline {
                self.append(rng, &mut request);
            }
            let sent = Instant::now();
            stream.write_all(&request).await?;
            answer.clear();
            let (mut at, mut left) = (0, self.pipeline);
            while left > 0 {
                match reply(&answer[at..])? {
                    Some((length, failure)) => {
                        let now = Instant::now();
                        match failure {
                            Some(error) => tally.borrow_mut().failed(&error),
                            None => tally.borrow_mut().answered(now, now - sent),
                        }
                        (at, left) = (at + length, left - 1);
                    }
                    None if stream.read_buf(&mut answer).await? == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    None => {}
                }
            }
        }
    }

    fn append(&self, rng: &mut Rng, out: &mut Vec<u8>) {
        let Some(key) = rng.pick(&self.keys) else { return };
        let reads = (rng.below(1_000_000) as f64) < self.read_ratio * 1_000_000.0;
        if reads {
            out.extend_from_slice(format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len()).as_bytes());
            return;
        }
        let head = format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${}\r\n", key.len(), self.value.len());
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(&self.value);
        out.extend_from_slice(b"\r\n");
    }
}

/// The first answer in these bytes: its length, and what it says if it is an error. None: not all of it is there.
fn reply(bytes: &[u8]) -> io::Result<Option<(usize, Option<String>)>> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let line = &bytes[1..end];
    let after = end + 2;
    match bytes[0] {
        b'+' | b':' | b'_' => Ok(Some((after, None))),
        b'-' => Ok(Some((after, Some(String::from_utf8_lossy(line).into_owned())))),
        b'$' => {
            let length: i64 = std::str::from_utf8(line).ok().and_then(|text| text.parse().ok()).unwrap_or(-1);
            let whole = usize::try_from(length).map_or(after, |length| after + length + 2);
            Ok((bytes.len() >= whole).then_some((whole, None)))
        }
        other => Err(io::Error::new(io::ErrorKind::InvalidData, format!("no answer begins with byte {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart() {
        let read = |bytes: &[u8]| reply(bytes).expect("an answer");
        assert_eq!(read(b"+OK\r\n+OK\r\n"), Some((5, None)));
        assert_eq!(read(b"$5\r\nhello\r\n"), Some((11, None)));
        assert_eq!(read(b"$5\r\nhel"), None);
        assert_eq!(read(b"$-1\r\n"), Some((5, None)));
        assert_eq!(read(b"-TRYAGAIN x\r\n"), Some((13, Some("TRYAGAIN x".to_owned()))));
        assert!(reply(b"HTTP/1.1 400\r\n").is_err());
    }
}
