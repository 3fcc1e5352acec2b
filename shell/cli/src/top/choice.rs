//! What whoever looks has chosen to see.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    #[default]
    Writes,
    Keys,
    Bucket,
    Primary,
    State,
}

impl Sort {
    pub(super) fn label(self) -> &'static str {
        match self {
            Sort::Writes => "writes",
            Sort::Keys => "keys",
            Sort::Bucket => "bucket",
            Sort::Primary => "primary",
            Sort::State => "state",
        }
    }

    fn next(self) -> Sort {
        match self {
            Sort::Writes => Sort::Keys,
            Sort::Keys => Sort::Bucket,
            Sort::Bucket => Sort::Primary,
            Sort::Primary => Sort::State,
            Sort::State => Sort::Writes,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    GoOn,
    Quit,
}

#[derive(Debug, Default)]
pub(super) struct Choice {
    pub(super) sort: Sort,
    pub(super) filter: String,
    /// Keys go to the filter.
    pub(super) typing: bool,
    pub(super) paused: bool,
    /// The first bucket that is shown. The screen keeps it within what there is.
    pub(super) scroll: usize,
}

impl Choice {
    // The keys are not of our making, and most of them mean nothing here.
    #[allow(clippy::wildcard_enum_match_arm)]
    pub(super) fn on_key(&mut self, key: KeyEvent) -> Next {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Next::Quit;
        }
        if self.typing {
            self.type_key(key.code);
            return Next::GoOn;
        }
        match key.code {
            KeyCode::Char('q') => return Next::Quit,
            KeyCode::Char('s') => (self.sort, self.scroll) = (self.sort.next(), 0),
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Down | KeyCode::Char('j') => self.scroll += 1,
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::PageDown => self.scroll += 10,
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::Home => self.scroll = 0,
            _ => {}
        }
        Next::GoOn
    }

    #[allow(clippy::wildcard_enum_match_arm)]
    fn type_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => (self.typing, self.filter) = (false, String::new()),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(typed) => self.filter.push(typed),
            _ => {}
        }
        self.scroll = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(choice: &mut Choice, keys: &str) -> Next {
        keys.chars().map(|key| choice.on_key(KeyEvent::from(KeyCode::Char(key)))).last().unwrap_or(Next::GoOn)
    }

    #[test]
    fn what_is_typed_into_the_filter_is_no_command() {
        let mut choice = Choice::default();
        assert_eq!(press(&mut choice, "/qs"), Next::GoOn);
        assert_eq!((choice.filter.as_str(), choice.sort), ("qs", Sort::Writes));
        choice.on_key(KeyEvent::from(KeyCode::Enter));
        assert_eq!(press(&mut choice, "s"), Next::GoOn);
        assert_eq!((choice.filter.as_str(), choice.sort), ("qs", Sort::Keys));
        assert_eq!(press(&mut choice, "q"), Next::Quit);
    }

    #[test]
    fn every_order_comes_round() {
        let mut choice = Choice::default();
        let seen: Vec<&str> = (0..5).map(|_| (choice.sort.label(), press(&mut choice, "s")).0).collect();
        assert_eq!(seen, ["writes", "keys", "bucket", "primary", "state"]);
        assert_eq!(choice.sort, Sort::Writes);
    }
}
