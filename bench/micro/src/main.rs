//! What the core costs, without any IO: `cargo run --release -p atoll-micro [NAME [COUNT]]`.
//!
//! | File | What |
//! |---|---|
//! | `operations.rs` | the operations whose instructions `cargo xtask micro` counts and compares with `baseline.txt` |
//! | `large.rs` | larger parts, by the clock |
//! | `rig.rs` | nodes in one thread |
//!
//! Built like the binary `atoll`: its allocator, no planted bugs. docs/performance.md has the figures.

mod large;
mod operations;
mod rig;

use std::time::Instant;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |name: &str| words.first().is_none_or(|wanted| wanted == name);
    if words.first().is_some_and(|word| word == "list") {
        return operations::ALL.iter().for_each(|operation| println!("{}", operation.name));
    }
    let count = words.get(1).and_then(|word| word.parse::<u64>().ok());
    for operation in operations::ALL.iter().filter(|operation| wanted(operation.name)) {
        let count = count.unwrap_or(operation.by_the_clock);
        let mut prepared = (operation.prepare)();
        let began = Instant::now();
        let note = prepared(count);
        let each = began.elapsed().as_secs_f64() * 1e9 / count.max(1) as f64;
        println!("{:<14} {:>9.0} a second, {each:>7.0} ns each{note}", operation.name, 1e9 / each.max(0.001));
    }
    let parts: [(&str, fn()); 3] =
        [("usurp", large::usurp), ("memory", large::memory), ("move", large::move_a_large_bucket)];
    parts.iter().filter(|(name, _)| wanted(name)).for_each(|(_, part)| part());
}
