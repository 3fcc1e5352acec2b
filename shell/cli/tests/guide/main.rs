//! The commands of the README and of the tutorial, run as a reader would type them, one shell for each page.
//!
//! A block that begins with ```` ```console ```` is run: a line that begins with `$ ` is a command, what follows it is
//! what it should print (`page.rs`). Addresses of the pages are moved to a loopback network of this process, so that
//! tests can run side by side with each other and with a cluster that somebody has running.
//!
//! Not here: whether a cluster keeps its promises meanwhile (`e2e`).

// The functions around the tests are tests as well; clippy knows only those that are marked.
#![allow(clippy::unwrap_used)]

mod page;
mod shell;

use page::{Step, steps};
use shell::Shell;
use std::sync::atomic::{AtomicU32, Ordering};

/// `127.X.Y.`, of this process and this call alone.
fn network() -> String {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let number = std::process::id().wrapping_mul(8).wrapping_add(CALLS.fetch_add(1, Ordering::Relaxed));
    format!("127.{}.{}.", 16 + (number / 250) % 200, 2 + number % 250)
}

/// What stands on a page, for our network. `redis-cli` is to print as it does for a person.
fn moved(text: &str, network: &str) -> String {
    let text = text.replace("127.0.0.", network).replace("10.0.0.", network);
    text.replace("redis-cli -p", &format!("redis-cli --no-raw -h {network}1 -p"))
}

fn run(shell: &mut Shell, page: &str, steps: &[Step], network: &str) {
    for step in steps {
        let command = moved(&step.command, network);
        if let Some(missing) = ["redis-cli", "curl"].into_iter().find(|tool| is_missing(&command, tool)) {
            println!("{page}:{}: skipped, there is no {missing} on this machine: {command}", step.line);
            continue;
        }
        let (printed, code) = shell.run(&command);
        let wanted = moved(&step.output, network);
        assert!(
            page::is_like(&printed, &wanted),
            "{page}:{}: `{command}` printed (exit code {code})\n{printed}\nand the page says\n{wanted}",
            step.line
        );
        assert!(code == 0 || !step.output.is_empty(), "{page}:{}: `{command}` failed with {code}", step.line);
    }
}

fn is_missing(command: &str, tool: &str) -> bool {
    let used = command.split_whitespace().any(|word| word == tool);
    used && !std::env::split_paths(&std::env::var_os("PATH").unwrap()).any(|folder| folder.join(tool).exists())
}

#[test]
fn the_tutorial_does_what_it_says() {
    let network = network();
    let text = include_str!("../../../../docs/guide/tutorial.md");
    let mut shell = Shell::start(&network);
    run(&mut shell, "tutorial.md", &steps(text), &network);
}

#[test]
fn the_readme_does_what_it_says() {
    let network = network();
    let text = include_str!("../../../../README.md");
    let all = steps(text);
    assert!(all.len() >= 8, "the page has lost its commands");
    let mut shell = Shell::start(&network);
    let dev = format!("atoll dev --http {network}1:8080 --resp {network}1:6380 --peer {network}1:7480 > dev.out &");
    shell.run(&dev);
    shell.run("until grep -q 'kv get' dev.out; do sleep 0.1; done");
    run(&mut shell, "README.md", &all, &network);
}

#[test]
fn pages_are_read_as_they_are_meant() {
    let text = "Text\n\n```console\n$ one \\\n    two\nout 12\n…\nlast\n$ three\n```\n\n```\n$ not run\n```\n";
    let steps = steps(text);
    assert_eq!(steps.len(), 2);
    assert_eq!((&*steps[0].command, &*steps[0].output), ("one \\\n    two", "out 12\n…\nlast\n"));
    assert_eq!((&*steps[1].command, &*steps[1].output, steps[1].line), ("three", "", 9));
    assert!(page::is_like("out 7\nmore\nand more\nlast \n", &steps[0].output));
    assert!(page::is_like("out 7\nlast", &steps[0].output), "nothing may be left out, too");
    assert!(!page::is_like("out 7\nmore", &steps[0].output));
    assert!(!page::is_like("out seven\nlast", &steps[0].output));
    assert!(page::is_like("a  0123456789abcdef", "a  fedcba9876543210"), "ids differ from cluster to cluster");
    assert!(page::is_like("anything", ""), "a page need not show everything");
}
