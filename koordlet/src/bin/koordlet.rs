//! The agent binary: parse, run one verb, exit code (0 done, 1 failed, 2 usage); nothing else.

use std::io::{self, Write};
use std::process::ExitCode;

use koordlet::cli::carry_out;
use koordlet::config::resolve::{Environment, Usage, resolve};

/// Exit code for a command line that cannot be used.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let args: Vec<String> =
        std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    match resolve(&args, &Environment::of_process()) {
        Ok(invocation) => carry_out(invocation).unwrap_or_else(|error| {
            say(&mut io::stderr(), &format!("koordlet: {error:#}"));
            ExitCode::FAILURE
        }),
        Err(Usage::Answer(text)) => {
            say(&mut io::stdout(), text.trim_end());
            ExitCode::SUCCESS
        }
        Err(Usage::Mistakes(mistakes)) => {
            for mistake in mistakes {
                say(&mut io::stderr(), &format!("koordlet: {mistake}"));
            }
            say(&mut io::stderr(), "koordlet: see koordlet --help");
            ExitCode::from(USAGE)
        }
    }
}

/// Prints a line. Where nobody can hear it, the exit code still tells.
fn say(out: &mut impl Write, line: &str) {
    drop(writeln!(out, "{line}"));
}
