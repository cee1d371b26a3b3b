//! One file a verb.

use std::io::{self, Write as _};

pub mod doctor;
pub mod explain;
pub mod inspect;
pub mod restore;
pub mod run;

/// Writes a verb's answer to stdout. A reader that has gone (`| head`) is an error like any other, not a panic.
fn answer(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()
}
