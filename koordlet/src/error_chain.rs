//! An error and its causes in one line, for whoever decides what to do about it. Messages say what their layer
//! tried and never repeat the cause.

use std::error::Error;

/// `what was tried: why it failed: why that failed`. A cause that its error repeats is left out.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.ends_with(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        cause = error.source();
    }
    text
}
