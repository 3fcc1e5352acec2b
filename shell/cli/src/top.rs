//! `atoll top`: the cluster at a glance, on a terminal, again every second.
//!
//! ```text
//!   gather (a thread: asks the cluster and each node) ──▶ rates (what changed) ──▶ screen
//!                                                                 keys ──▶ choice ───┘
//! ```

mod choice;
mod gather;
mod rates;
mod screen;

use crate::Outcome;
use crate::remote::Server;
use anyhow::bail;
use choice::{Choice, Next};
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rates::Shown;
use std::io::{IsTerminal, stdout};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Duration;

/// Keys are looked for so often.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: Server,
    /// Seconds between two looks
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: u64,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    if !stdout().is_terminal() {
        bail!("`atoll top` needs a terminal; `atoll status` says how things are in plain text");
    }
    // Where nobody answers, that is told in plain text as well.
    let first = gather::gather(&arguments.server)?;
    let (sender, views) = sync_channel(1);
    let every = Duration::from_secs(arguments.every);
    let mut asked = gather::Asked::new(arguments.server.clone(), &first);
    std::thread::spawn(move || rates::follow(first, every, || asked.gather(), |shown| sender.send(shown).is_ok()));
    let mut terminal = ratatui::try_init()?;
    let ended = show(&mut terminal, &views);
    ratatui::try_restore()?;
    ended
}

fn show(terminal: &mut ratatui::DefaultTerminal, views: &Receiver<Shown>) -> anyhow::Result<Outcome> {
    let mut choice = Choice::default();
    let mut shown = Shown::default();
    loop {
        terminal.draw(|frame| screen::draw(frame, &shown, &mut choice))?;
        if event::poll(LOOK)?
            && let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
            && choice.on_key(key) == Next::Quit
        {
            return Ok(Outcome::Done);
        }
        match views.try_recv() {
            Ok(view) if !choice.paused => shown = view,
            Ok(_) | Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => bail!("nothing more is told of the cluster"),
        }
    }
}
