//! A data directory: whose it is, that nobody else uses it, and its files.
//!
//! ```text
//! DIR/node        whose it is: format and name
//! DIR/lock        held by the process that uses it
//! DIR/log-…       records; spare-… files made ready
//! DIR/image-…     whole copies of buckets
//! ```

use atoll_journal::{FORMAT, Files};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Zeros are written in pieces of this size.
const PIECE: usize = 1 << 20;

#[derive(Debug, Error)]
pub enum DirectoryError {
    #[error("cannot use {path} as data directory: {error}; it must be a directory that this user may write to")]
    Unusable { path: String, error: io::Error },
    #[error("another process uses {path}{by}; each node needs a data directory of its own")]
    Locked { path: String, by: String },
    #[error("{path} belongs to node {theirs}, and this one is {ours}; each node needs a data directory of its own")]
    OtherNode { path: String, theirs: String, ours: String },
    #[error("{path} is not empty, and no data directory of atoll; say another one")]
    NotOurs { path: String },
    #[error("{path} was written by a later version (format {format}, this one reads up to {FORMAT})")]
    Newer { path: String, format: u32 },
}

/// The directory, taken by this process until it is dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) path: PathBuf,
    _lock: File,
}

/// Takes the directory for the node of this name; makes it, where there is none.
pub(crate) fn take(path: &Path, name: &str) -> Result<Taken, DirectoryError> {
    let shown = path.display().to_string();
    let unusable = |error| DirectoryError::Unusable { path: shown.clone(), error };
    fs::create_dir_all(path).map_err(unusable)?;
    let deed = path.join("node");
    let known = match fs::read_to_string(&deed) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(unusable(error)),
    };
    let foreign = |entry: io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| !matches!(entry.file_name().to_str(), Some("lock" | "node.new" | "lost+found")))
    };
    if known.is_none() && fs::read_dir(path).map_err(unusable)?.any(foreign) {
        return Err(DirectoryError::NotOurs { path: shown });
    }
    let lock = lock(path).map_err(|error| match error {
        Ok(by) => DirectoryError::Locked { path: shown.clone(), by },
        Err(error) => unusable(error),
    })?;
    match known {
        Some(text) => check(&shown, &text, name)?,
        None => {
            let aside = path.join("node.new");
            let mut file = File::create(&aside).map_err(unusable)?;
            write!(file, "format = {FORMAT}\nname = {name:?}\n").map_err(unusable)?;
            file.sync_all().map_err(unusable)?;
            fs::rename(&aside, &deed).map_err(unusable)?;
            File::open(path).and_then(|directory| directory.sync_all()).map_err(unusable)?;
        }
    }
    Ok(Taken { path: path.to_owned(), _lock: lock })
}

/// `Err(Ok)`: who has it.
pub(crate) fn lock(path: &Path) -> Result<File, Result<String, io::Error>> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path.join("lock"));
    let mut file = file.map_err(Err)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut process = String::new();
            let _ = file.read_to_string(&mut process);
            let by = if process.trim().is_empty() { String::new() } else { format!(" (process {})", process.trim()) };
            return Err(Ok(by));
        }
        Err(TryLockError::Error(error)) => return Err(Err(error)),
    }
    file.set_len(0).map_err(Err)?;
    writeln!(file, "{}", std::process::id()).map_err(Err)?;
    Ok(file)
}

fn value(text: &str, key: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.trim().strip_prefix('='))?;
    Some(line.trim().trim_matches('"').to_owned())
}

/// The node whose directory it is.
pub(crate) fn name_of(path: &Path) -> Option<String> {
    value(&fs::read_to_string(path.join("node")).ok()?, "name")
}

fn check(path: &str, text: &str, name: &str) -> Result<(), DirectoryError> {
    let value = |key: &str| value(text, key);
    let path = path.to_owned();
    let format = value("format").and_then(|format| format.parse::<u32>().ok());
    match (format, value("name")) {
        (Some(format), _) if format > FORMAT => Err(DirectoryError::Newer { path, format }),
        (Some(_), Some(theirs)) if theirs == name => Ok(()),
        (Some(_), Some(theirs)) => Err(DirectoryError::OtherNode { path, theirs, ours: name.to_owned() }),
        (_, _) => Err(DirectoryError::NotOurs { path }),
    }
}

/// The files of the log, for one thread.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// Those that were written to.
    open: BTreeMap<String, File>,
}

impl Directory {
    pub(crate) fn of(path: &Path) -> Directory {
        Directory { path: path.to_owned(), open: BTreeMap::new() }
    }

    fn file(&mut self, name: &str) -> io::Result<&File> {
        if !self.open.contains_key(name) {
            let file = OpenOptions::new().write(true).open(self.path.join(name))?;
            self.open.insert(name.to_owned(), file);
        }
        self.open.get(name).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Files for Directory {
    fn list(&self) -> io::Result<Vec<String>> {
        let names = fs::read_dir(&self.path)?.map(|entry| Ok(entry?.file_name().into_string().unwrap_or_default()));
        names.collect()
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.path.join(name))
    }

    /// Really written: a file that only promises its length has the disk find room at every sync.
    fn create(&mut self, name: &str, length: u64) -> io::Result<()> {
        let file = File::create(self.path.join(name))?;
        let zeros = vec![0; PIECE.min(length as usize)];
        let mut at = 0;
        while at < length {
            let piece = &zeros[..zeros.len().min((length - at) as usize)];
            file.write_all_at(piece, at)?;
            at += piece.len() as u64;
        }
        self.open.insert(name.to_owned(), file);
        Ok(())
    }

    fn write(&mut self, name: &str, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file(name)?.write_all_at(bytes, at)
    }

    fn cut(&mut self, name: &str, length: u64) -> io::Result<()> {
        self.file(name)?.set_len(length)
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        self.file(name)?.sync_data()
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))?;
        self.open.remove(to);
        if let Some(file) = self.open.remove(from) {
            self.open.insert(to.to_owned(), file);
        }
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.open.remove(name);
        match fs::remove_file(self.path.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    fn close_all(&mut self) {
        self.open.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("atoll-directory-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).expect("a directory");
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn refused(path: &Path, name: &str) -> String {
        take(path, name).expect_err("it cannot be taken").to_string()
    }

    #[test]
    fn a_directory_is_of_one_node_and_used_by_one_process() {
        let scratch = Scratch::new("one");
        let path = scratch.0.join("n1");
        let taken = take(&path, "n1").expect("a new one");
        let told = refused(&path, "n1");
        assert!(told.contains("another process uses") && told.contains(&std::process::id().to_string()), "{told}");
        drop(taken);
        assert!(refused(&path, "n2").contains("belongs to node n1, and this one is n2"));
        take(&path, "n1").expect("its own again");
    }

    #[test]
    fn what_is_no_data_directory_or_of_a_later_version_is_left_alone() {
        let scratch = Scratch::new("other");
        let path = &scratch.0;
        fs::write(path.join("thesis"), "words").expect("a file");
        assert!(refused(path, "n1").contains("no data directory"));
        assert!(refused(&path.join("thesis"), "n1").contains("cannot use"), "a file is no directory");
        fs::write(path.join("node"), "format = 99\nname = \"n1\"\n").expect("a file");
        assert!(refused(path, "n1").contains("later version (format 99"));
        fs::write(path.join("node"), "gibberish").expect("a file");
        assert!(refused(path, "n1").contains("no data directory"));
    }

    #[test]
    fn a_directory_that_cannot_be_written_to_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = Scratch::new("read-only");
        let path = scratch.0.join("n1");
        fs::create_dir_all(&path).expect("a directory");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o555)).expect("permissions");
        // Whoever may write nevertheless, as root may, has nothing to be refused.
        if File::create(path.join("lock")).is_ok() {
            eprintln!("skipped: this user may write to any directory");
            return;
        }
        let told = refused(&path, "n1");
        assert!(told.contains("cannot use") && told.contains("may write to"), "{told}");
    }
}
