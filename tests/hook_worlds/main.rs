//! Prints the worlds of the hook rules for `checks/hook_rules.py`, one a line, so that answers can be made in advance for
//! a machine without Python: `hook-worlds v2 | python3 checks/hook_rules.py`.

use std::io::{BufWriter, Write as _};
use std::process::ExitCode;

use kit::hook_worlds::{pods, worlds};

fn main() -> ExitCode {
    let Some(cgroup) = std::env::args().nth(1).filter(|cgroup| ["v1", "v2"].contains(&cgroup.as_str()))
    else {
        drop(writeln!(std::io::stderr(), "usage: hook-worlds v1|v2"));
        return ExitCode::from(2);
    };
    let pods = pods();
    let mut out = BufWriter::new(std::io::stdout().lock());
    let written = worlds().iter().try_for_each(|world| writeln!(out, "{}", world.for_oracle(&cgroup, &pods)));
    if written.and_then(|()| out.flush()).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
