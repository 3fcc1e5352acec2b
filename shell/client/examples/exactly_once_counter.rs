//! Many tasks count in one key, and each increment counts once: also when you kill a node while it runs.
//!
//! `cargo run --release` in one terminal, `cargo run -p atoll-client --example exactly_once_counter` in another.

use atoll_client::{Client, Error};
use tokio::task::JoinSet;

const TASKS: i64 = 16;
const EACH: i64 = 50;

/// Returns what the counter says, and what it should.
pub(crate) async fn run(addresses: Vec<String>) -> Result<(i64, i64), Error> {
    let client = Client::connect(addresses).await?;
    let before = client.incr("visits", 0).await?;
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let client = client.clone();
        tasks.spawn(async move {
            for _ in 0..EACH {
                // An attempt whose answer is lost is sent again under the same number.
                client.incr("visits", 1).await?;
            }
            Ok::<(), Error>(())
        });
    }
    for done in tasks.join_all().await {
        done?;
    }
    let after = client.incr("visits", 0).await?;
    println!("{} increments, and the counter went from {before} to {after}", TASKS * EACH);
    Ok((after, before + TASKS * EACH))
}

#[allow(dead_code)] // A test calls `run`.
#[tokio::main]
async fn main() -> Result<(), Error> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    run(if given.is_empty() { vec!["127.0.0.1:6380".to_owned()] } else { given }).await.map(|_| ())
}
