//! Go's flag syntax made digestible for clap: long flags take one or two dashes, a value may follow as the
//! next argument whatever it looks like, a boolean takes its value after `=` only. Unknown flags and missing
//! values are collected here, so that they are reported together with every other mistake.

use clap::Command;

/// Arguments ready for clap, and what was wrong with the ones left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Normalised {
    /// The verb first, each flag with its value in one argument.
    pub args: Vec<String>,
    /// One line a mistake.
    pub mistakes: Vec<String>,
}

enum Arity {
    Switch,
    Value,
    Unknown,
}

/// Normalises the arguments after the program's name. Without a verb it is `run`.
pub fn normalise(args: &[String], command: &Command) -> Normalised {
    let mut out = Normalised::default();
    let mut rest = args.iter();
    let verb = match args.first().map(String::as_str) {
        Some("-h" | "-help" | "--help" | "help" | "-V" | "-version" | "--version") => {
            out.args = args.iter().map(|arg| two_dashes(arg)).collect();
            return out;
        }
        Some(first) if !first.starts_with('-') => {
            rest.next();
            first
        }
        _ => "run",
    };
    out.args.push(verb.to_owned());
    let Some(verb) = command.find_subcommand(verb) else {
        let known: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
        out.mistakes.push(format!("there is no verb {verb:?}; known are {}", known.join(", ")));
        return out;
    };
    while let Some(arg) = rest.next() {
        if arg == "--" {
            out.args.push(arg.clone());
            out.args.extend(rest.cloned());
            break;
        }
        let Some(name) = flag_name(arg) else {
            out.args.push(arg.clone());
            continue;
        };
        let arg = two_dashes(arg);
        match arity(verb, name) {
            Arity::Unknown => out.mistakes.push(format!("there is no flag {}", shown(name))),
            Arity::Value if !arg.contains('=') => match rest.next() {
                Some(value) => out.args.push(format!("{arg}={value}")),
                None => out.mistakes.push(format!("{} needs a value", shown(name))),
            },
            Arity::Switch | Arity::Value => out.args.push(arg),
        }
    }
    out
}

/// The name in `-name`, `--name`, `-name=value`; `None` for anything else (a lone dash, a number).
fn flag_name(arg: &str) -> Option<&str> {
    let bare = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-'))?;
    let name = bare.split('=').next()?;
    name.starts_with(|c: char| c.is_ascii_alphabetic()).then_some(name)
}

/// Gives a long flag its second dash; one-letter flags stay as they are.
fn two_dashes(arg: &str) -> String {
    match flag_name(arg) {
        Some(name) if name.len() > 1 && !arg.starts_with("--") => format!("-{arg}"),
        _ => arg.to_owned(),
    }
}

/// A flag as its user would type it.
fn shown(name: &str) -> String {
    if name.len() == 1 { format!("-{name}") } else { format!("--{name}") }
}

fn arity(verb: &Command, name: &str) -> Arity {
    if matches!(name, "h" | "help") {
        return Arity::Switch;
    }
    let short = |arg: &clap::Arg| arg.get_short().is_some_and(|c| name.len() == 1 && name.starts_with(c));
    let arg = verb.get_arguments().find(|arg| arg.get_long() == Some(name) || short(arg));
    match arg {
        None => Arity::Unknown,
        Some(arg) if arg.get_num_args().is_some_and(|range| range.min_values() == 0) => Arity::Switch,
        Some(_) => Arity::Value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::flags::command;

    fn normal(args: &[&str]) -> Normalised {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let mut command = command();
        command.build();
        normalise(&args, &command)
    }

    #[test]
    fn one_dash_and_two_mean_the_same() {
        let wanted = ["run", "--addr=:1", "--dry-run", "--enable-pprof=false"];
        for args in [
            vec!["-addr=:1", "-dry-run", "-enable-pprof=false"],
            vec!["--addr", ":1", "--dry-run", "--enable-pprof=false"],
            vec!["run", "-addr", ":1", "--dry-run", "-enable-pprof=false"],
        ] {
            assert_eq!(normal(&args), Normalised { args: wanted.map(String::from).into(), mistakes: vec![] });
        }
        assert_eq!(normal(&["explain", "-o", "json", "a/b"]).args, ["explain", "-o=json", "a/b"]);
        assert_eq!(normal(&["-v=4"]).args, ["run", "-v=4"]);
        assert_eq!(normal(&["--v", "4"]).args, ["run", "--v=4"]);
        assert_eq!(normal(&["-help"]).args, ["--help"]);
    }

    #[test]
    fn a_value_may_begin_with_a_dash() {
        assert_eq!(normal(&["--docker-endpoint", "-x"]).args, ["run", "--docker-endpoint=-x"]);
    }

    #[test]
    fn all_unknown_flags_and_missing_values_are_named() {
        let mistakes = normal(&["--nope", "-also-nope=1", "--addr"]).mistakes;
        assert_eq!(
            mistakes,
            ["there is no flag --nope", "there is no flag --also-nope", "--addr needs a value"]
        );
        assert_eq!(normal(&["doctor", "-o"]).mistakes, ["-o needs a value"]);
        assert_eq!(normal(&["-x"]).mistakes, ["there is no flag -x"]);
        assert!(normal(&["frobnicate"]).mistakes[0].contains("doctor"));
    }
}
