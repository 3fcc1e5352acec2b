//! `atoll man FOLDER`: a manual page for each command, made of what `--help` says.

use crate::Outcome;
use anyhow::Context;
use std::path::Path;

pub(crate) fn write(command: clap::Command, folder: &Path) -> anyhow::Result<Outcome> {
    let shown = folder.display();
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {shown}"))?;
    clap_mangen::generate_to(command, folder).with_context(|| format!("cannot write to {shown}"))?;
    Ok(Outcome::Done)
}
