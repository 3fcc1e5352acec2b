//! A shell that is typed into, in a folder of its own. Whatever it started is ended with it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Longer than this no command of a page takes, on a machine with much else to do.
const LONG: Duration = Duration::from_secs(90);
/// Comes after what a command prints, with its exit code.
const END: &str = "end-of-what-it-printed";

pub(crate) struct Shell {
    process: Child,
    stdin: ChildStdin,
    printed: Receiver<String>,
    folder: PathBuf,
}

impl Shell {
    /// `network` is where the nodes of the page are.
    pub(crate) fn start(network: &str) -> Shell {
        let folder = std::env::temp_dir().join(format!("atoll-guide-{network}"));
        std::fs::create_dir_all(&folder).unwrap();
        let binary = PathBuf::from(env!("CARGO_BIN_EXE_atoll"));
        let path = format!("{}:{}", binary.parent().unwrap().display(), std::env::var("PATH").unwrap());
        let mut process = Command::new("bash")
            .current_dir(&folder)
            .env("PATH", path)
            .env("ATOLL_SERVER", format!("http://{network}1:8080"))
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("there is a bash");
        let stdin = process.stdin.take().unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let (sender, printed) = channel();
        // Ends with the shell and all that it started: they share one standard output.
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut shell = Shell { process, stdin, printed, folder };
        shell.run("exec 2>&1; unset ATOLL_CONFIG");
        shell
    }

    /// What it prints, and its exit code.
    pub(crate) fn run(&mut self, command: &str) -> (String, i32) {
        writeln!(self.stdin, "{command}\n__code=$?; echo; echo {END} $__code").unwrap();
        let begun = Instant::now();
        let mut printed = String::new();
        loop {
            let left = LONG.saturating_sub(begun.elapsed());
            let Ok(line) = self.printed.recv_timeout(left) else { panic!("`{command}` does not end:\n{printed}") };
            if let Some(code) = line.strip_prefix(END) {
                return (printed, code.trim().parse().unwrap());
            }
            // What the shell itself says of jobs that were killed is no output of a command.
            if !line.starts_with("bash: line ") {
                printed += &format!("{line}\n");
            }
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // It and all that it started are one group, whatever it is doing.
        let group = format!("-{}", self.process.id());
        let _ = Command::new("kill").args(["-9", "--", &group]).status();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
