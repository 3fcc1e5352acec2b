//! `cargo xtask deb`: the Debian package, built by cargo-deb, then unpacked into a folder and looked at.
//!
//! Not here: what is in it (`package.metadata.deb` in `shell/cli/Cargo.toml`), the files themselves (`deploy/`).

use super::cargo;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// What must be in the package, besides the binary.
const PARTS: [&str; 9] = [
    "etc/atoll/atoll.toml",
    "lib/systemd/system/atoll.service",
    "usr/share/atoll/alerts.yaml",
    "usr/share/atoll/grafana.json",
    "usr/share/bash-completion/completions/atoll",
    "usr/share/zsh/vendor-completions/_atoll",
    "usr/share/fish/vendor_completions.d/atoll.fish",
    "usr/share/man/man1/atoll.1.gz",
    "usr/share/man/man1/atoll-serve.1.gz",
];

pub(super) fn deb(root: &Path) -> Result<(), String> {
    if run(Command::new("cargo").args(["deb", "--version"]).stdout(Stdio::null()).stderr(Stdio::null())).is_err() {
        return Err("cargo-deb is not installed: cargo install cargo-deb".to_owned());
    }
    cargo(root, &["build", "--release", "--package", "atoll"], &[])?;
    let folder = root.join("target/package");
    write_texts(&root.join("target/release/atoll"), &folder)?;
    let package = folder.join("atoll.deb");
    let output = path(&package)?;
    cargo(root, &["deb", "--package", "atoll", "--no-build", "--output", output], &[])?;
    unpack(&package, &folder.join("root"))
}

/// Manual pages and completions, as the binary itself writes them.
fn write_texts(binary: &Path, folder: &Path) -> Result<(), String> {
    let completions = folder.join("completions");
    fs::create_dir_all(&completions).map_err(|error| error.to_string())?;
    run(Command::new(binary).arg("man").arg(folder.join("man")))?;
    for (shell, file) in [("bash", "atoll"), ("zsh", "_atoll"), ("fish", "atoll.fish")] {
        let file = fs::File::create(completions.join(file)).map_err(|error| error.to_string())?;
        run(Command::new(binary).args(["completions", shell]).stdout(file))?;
    }
    Ok(())
}

fn unpack(package: &Path, folder: &Path) -> Result<(), String> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| error.to_string())?;
    }
    run(Command::new("dpkg-deb").arg("--extract").arg(package).arg(folder))?;
    run(Command::new(folder.join("usr/bin/atoll")).arg("--version"))?;
    let has = |part: &str| folder.join(part).exists() || folder.join("usr").join(part).exists();
    let missing: Vec<&str> = PARTS.into_iter().filter(|part| !has(part)).collect();
    if !missing.is_empty() {
        return Err(format!("the package lacks {}", missing.join(", ")));
    }
    println!("{} is complete; unpacked in {}", package.display(), folder.display());
    Ok(())
}

fn path(path: &Path) -> Result<&str, String> {
    path.to_str().ok_or_else(|| format!("{} is no text", path.display()))
}

fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("could not start {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}")) }
}
