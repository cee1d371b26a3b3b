//! What is wrong with the flags as typed, all of it at once.

use std::fmt;

use super::gates::parse_bool;

/// Mistakes so far; each parser adds its own and yields `None`.
pub(super) struct Mistakes(pub(super) Vec<String>);

impl Mistakes {
    pub(super) fn add(&mut self, flag: &str, what: impl fmt::Display) {
        self.0.push(format!("--{flag}: {what}"));
    }

    pub(super) fn take<T, E: fmt::Display>(&mut self, flag: &str, parsed: Result<T, E>) -> Option<T> {
        parsed.map_err(|error| self.add(flag, error)).ok()
    }

    pub(super) fn one_of<T: Copy>(&mut self, flag: &str, text: &str, choices: &[(&str, T)]) -> Option<T> {
        let found = choices.iter().find(|(name, _)| *name == text).map(|(_, choice)| *choice);
        if found.is_none() {
            let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
            self.add(flag, format_args!("{text:?} is not one of {}", names.join(", ")));
        }
        found
    }

    pub(super) fn boolean(&mut self, flag: &str, text: &str) -> Option<bool> {
        self.take(flag, parse_bool(text).ok_or_else(|| format!("{text:?} is not true or false")))
    }

    pub(super) fn whole_number(&mut self, flag: &str, text: &str) -> Option<i64> {
        self.take(flag, text.parse::<i64>().map_err(|_| format!("{text:?} is not a whole number")))
    }
}
