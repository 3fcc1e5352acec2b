//! Catches a panic of the core and keeps it from the terminal: a run that breaks an assertion reports it as a
//! violation.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static CATCHING: Cell<bool> = const { Cell::new(false) };
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

static HOOK: Once = Once::new();

/// What `work` returns, or what it said and where when it panicked.
pub(crate) fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    // Panics of other threads, and of this one outside a run, still go where they went before.
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if CATCHING.with(Cell::get) {
                SAID.with(|said| *said.borrow_mut() = info.to_string());
            } else {
                before(info);
            }
        }));
    });
    CATCHING.with(|catching| catching.set(true));
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    CATCHING.with(|catching| catching.set(false));
    result.map_err(|_| SAID.with(|said| said.take()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_panic_is_caught_with_its_words() {
        let said = super::catch(|| assert_eq!(1 + 1, 3, "no sum")).expect_err("it panics");
        assert!(said.contains("no sum"), "{said}");
        assert_eq!(super::catch(|| 7), Ok(7));
    }
}
