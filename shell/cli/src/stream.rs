//! `atoll stream`: messages.

use crate::Outcome;
use crate::remote::{Server, encoded};
use crate::show;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: Server,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Appends a message; without one, each line of standard input
    Publish { name: String, message: Option<String> },
    /// Prints messages
    Read {
        name: String,
        /// From this offset on; from the oldest, if not said
        #[arg(long)]
        from: Option<u64>,
        #[arg(long, default_value_t = 100)]
        limit: usize,
        #[arg(long)]
        json: bool,
    },
    /// Prints messages as they come
    Tail {
        name: String,
        /// From this offset on; what comes from now on, if not said
        #[arg(long)]
        from: Option<u64>,
    },
}

#[derive(Deserialize)]
struct Published {
    offset: u64,
    position: String,
}

#[derive(Deserialize)]
struct Messages {
    messages: Vec<Message>,
}

#[derive(Deserialize, Serialize)]
struct Message {
    offset: u64,
    #[serde(flatten)]
    rest: serde_json::Map<String, serde_json::Value>,
}

impl Message {
    fn line(&self) -> String {
        let text = self.rest.get("data").or_else(|| self.rest.get("data_base64")).or_else(|| self.rest.get("fields"));
        let text = match text {
            Some(serde_json::Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        format!("{} {text}", self.offset)
    }
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let server = &arguments.server;
    match &arguments.command {
        Command::Publish { name, message: Some(message) } => publish(server, name, message.as_bytes()),
        Command::Publish { name, message: None } => {
            for line in std::io::stdin().lock().split(b'\n') {
                publish(server, name, &line?)?;
            }
            Ok(Outcome::Done)
        }
        Command::Read { name, from, limit, json } => {
            let from = from.map(|from| format!("&from={from}")).unwrap_or_default();
            let path = format!("/v1/streams/{}?limit={limit}{from}", encoded(name.as_bytes()));
            let Messages { messages } = server.get(&path)?;
            for message in messages {
                let line = if *json { serde_json::to_string(&message)? } else { message.line() };
                show::line(line.as_bytes())?;
            }
            Ok(Outcome::Done)
        }
        Command::Tail { name, from } => {
            let from = from.map(|from| format!("?from={from}")).unwrap_or_default();
            show::follow(server, &format!("/v1/streams/{}{from}", encoded(name.as_bytes())), |kind, data| {
                let line = match serde_json::from_str::<Message>(data) {
                    Ok(message) => message.line(),
                    Err(_) => format!("{kind} {data}"),
                };
                let mut out = std::io::stdout().lock();
                writeln!(out, "{line}")?;
                out.flush()?;
                Ok(())
            })
        }
    }
}

fn publish(server: &Server, name: &str, message: &[u8]) -> anyhow::Result<Outcome> {
    let reply = server.ask("POST", &format!("/v1/streams/{}", encoded(name.as_bytes())), &[], message)?;
    let Published { offset, position } = reply.json()?;
    println!("offset {offset} position {position}");
    Ok(Outcome::Done)
}
