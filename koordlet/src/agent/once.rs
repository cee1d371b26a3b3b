//! Says each thing once while it lasts: a condition that is still there on the next tick is no news.

use std::collections::BTreeSet;

/// The lines of one source that were said and still hold.
#[derive(Debug, Default)]
pub(super) struct Once(BTreeSet<String>);

impl Once {
    /// Takes the lines that hold now and returns those that did not hold before.
    pub(super) fn news(&mut self, lines: impl IntoIterator<Item = String>) -> Vec<String> {
        let now: BTreeSet<String> = lines.into_iter().collect();
        let news = now.difference(&self.0).cloned().collect();
        self.0 = now;
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_said_again_only_after_it_was_gone() {
        let mut once = Once::default();
        let mut say = |line: Option<&str>| once.news(line.map(str::to_owned)).len();
        assert_eq!([say(Some("a")), say(Some("a")), say(None), say(Some("a"))], [1, 0, 0, 1]);
    }
}
