//! One task publishes, another reads along.
//!
//! `cargo run --release` in one terminal, `cargo run -p atoll-client --example stream_tail` in another.

use atoll_client::{Client, Error, From, Tailed};

const COUNT: usize = 20;

/// Returns what was read.
pub(crate) async fn run(addresses: Vec<String>) -> Result<Vec<String>, Error> {
    let client = Client::connect(addresses).await?;
    let first = client.publish("news", "let us begin").await?;
    let publisher = client.clone();
    let publishing = tokio::spawn(async move {
        for number in 1..COUNT {
            publisher.publish("news", format!("message {number}")).await?;
        }
        Ok::<(), Error>(())
    });

    let mut tail = client.tail("news", From::Offset(first.offset));
    let mut read = Vec::new();
    while read.len() < COUNT {
        match tail.next().await? {
            Tailed::Message(message) => {
                let text = String::from_utf8_lossy(&message.payload).into_owned();
                println!("{}: {text}", message.offset);
                read.push(text);
            }
            Tailed::Reset { oldest } => println!("some were missed; it goes on with {oldest}"),
        }
    }
    match publishing.await {
        Ok(published) => published.map(|()| read),
        Err(_) => Err(Error::Protocol("the publisher was cut off")),
    }
}

#[allow(dead_code)] // A test calls `run`.
#[tokio::main]
async fn main() -> Result<(), Error> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    run(if given.is_empty() { vec!["127.0.0.1:6380".to_owned()] } else { given }).await.map(|_| ())
}
