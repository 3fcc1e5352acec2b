//! What the log asks of a directory. The shell has a real one, the simulator one that crashes.

use std::io;

/// One directory, without folders in it. Nothing that is written is safe before it was synced; no name that appeared,
/// changed or went is before the directory was.
pub trait Files {
    fn list(&self) -> io::Result<Vec<String>>;
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;
    /// A new file of zeros, or an old one made so. Its length does not change by writing within it.
    fn create(&mut self, name: &str, length: u64) -> io::Result<()>;
    fn write(&mut self, name: &str, at: u64, bytes: &[u8]) -> io::Result<()>;
    fn cut(&mut self, name: &str, length: u64) -> io::Result<()>;
    fn sync(&mut self, name: &str) -> io::Result<()>;
    fn sync_directory(&mut self) -> io::Result<()>;
    /// Takes the place of whatever has that name.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&mut self, name: &str) -> io::Result<()>;
    /// Whatever is held open for later use is not, from now on.
    fn close_all(&mut self) {}
}
