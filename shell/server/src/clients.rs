//! Connections of clients that speak RESP or the native protocol: both on one port, told apart by the first byte.

use crate::gateway::Gateway;
use crate::home::Home;
use crate::native;
use crate::parting;
use crate::refused::Why;
use futures_util::FutureExt;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

/// Takes connections for as long as the thread lives; each is served on this thread.
pub(crate) async fn accept(listener: TcpListener, gateway: Gateway, home: Rc<Home>) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors, most likely: that passes.
                warn!(%error, "a connection of a client could not be taken");
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        spawn_local(serve(stream, gateway.clone(), home.clone()));
    }
}

/// What has arrived, behind what is in `into`. None: nothing, for now. Zero bytes: the client says no more.
///
/// A read that fills less than there is room for has taken all: unlike `try_read`, this one knows, and does not ask the
/// system a second time.
pub(crate) fn arrived(stream: &mut TcpStream, into: &mut Vec<u8>) -> Option<io::Result<usize>> {
    stream.read_buf(into).now_or_never()
}

async fn serve(mut stream: TcpStream, gateway: Gateway, home: Rc<Home>) {
    let Some(_place) = gateway.admit() else {
        gateway.refused().count(Why::TooManyClients);
        return parting::part(&mut stream, b"-ERR max number of clients reached\r\n").await;
    };
    // Answers are written once they are complete: waiting for more to send would only cost time.
    let _ = stream.set_nodelay(true);
    let idle = gateway.settings().idle;
    let mut first = [0];
    let peek = stream.peek(&mut first);
    let peeked = if idle.is_zero() { Ok(peek.await) } else { timeout(idle, peek).await };
    let Ok(peeked) = peeked else { return gateway.refused().count(Why::TooSlow) };
    let served = match peeked {
        Ok(0) => return,
        Ok(_) if native::is_native(first[0]) => native::serve(stream, gateway, &home).await,
        Ok(_) => crate::resp::serve(stream, gateway, &home).await,
        Err(error) => Err(error),
    };
    if let Err(error) = served {
        debug!(%error, "a client's connection ended");
    }
}
