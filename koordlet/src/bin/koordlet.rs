//! The agent binary: parse, log, run one verb, exit code; nothing else.

fn main() {}
