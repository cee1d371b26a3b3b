//! What keeps an input from being seen, in words, for whoever asks why the agent is not ready. It informs and
//! gates nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// One line an input, while its trouble lasts. Clones share it; inputs are names in the code, so it is bounded.
#[derive(Clone, Debug, Default)]
pub struct Troubles(Arc<Mutex<BTreeMap<&'static str, String>>>);

impl Troubles {
    /// Says what is wrong with `input` now; `None` if nothing is.
    pub fn set(&self, input: &'static str, trouble: Option<String>) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match trouble {
            Some(trouble) => held.insert(input, trouble),
            None => held.remove(input),
        };
    }

    /// All that hold, by the name of the input.
    pub fn lines(&self) -> Vec<String> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.iter().map(|(input, trouble)| format!("{input}: {trouble}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_is_shown_until_it_is_over() {
        let troubles = Troubles::default();
        let shared = troubles.clone();
        troubles.set("usage", Some("cannot read /proc/stat".to_owned()));
        troubles.set("kubepods", Some("not there".to_owned()));
        assert_eq!(shared.lines(), ["kubepods: not there", "usage: cannot read /proc/stat"]);
        shared.set("usage", None);
        assert_eq!(troubles.lines(), ["kubepods: not there"]);
    }
}
