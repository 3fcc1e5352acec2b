//! AMQP 0.9.1, as much as a publisher with confirms needs: RabbitMQ. All messages go to one quorum queue; one counts
//! when the broker confirms it.

use super::protocol::{Event, Protocol, Work, part};

pub(crate) const QUEUE: &str = "lab";

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
#[cfg(test)]
const HEARTBEAT: u8 = 8;
const END: u8 = 0xce;

#[derive(Debug, Default)]
pub(crate) struct Amqp {
    /// Messages confirmed up to here.
    confirmed: u64,
}

impl Protocol for Amqp {
    fn greet(&mut self, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(b"AMQP\0\0\x09\x01");
        false
    }

    fn ask(&mut self, _work: Work, keys: &[&str], value: &[u8], out: &mut Vec<u8>) {
        for _ in keys {
            method(out, 1, 60, 40, |body| {
                body.extend_from_slice(&[0, 0]);
                short(body, "");
                short(body, QUEUE);
                body.push(0);
            });
            let mut header = vec![0, 60, 0, 0];
            header.extend_from_slice(&(value.len() as u64).to_be_bytes());
            header.extend_from_slice(&[0, 0]);
            frame(out, HEADER, 1, &header);
            frame(out, BODY, 1, value);
        }
    }

    fn take(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Event) {
        let Some((head, rest)) = input.split_first_chunk::<7>() else { return part() };
        let length = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
        let Some(body) = rest.get(..length).filter(|_| rest.len() > length) else { return part() };
        let taken = 8 + length;
        let Some((which, rest)) = body.split_first_chunk::<4>().filter(|_| head[0] == METHOD) else {
            return (taken, Event::Nothing);
        };
        let event = match (which[1], which[3]) {
            (10, 10) => self.say(out, 0, 10, 11, start_ok),
            // The limits it offers are taken, but no heartbeats: a load that stalls shall show, not be cut off.
            (10, 30) => {
                let offered = rest.to_vec();
                self.say(out, 0, 10, 31, |body| {
                    body.extend_from_slice(&offered[..offered.len().min(6)]);
                    body.extend_from_slice(&[0, 0]);
                });
                self.say(out, 0, 10, 40, |body| {
                    short(body, "/");
                    body.extend_from_slice(&[0, 0]);
                })
            }
            (10, 41) => self.say(out, 1, 20, 10, |body| body.push(0)),
            (20, 11) => self.say(out, 1, 50, 10, declare),
            (50, 11) => self.say(out, 1, 85, 10, |body| body.push(0)),
            (85, 11) => Event::Ready,
            (60, 80) => self.confirmed(rest),
            (60, 120) => Event::Failed("not taken".to_owned()),
            (10, 50) | (20, 40) => Event::Failed(format!("closed: {}", String::from_utf8_lossy(&rest[3..]))),
            _ => Event::Nothing,
        };
        (taken, event)
    }
}

impl Amqp {
    fn say(&self, out: &mut Vec<u8>, channel: u8, class: u8, name: u8, fill: impl FnOnce(&mut Vec<u8>)) -> Event {
        method(out, channel, class, name, fill);
        Event::Nothing
    }

    fn confirmed(&mut self, rest: &[u8]) -> Event {
        let Some((tag, flags)) = rest.split_first_chunk::<8>() else { return Event::Nothing };
        if flags.first().is_some_and(|flags| flags & 1 == 0) {
            // One by itself. They may come out of order; only how many matters then.
            self.confirmed += 1;
            return Event::Done(1);
        }
        let up_to = u64::from_be_bytes(*tag);
        let count = up_to.saturating_sub(self.confirmed);
        self.confirmed = self.confirmed.max(up_to);
        Event::Done(count as usize)
    }
}

fn start_ok(body: &mut Vec<u8>) {
    body.extend_from_slice(&0_u32.to_be_bytes());
    short(body, "PLAIN");
    long(body, b"\0guest\0guest");
    short(body, "en_US");
}

/// Declares the queue; it does nothing if it is there.
fn declare(body: &mut Vec<u8>) {
    body.extend_from_slice(&[0, 0]);
    short(body, QUEUE);
    // Durable.
    body.push(2);
    let mut table = Vec::new();
    short(&mut table, "x-queue-type");
    table.push(b'S');
    long(&mut table, b"quorum");
    long(body, &table);
}

fn short(out: &mut Vec<u8>, text: &str) {
    out.push(text.len() as u8);
    out.extend_from_slice(text.as_bytes());
}

fn long(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

fn method(out: &mut Vec<u8>, channel: u8, class: u8, name: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    let mut body = vec![0, class, 0, name];
    fill(&mut body);
    frame(out, METHOD, channel, &body);
}

fn frame(out: &mut Vec<u8>, kind: u8, channel: u8, body: &[u8]) {
    out.extend_from_slice(&[kind, 0, channel]);
    long(out, body);
    out.push(END);
}

#[cfg(test)]
mod tests {
    use super::super::protocol::{feed, feed_bytewise};
    use super::*;

    fn said(class: u8, name: u8, rest: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        method(&mut out, 1, class, name, |body| body.extend_from_slice(rest));
        out
    }

    #[test]
    fn the_handshake_ends_with_confirms() {
        let (mut amqp, mut out) = (Amqp::default(), Vec::new());
        let steps = [(10, 10), (10, 30), (10, 41), (20, 11), (50, 11), (85, 11)];
        let bytes: Vec<u8> =
            steps.iter().flat_map(|&(class, name)| said(class, name, &[0, 9, 0, 1, 0, 0, 0, 0])).collect();
        let events = feed(&mut amqp, &bytes, &mut out);
        assert_eq!(events[5], Event::Ready);
        assert!(events[..5].iter().all(|event| *event == Event::Nothing));
        let wanted = out.windows(6).filter(|six| *six == b"quorum").count();
        assert_eq!(wanted, 1);
    }

    #[test]
    fn one_confirm_may_stand_for_many() {
        let bytes = [
            said(60, 80, &[0, 0, 0, 0, 0, 0, 0, 1, 0]),
            said(60, 80, &[0, 0, 0, 0, 0, 0, 0, 5, 1]),
            said(60, 80, &[0, 0, 0, 0, 0, 0, 0, 6, 0]),
            said(60, 120, &[0, 0, 0, 0, 0, 0, 0, 7, 0]),
        ]
        .concat();
        let events = feed_bytewise(&mut Amqp::default(), &bytes);
        assert_eq!(events[..3], [Event::Done(1), Event::Done(4), Event::Done(1)]);
        assert_eq!(events[3], Event::Failed("not taken".to_owned()));
    }

    #[test]
    fn a_heartbeat_is_nothing() {
        let mut bytes = Vec::new();
        frame(&mut bytes, HEARTBEAT, 0, &[]);
        assert_eq!(feed_bytewise(&mut Amqp::default(), &bytes), [Event::Nothing]);
    }
}
