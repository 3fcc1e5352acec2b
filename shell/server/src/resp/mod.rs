//! The RESP listener.

use crate::gateway::Gateway;
use std::io;
use tokio::net::TcpStream;

pub(crate) async fn serve(_stream: TcpStream, _gateway: Gateway) -> io::Result<()> {
    Ok(())
}
