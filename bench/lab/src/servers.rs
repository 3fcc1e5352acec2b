//! Processes of a cluster: begun with their output in files, ended by their ids, with a folder of their own that goes
//! with them. Ports are free ones of the loopback interface.

use anyhow::{Context, bail};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Servers {
    children: Vec<Child>,
    folder: PathBuf,
}

/// Where a cluster keeps its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A file system in memory: writing to it and syncing it cost next to nothing.
    Memory,
    Disk,
}

impl Servers {
    pub(crate) fn new(place: Place, scratch: &Path) -> anyhow::Result<Servers> {
        let parent = match place {
            Place::Memory => Path::new("/dev/shm"),
            Place::Disk => scratch,
        };
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
        let folder = parent.join(format!("atoll-lab-{}-{}", std::process::id(), since.as_nanos()));
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Servers { children: Vec::new(), folder })
    }

    /// Made on demand.
    pub(crate) fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.folder.join(name);
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    pub(crate) fn start(&mut self, name: &str, command: &mut Command) -> anyhow::Result<()> {
        let log = File::create(self.folder.join(format!("{name}.log")))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("cannot start {name}: {command:?}"))?;
        self.children.push(child);
        Ok(())
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.children.iter().map(Child::id).collect()
    }

    /// Until it holds, up to a limit; in vain, the ends of the logs tell why.
    pub(crate) fn wait(&self, what: &str, seconds: u64, holds: impl FnMut() -> bool) -> anyhow::Result<()> {
        if until(seconds, holds) {
            return Ok(());
        }
        bail!("{what} not within {seconds} s; {}", self.last_words())
    }

    pub(crate) fn wait_for_ports(&self, ports: &[u16]) -> anyhow::Result<()> {
        self.wait("its ports open", 60, || ports.iter().all(|&port| TcpStream::connect(("127.0.0.1", port)).is_ok()))
    }

    fn last_words(&self) -> String {
        let mut words = String::new();
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "log") {
                let text = fs::read_to_string(&path).unwrap_or_default();
                let last: Vec<&str> = text.lines().rev().take(2).collect();
                words += &format!("{}: {}  ", entry.file_name().to_string_lossy(), last.join(" / "));
            }
        }
        words
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
        }
        for child in &mut self.children {
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// To one process; `KILL`, `STOP` or `CONT`.
pub(crate) fn signal(pid: u32, name: &str) -> anyhow::Result<()> {
    let status = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status()?;
    if !status.success() {
        bail!("kill -{name} {pid} failed");
    }
    Ok(())
}

pub(crate) fn until(seconds: u64, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(seconds);
    loop {
        if holds() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub(crate) fn free_ports(count: usize) -> anyhow::Result<Vec<u16>> {
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind(("127.0.0.1", 0))).collect::<std::io::Result<_>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

pub(crate) fn addresses(ports: &[u16]) -> Vec<String> {
    ports.iter().map(|port| format!("127.0.0.1:{port}")).collect()
}

/// One request over HTTP on a connection of its own: the body of an answer with status 200 to 299.
pub(crate) fn http(address: &str, method: &str, path: &str, body: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let kind = if body.starts_with(['{', '[']) { "Content-Type: application/json\r\n" } else { "" };
    let length = body.len();
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n{kind}Content-Length: {length}\r\n\r\n");
    stream.write_all(format!("{head}{body}").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    if !status.starts_with('2') {
        bail!("{method} {path}: {status} {}", body.chars().take(200).collect::<String>());
    }
    if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        return Ok(body.split("\r\n").skip(1).step_by(2).collect());
    }
    Ok(body.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_started_is_ended_and_its_folder_gone() {
        let mut servers = Servers::new(Place::Disk, &std::env::temp_dir()).unwrap();
        let folder = servers.folder("data").unwrap();
        servers.start("sleeper", Command::new("sleep").arg("60")).unwrap();
        let pid = servers.pids()[0];
        assert!(Path::new(&format!("/proc/{pid}")).exists());
        drop(servers);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
        assert!(!folder.exists());
    }

    #[test]
    fn what_does_not_come_up_tells_its_last_words() {
        let mut servers = Servers::new(Place::Disk, &std::env::temp_dir()).unwrap();
        servers.start("speaker", Command::new("echo").arg("no luck")).unwrap();
        let error = servers.wait("ready", 1, || false).unwrap_err().to_string();
        assert!(error.contains("no luck"), "{error}");
    }

    #[test]
    fn ports_are_free_and_different() {
        let mut ports = free_ports(20).unwrap();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 20);
    }
}
