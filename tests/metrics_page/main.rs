//! Prints the reference page of all metrics, for `cargo xtask metrics`.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(koordlet::report::metrics::markdown().as_bytes())
}
