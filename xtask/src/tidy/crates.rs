//! Rules about the crates: which may depend on which, and that all of them have the same lints.
//!
//! ```text
//! atoll (cli) ──▶ client ──▶ sim, server ──▶ journal, protocol ──▶ wire ──▶ node ──▶ paxos, … , stream ──▶ types
//! ```
//!
//! A crate may use any crate of a lower layer, never one of its own layer or above.

use super::Complaint;
use super::source::numbered;

/// From the lowest up. The crates of one layer are siblings, and do not know each other.
const LAYERS: &[&[&str]] = &[
    &["atoll-types"],
    &["atoll-paxos", "atoll-cluster", "atoll-distributor", "atoll-replica", "atoll-kv", "atoll-stream"],
    &["atoll-node"],
    &["atoll-wire"],
    &["atoll-journal", "atoll-protocol"],
    &["atoll-sim", "atoll-server", "atoll-micro"],
    &["atoll-client"],
    &["atoll"],
    &["atoll-lab"],
];

/// Outside of the layers: tools that use none of our crates.
const TOOLS: &[&str] = &["xtask"];

/// Workspaces of their own: they can inherit no lints, and stand above every layer.
const APART: &[&str] = &["atoll-fuzz"];

/// Runtimes: they bring clocks, threads and sockets along.
const NOT_IN_THE_CORE: &[&str] = &["tokio", "mio", "async-std", "smol"];

/// What tidy wants to know of a `Cargo.toml`.
#[derive(Debug)]
pub(super) struct Manifest {
    path: String,
    /// None for a manifest that is only the workspace's.
    package: Option<String>,
    inherits_lints: bool,
    /// Of every kind, for building and testing as well: line and the name of the package.
    dependencies: Vec<(usize, String)>,
}

impl Manifest {
    /// Reads line by line. Values that span several lines are skipped: none of them matters here.
    pub(super) fn parse(path: &str, text: &str) -> Manifest {
        let mut manifest =
            Manifest { path: path.to_owned(), package: None, inherits_lints: false, dependencies: Vec::new() };
        let mut section = String::new();
        let mut depth = 0;
        for (line, content) in numbered(text) {
            let content = without_comment(content).trim();
            let inside = depth > 0;
            if !inside && content.starts_with('[') {
                section = content.trim_matches(['[', ']']).to_owned();
                if let Some(name) = dependency_section(&section) {
                    manifest.dependencies.push((line, name));
                }
                continue;
            }
            depth += content.matches(['[', '{']).count();
            depth = depth.saturating_sub(content.matches([']', '}']).count());
            if let Some((key, value)) = content.split_once('=').filter(|_| !inside) {
                manifest.take(&section, line, key.trim(), value.trim());
            }
        }
        manifest
    }

    fn take(&mut self, section: &str, line: usize, key: &str, value: &str) {
        let says_workspace = value == "true" || value.replace(' ', "").contains("workspace=true");
        match (section, key) {
            ("package", "name") => self.package = Some(unquoted(value)),
            ("lints", "workspace") | ("", "lints.workspace" | "lints") => self.inherits_lints = says_workspace,
            (section, key) if is_dependencies(section) => {
                let name = key.split('.').next().unwrap_or(key);
                // `package = "…"` gives a dependency another name here; the one it really has counts.
                let renamed = value.split_once("package").and_then(|(_, rest)| rest.split('"').nth(1));
                self.dependencies.push((line, renamed.map_or_else(|| unquoted(name), str::to_owned)));
            }
            (_, _) => {}
        }
    }
}

/// `[dependencies]`, `[dev-dependencies]`, `[target.'cfg(unix)'.dependencies]`; not the workspace's list of versions.
fn is_dependencies(section: &str) -> bool {
    let last = section.rsplit('.').next().unwrap_or(section);
    !section.starts_with("workspace") && matches!(last, "dependencies" | "dev-dependencies" | "build-dependencies")
}

/// The name in `[dependencies.NAME]`.
fn dependency_section(section: &str) -> Option<String> {
    let (before, name) = section.rsplit_once('.')?;
    if is_dependencies(before) { Some(unquoted(name)) } else { None }
}

fn unquoted(text: &str) -> String {
    text.trim_matches(['"', '\'']).to_owned()
}

/// No value of a manifest that matters here has a `#` in it.
fn without_comment(content: &str) -> &str {
    content.split('#').next().unwrap_or_default()
}

pub(super) fn check(manifests: &[Manifest]) -> Vec<Complaint> {
    manifests.iter().flat_map(check_one).collect()
}

fn check_one(manifest: &Manifest) -> Vec<Complaint> {
    let Some(package) = manifest.package.as_ref().filter(|package| !APART.contains(&package.as_str())) else {
        return Vec::new();
    };
    let mut complaints = Vec::new();
    let mut complain = |line: usize, what: String| complaints.push(Complaint::new(&manifest.path, line, what));
    if !manifest.inherits_lints {
        complain(1, format!("`{package}` does not inherit the workspace's lints: add [lints] workspace = true"));
    }
    let own_layer = layer(package);
    if own_layer.is_none() && !TOOLS.contains(&package.as_str()) {
        complain(1, format!("`{package}` has no layer yet: give it one in xtask/src/tidy/crates.rs"));
    }
    for (line, dependency) in &manifest.dependencies {
        if manifest.path.starts_with("core/") && is_runtime(dependency) {
            complain(*line, format!("`{dependency}` has no place in the core"));
        }
        // A crate without a layer, ours or a tool, may use nothing of ours.
        if let Some(used) = layer(dependency)
            && own_layer.is_none_or(|own| used >= own)
        {
            complain(*line, format!("`{package}` may not depend on `{dependency}`: {DIRECTION}"));
        }
    }
    complaints
}

const DIRECTION: &str = "dependencies go atoll → client → {sim, server} → {journal, protocol} → wire → node → \
    {paxos, cluster, distributor, replica, kv, stream} → types";

fn is_runtime(dependency: &str) -> bool {
    NOT_IN_THE_CORE.contains(&dependency) || dependency.starts_with("tokio-")
}

fn layer(package: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&package))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, package: &str, rest: &str) -> Vec<(usize, String)> {
        let text = format!("[package]\nname = \"{package}\"\n[lints]\nworkspace = true\n{rest}");
        let found = check(&[Manifest::parse(path, &text)]);
        found.into_iter().map(|complaint| (complaint.line, complaint.what)).collect()
    }

    fn lines(path: &str, package: &str, rest: &str) -> Vec<usize> {
        complaints(path, package, rest).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn dependencies_go_down() {
        let node = "[dependencies]\natoll-types.workspace = true\natoll-paxos = { workspace = true }\n";
        assert_eq!(lines("core/node/Cargo.toml", "atoll-node", node), [0; 0]);
        assert_eq!(lines("core/types/Cargo.toml", "atoll-types", node), [6, 7]);
    }

    #[test]
    fn siblings_do_not_know_each_other() {
        let rest = "[dependencies]\nserde = \"1\"\n[dev-dependencies]\natoll-cluster.workspace = true\n";
        assert_eq!(lines("core/paxos/Cargo.toml", "atoll-paxos", rest), [8]);
    }

    #[test]
    fn the_core_has_no_runtime_and_no_simulator() {
        let rest = "[dependencies.tokio]\nversion = \"1\"\n[dependencies]\natoll-sim.workspace = true\n\
                    clock = { package = \"tokio-util\", version = \"1\" }\n";
        assert_eq!(lines("core/wire/Cargo.toml", "atoll-wire", rest), [5, 8, 9]);
        assert_eq!(lines("shell/cli/Cargo.toml", "atoll", rest), [0; 0]);
    }

    #[test]
    fn lists_over_several_lines_are_not_dependencies() {
        let rest = "[dependencies]\nserde = { version = \"1\", features = [\n    \"tokio = 1\",\n] }\nmio = \"1\"\n";
        assert_eq!(lines("core/node/Cargo.toml", "atoll-node", rest), [9]);
    }

    #[test]
    fn every_crate_has_a_layer_and_the_lints() {
        assert!(complaints("shell/other/Cargo.toml", "atoll-other", "")[0].1.contains("no layer"));
        let bare = Manifest::parse("xtask/Cargo.toml", "[package]\nname = \"xtask\"\n");
        assert_eq!(check(&[bare]).len(), 1);
        let short = Manifest::parse("xtask/Cargo.toml", "lints.workspace = true\n[package]\nname = \"xtask\"\n");
        assert_eq!(check(&[short]), []);
    }

    #[test]
    fn what_stands_apart_inherits_nothing() {
        let text = "[package]\nname = \"atoll-fuzz\"\n[dependencies]\natoll-server = { path = \"../shell/server\" }\n";
        assert_eq!(check(&[Manifest::parse("fuzz/Cargo.toml", text)]), []);
    }

    #[test]
    fn the_workspace_may_list_every_version() {
        let root =
            Manifest::parse("Cargo.toml", "[workspace.dependencies]\ntokio = \"1\"\natoll-sim = { path = \"sim\" }\n");
        assert_eq!(check(&[root]), []);
    }
}
