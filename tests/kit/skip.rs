//! Skipping a test where the machine lacks what it needs, visibly: `SKIPPED: reason` is what
//! `cargo xtask test` counts.

use std::fmt;
use std::io::Write as _;

/// Ends the test as skipped. Works in tests that return `()` or any `Result<(), E>`.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)*) => {{
        $crate::skip::announce(format_args!($($reason)*));
        return $crate::skip::Ending::skipped();
    }};
}

/// Ends the test as skipped unless `offer` is `Ok`; `Err` holds the reason.
#[macro_export]
macro_rules! need {
    ($offer:expr) => {
        if let Err(reason) = $offer {
            $crate::skip!("{reason}");
        }
    };
}

/// What a skipped test returns.
pub trait Ending {
    /// The value of a test that did not fail.
    fn skipped() -> Self;
}

impl Ending for () {
    fn skipped() -> Self {}
}

impl<E> Ending for Result<(), E> {
    fn skipped() -> Self {
        Ok(())
    }
}

/// Prints the line that the test runner counts, past libtest's capture, on a line of its own.
pub fn announce(reason: fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    // Nothing sensible can be done when stdout is closed.
    drop(writeln!(out, "\nSKIPPED: {reason}").and_then(|()| out.flush()));
}

/// Says on stderr that something beside the test's subject went wrong.
pub(crate) fn complain(what: fmt::Arguments<'_>) {
    // Nothing sensible can be done when stderr is closed.
    drop(writeln!(std::io::stderr(), "kit: {what}"));
}

/// Prints a figure that the test measured, past libtest's capture.
pub fn note(figure: fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    // Nothing sensible can be done when stdout is closed.
    drop(writeln!(out, "\n{figure}").and_then(|()| out.flush()));
}
