//! The last words to somebody who is turned away. Closing a connection on bytes that nobody has read resets it, and a
//! client that is still sending, or whose system drops what came before a reset, never sees what was said. So the
//! reason is sent first, and what still comes is read and dropped for a moment.

use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How long somebody may take to hear it.
const LINGER: Duration = Duration::from_secs(1);
/// Bytes that are read and dropped meanwhile.
const DROPPED_MOST: usize = 64 * 1024 * 1024;
/// So many at a time are waited for, in the whole process. A crowd at the door must not hold every descriptor: whoever
/// comes on top is told, but not waited for.
const PARTING_MOST: usize = 256;

static PARTING: Semaphore = Semaphore::const_new(PARTING_MOST);

pub(crate) async fn part(stream: &mut TcpStream, words: &[u8]) {
    let waited_for = PARTING.try_acquire();
    let part = async {
        stream.write_all(words).await?;
        stream.shutdown().await?;
        let mut dropped = [0; 4096];
        let mut count = 0;
        while waited_for.is_ok() && count < DROPPED_MOST {
            match stream.read(&mut dropped).await? {
                0 => break,
                length => count += length,
            }
        }
        std::io::Result::Ok(())
    };
    // Whoever speaks another protocol may be gone, or not listen.
    let _ = timeout(LINGER, part).await;
}
