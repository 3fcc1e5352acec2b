//! What no compiler checks. Each rule looks at text it is given and answers with complaints, so that each has its own
//! unit tests; only this file and `tree` touch the disk.
//!
//! Not here: what rustfmt and clippy check already; `core/clippy.toml` has the other half of the wall around the core.

mod crates;
mod mask;
mod prose;
mod source;
mod tree;

use std::fmt;
use std::io;
use std::path::Path;

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Complaint {
    file: String,
    /// From 1.
    line: usize,
    what: String,
}

impl Complaint {
    fn new(file: &str, line: usize, what: impl Into<String>) -> Complaint {
        Complaint { file: file.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

/// Every complaint about the repository at `root`, in the order of files and lines.
pub(crate) fn run(root: &Path) -> io::Result<Vec<Complaint>> {
    let tree = tree::read(root)?;
    let mut complaints = Vec::new();
    let mut manifests = Vec::new();
    for file in &tree.files {
        complaints.extend(source::check_name(&file.path));
        let Some(text) = &file.text else { continue };
        complaints.extend(source::check_blanks(&file.path, text));
        if file.path.ends_with(".rs") {
            complaints.extend(source::check(&file.path, text));
        } else if file.path.ends_with(".md") {
            complaints.extend(prose::check_width(&file.path, text));
            complaints.extend(prose::check_links(&file.path, text, |target| tree.has(target)));
        } else if file.path == "Cargo.toml" || file.path.ends_with("/Cargo.toml") {
            manifests.push(crates::Manifest::parse(&file.path, text));
        }
    }
    complaints.extend(prose::check_decisions(tree.files.iter().map(|file| file.path.as_str())));
    complaints.extend(crates::check(&manifests));
    complaints.sort();
    Ok(complaints)
}
