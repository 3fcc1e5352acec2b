//! Reads the files of the repository that tidy looks at.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

#[derive(Debug)]
pub(super) struct Tree {
    /// In the order of their paths.
    pub(super) files: Vec<File>,
    folders: BTreeSet<String>,
}

#[derive(Debug)]
pub(super) struct File {
    /// From the root, with `/` between the parts.
    pub(super) path: String,
    /// Only of the kinds of file that have rules.
    pub(super) text: Option<String>,
}

impl Tree {
    /// Is there a file or folder at this path?
    pub(super) fn has(&self, path: &str) -> bool {
        path.is_empty()
            || self.folders.contains(path)
            || self.files.binary_search_by(|file| file.path.as_str().cmp(path)).is_ok()
    }
}

pub(super) fn read(root: &Path) -> io::Result<Tree> {
    let mut tree = Tree { files: Vec::new(), folders: BTreeSet::new() };
    walk(root, "", &mut tree)?;
    tree.files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(tree)
}

fn walk(folder: &Path, prefix: &str, tree: &mut Tree) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() {
            if !is_foreign(&name) {
                walk(&entry.path(), &path, tree)?;
                tree.folders.insert(path);
            }
        } else if kind.is_file() {
            let text = if has_rules(&path) { Some(read_text(&entry.path(), &path)?) } else { None };
            tree.files.push(File { path, text });
        }
    }
    Ok(())
}

/// Folders that hold what tools made, not what people wrote.
fn is_foreign(name: &str) -> bool {
    matches!(name, ".git" | "target" | "node_modules")
}

fn has_rules(path: &str) -> bool {
    [".rs", ".md", ".toml"].iter().any(|ending| path.ends_with(ending)) || path.starts_with(".ci/")
}

fn read_text(file: &Path, path: &str) -> io::Result<String> {
    // The bare error of the system names no file.
    fs::read_to_string(file).map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))
}
