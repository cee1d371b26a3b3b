//! Counts tests from what libtest prints, over all test programs of a run.

use std::fmt;

/// What a test prints when this machine lacks what it needs.
const SKIP_MARK: &str = "SKIPPED: ";

/// What happened to how many tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Ran and held.
    pub(crate) passed: usize,
    /// Ran and did not hold, or whose program crashed.
    pub(crate) failed: usize,
    /// Said that this machine lacks what they need, or are ignored.
    pub(crate) skipped: usize,
    /// Names of the failed ones.
    pub(crate) failures: Vec<String>,
}

impl Counts {
    /// Adds the result of one test program. One that failed without counting a failure has crashed.
    pub(crate) fn add(&mut self, program: &str, output: Output, succeeded: bool) {
        let Output { passed, failed, ignored, skips, failures, in_failures: _ } = output;
        // libtest counts a test that skipped itself as passed.
        let skips = skips.min(passed);
        self.passed += passed - skips;
        self.failed += failed;
        self.skipped += ignored + skips;
        self.failures.extend(failures.into_iter().map(|name| format!("{program}: {name}")));
        if !succeeded && failed == 0 {
            self.failed += 1;
            self.failures.push(format!("{program}: ended without a result"));
        }
    }

    /// Adds one check that is no libtest test.
    pub(crate) fn add_check(&mut self, name: &str, held: bool) {
        if held {
            self.passed += 1;
        } else {
            self.failed += 1;
            self.failures.push(name.to_owned());
        }
    }

    /// Whether something ran and nothing failed.
    pub(crate) fn is_success(&self) -> bool {
        self.failed == 0 && self.passed > 0
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tests: {} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// The figures of one test program's output, line by line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Output {
    passed: usize,
    failed: usize,
    ignored: usize,
    skips: usize,
    failures: Vec<String>,
    in_failures: bool,
}

impl Output {
    /// Takes one line.
    pub(crate) fn line(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            self.passed += figure(result, "passed");
            self.failed += figure(result, "failed");
            self.ignored += figure(result, "ignored");
        } else if line.contains(SKIP_MARK) {
            self.skips += 1;
        } else if line == "failures:" {
            self.in_failures = true;
        } else if self.in_failures {
            let name = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" ----"));
            self.failures.extend(name.map(|name| name.trim_end_matches(" stdout").to_owned()));
        }
    }
}

/// The number before `word` in `ok. 3 passed; 0 failed; ...`.
fn figure(result: &str, word: &str) -> usize {
    let words: Vec<&str> = result.split([' ', ';']).collect();
    let pair = words.windows(2).find(|pair| pair.get(1) == Some(&word));
    pair.and_then(|pair| pair.first()).and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(text: &str, succeeded: bool) -> Counts {
        let mut output = Output::default();
        text.lines().for_each(|line| output.line(line));
        let mut counts = Counts::default();
        counts.add("program", output, succeeded);
        counts
    }

    #[test]
    fn a_test_that_skips_itself_is_not_passed() {
        let text = "test a ... \nSKIPPED: needs root\nok\ntest b ... ok\n\n\
                    test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0s";
        assert_eq!(counted(text, true).to_string(), "tests: 1 passed, 0 failed, 2 skipped");
    }

    #[test]
    fn failures_are_named() {
        let text = "test a ... FAILED\n\nsuccesses:\n\n---- b stdout ----\nfine\n\nfailures:\n\n\
                    ---- room::a stdout ----\nthread panicked\n\n\
                    test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured";
        let counts = counted(text, false);
        assert_eq!(counts.failures, ["program: room::a"]);
        assert!(!counts.is_success());
    }

    #[test]
    fn a_crash_is_a_failure_and_no_test_is_no_success() {
        assert_eq!(counted("running 3 tests\n", false).failed, 1);
        let none = counted("test result: ok. 0 passed; 0 failed; 0 ignored", true);
        assert!(!none.is_success());
    }
}
