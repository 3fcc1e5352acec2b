//! Keys and values in a few lines.
//!
//! `cargo run --release` in one terminal, `cargo run -p atoll-client --example quick_start` in another.

use atoll_client::{Client, Error, Put};
use std::time::Duration;

pub(crate) async fn run(addresses: Vec<String>) -> Result<(), Error> {
    let client = Client::connect(addresses).await?;

    let written = client.put("fruit:apple", "red").await?;
    println!("put at {}", written.position);

    let Some(apple) = client.get("fruit:apple").await? else { return Ok(()) };
    println!("it is {}", String::from_utf8_lossy(&apple.bytes));

    // Only if nobody was faster.
    client.cas("fruit:apple", Some(apple.version), "green").await?;
    match client.cas("fruit:apple", Some(apple.version), "blue").await {
        Err(Error::Condition { version }) => println!("somebody was faster: now at {version:?}"),
        other => println!("surprising: {other:?}"),
    }

    let soon = Put { ttl: Some(Duration::from_secs(3600)), ..Put::default() };
    client.put_with("fruit:pear", "ripe", soon).await?;
    for (key, value) in client.scan("fruit:", None, 100).await?.found {
        println!("{} is {}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value.bytes));
    }

    client.del("fruit:apple").await?;
    client.del("fruit:pear").await?;
    Ok(())
}

#[allow(dead_code)] // A test calls `run`.
#[tokio::main]
async fn main() -> Result<(), Error> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    run(if given.is_empty() { vec!["127.0.0.1:6380".to_owned()] } else { given }).await
}
