//! A directory in memory that loses at a crash what was not synced. For tests, and for the simulator.

use crate::files::Files;
use atoll_types::Rng;
use std::collections::BTreeMap;
use std::io;

/// A disk writes this much or nothing.
const SECTOR: usize = 512;

#[derive(Clone, Debug, Default)]
struct Content {
    /// As it is read now.
    now: Vec<u8>,
    /// As it is on the disk.
    safe: Vec<u8>,
    /// Since the last sync, in order: where, and what. A change of length is one as well.
    pending: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Length(usize),
}

impl Change {
    fn make(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Write(at, new) => {
                if bytes.len() < at + new.len() {
                    bytes.resize(at + new.len(), 0);
                }
                bytes[*at..at + new.len()].copy_from_slice(new);
            }
            Change::Length(length) => bytes.resize(*length, 0),
        }
    }
}

#[derive(Clone, Debug)]
enum Naming {
    Named(String, u64),
    Renamed { from: String, to: String, file: u64 },
    Gone(String),
}

#[derive(Clone, Debug, Default)]
pub struct Memory {
    contents: BTreeMap<u64, Content>,
    names: BTreeMap<String, u64>,
    /// As they are on the disk.
    safe_names: BTreeMap<String, u64>,
    pending: Vec<Naming>,
    last: u64,
    /// Every write and sync fails from now on.
    pub broken: bool,
}

fn missing(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, name.to_owned())
}

fn rename(names: &mut BTreeMap<String, u64>, naming: &Naming) {
    match naming {
        Naming::Named(name, file) => drop(names.insert(name.clone(), *file)),
        Naming::Renamed { from, to, file } => {
            names.remove(from);
            names.insert(to.clone(), *file);
        }
        Naming::Gone(name) => drop(names.remove(name)),
    }
}

impl Memory {
    fn content(&mut self, name: &str) -> io::Result<&mut Content> {
        if self.broken {
            return Err(io::Error::other("the disk is broken"));
        }
        let file = self.names.get(name).ok_or_else(|| missing(name))?;
        self.contents.get_mut(file).ok_or_else(|| missing(name))
    }

    fn name(&mut self, naming: Naming) {
        rename(&mut self.names, &naming);
        self.pending.push(naming);
    }

    fn change(&mut self, name: &str, change: Change) -> io::Result<()> {
        let content = self.content(name)?;
        change.make(&mut content.now);
        content.pending.push(change);
        Ok(())
    }

    /// The power goes. Of what was not synced, nothing, a part or all has reached the disk; not `torn`: nothing has.
    pub fn crash(&mut self, rng: &mut Rng, torn: bool) {
        let mood = if torn { rng.below(4) } else { 0 };
        for naming in self.pending.drain(..) {
            if mood == 3 || (mood > 0 && rng.one_in(2)) {
                rename(&mut self.safe_names, &naming);
            }
        }
        self.names = self.safe_names.clone();
        let kept: Vec<u64> = self.names.values().copied().collect();
        self.contents.retain(|file, _| kept.contains(file));
        for content in self.contents.values_mut() {
            let mood = if torn { rng.below(4) } else { 0 };
            for change in content.pending.drain(..) {
                match change {
                    Change::Length(_) if mood > 0 => change.make(&mut content.safe),
                    Change::Length(_) => {}
                    Change::Write(at, bytes) => {
                        // Sectors of the disk, not of the write.
                        let mut begin = 0;
                        while begin < bytes.len() {
                            let end = (begin + SECTOR - (at + begin) % SECTOR).min(bytes.len());
                            if mood == 3 || (mood > 0 && rng.one_in(2)) {
                                Change::Write(at + begin, bytes[begin..end].to_vec()).make(&mut content.safe);
                            }
                            begin = end;
                        }
                    }
                }
            }
            content.now.clone_from(&content.safe);
        }
        self.broken = false;
    }

    /// One bit of a file changes by itself. Returns which, and where.
    pub fn rot(&mut self, rng: &mut Rng, is_meant: impl Fn(&str) -> bool) -> Option<(String, usize)> {
        let names: Vec<(String, u64)> =
            self.names.iter().filter(|(name, _)| is_meant(name)).map(|(name, &file)| (name.clone(), file)).collect();
        let (name, file) = names.get(rng.below(names.len().max(1) as u64) as usize)?.clone();
        let content = self.contents.get_mut(&file)?;
        let used = content.safe.iter().rposition(|&byte| byte != 0)? + 1;
        let at = rng.below(used as u64) as usize;
        let bit = 1 << rng.below(8);
        content.safe[at] ^= bit;
        content.now[at] ^= bit;
        Some((name, at))
    }

    /// A sector of a file lands on another place of it.
    pub fn misdirect(&mut self, rng: &mut Rng, is_meant: impl Fn(&str) -> bool) -> Option<String> {
        let names: Vec<(String, u64)> =
            self.names.iter().filter(|(name, _)| is_meant(name)).map(|(name, &file)| (name.clone(), file)).collect();
        let (name, file) = names.get(rng.below(names.len().max(1) as u64) as usize)?.clone();
        let content = self.contents.get_mut(&file)?;
        let used = content.safe.iter().rposition(|&byte| byte != 0)? / SECTOR;
        let (from, to) = (rng.below(used as u64 + 1) as usize * SECTOR, rng.below(used as u64 + 1) as usize * SECTOR);
        let length = SECTOR.min(content.safe.len() - from.max(to));
        for bytes in [&mut content.safe, &mut content.now] {
            bytes.copy_within(from..from + length, to);
        }
        Some(name)
    }

    /// Of all files.
    pub fn bytes(&self) -> usize {
        self.names.values().filter_map(|file| self.contents.get(file)).map(|content| content.now.len()).sum()
    }
}

impl Files for Memory {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.names.keys().cloned().collect())
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let content = self.names.get(name).and_then(|file| self.contents.get(file));
        content.map(|content| content.now.clone()).ok_or_else(|| missing(name))
    }

    fn create(&mut self, name: &str, length: u64) -> io::Result<()> {
        if self.broken {
            return Err(io::Error::other("the disk is broken"));
        }
        self.last += 1;
        self.contents.insert(self.last, Content::default());
        self.name(Naming::Named(name.to_owned(), self.last));
        self.change(name, Change::Length(length as usize))
    }

    fn write(&mut self, name: &str, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.change(name, Change::Write(at as usize, bytes.to_vec()))
    }

    fn cut(&mut self, name: &str, length: u64) -> io::Result<()> {
        self.change(name, Change::Length(length as usize))
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        let content = self.content(name)?;
        for change in content.pending.drain(..) {
            change.make(&mut content.safe);
        }
        Ok(())
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        if self.broken {
            return Err(io::Error::other("the disk is broken"));
        }
        for naming in self.pending.drain(..) {
            rename(&mut self.safe_names, &naming);
        }
        let kept: Vec<u64> = self.names.values().chain(self.safe_names.values()).copied().collect();
        self.contents.retain(|file, _| kept.contains(file));
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.content(from)?;
        let file = *self.names.get(from).ok_or_else(|| missing(from))?;
        self.name(Naming::Renamed { from: from.to_owned(), to: to.to_owned(), file });
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.content(name)?;
        self.name(Naming::Gone(name.to_owned()));
        Ok(())
    }
}
