//! Rules of the rooms: who may import whom, and who may look at files or the clock.

use super::sources::{Finding, Source, Sources};

/// Rooms that everybody may use.
const FOOT: &[&str] = &["api", "cgroup", "cpuset", "error_chain", "host", "resctrl", "sys", "units"];

/// What each room may import beside itself and the foot. `state` is the vocabulary of facts: sources fill it
/// (it takes the messages of two), decisions read it. So no decision sees a source or the executor, `claims` sees no decision, the
/// executor sees plans and births but neither facts nor decisions, and a source sees nothing that comes after `state`.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("ebpf", &["config", "node", "state"]),
    ("node", &["ebpf", "state"]),
    ("manifests", &["state"]),
    ("kube", &["config", "ebpf", "state"]),
    ("state", &["ebpf", "manifests"]),
    ("rules", &["claims", "state"]),
    ("strategies", &["claims", "state"]),
    ("claims", &["state"]),
    ("executor", &["claims", "ebpf"]),
    ("config", &[]),
    ("report", &["claims", "config", "ebpf", "executor", "kube", "node", "state"]),
];

/// Rooms that see everything: they wire the others together.
const WIRING: &[&str] = &["agent", "cli", "lib"];

/// Rooms whose results depend on nothing but their arguments.
const PURE: &[&str] = &["claims", "rules", "state", "strategies"];

/// What a pure room must not mention, and why.
const IMPURE: &[(&str, &str)] = &[
    ("std::fs", "files"),
    ("fs::read", "files"),
    ("File::open", "files"),
    ("std::net", "sockets"),
    ("std::env", "the environment"),
    ("Instant::now", "the clock"),
    ("SystemTime::now", "the clock"),
    ("Timestamp::now", "the clock"),
    ("thread::sleep", "the clock"),
    ("tokio::time", "the clock"),
    ("std::process", "processes"),
];

/// No room imports one that is not listed for it.
pub(super) fn imports(sources: &Sources) -> Vec<Finding> {
    sources.files.iter().flat_map(imports_of).collect()
}

fn imports_of(source: &Source) -> Vec<Finding> {
    let Some(room) = source.room().filter(|room| !WIRING.contains(room)) else { return Vec::new() };
    let listed = MAY_IMPORT.iter().find(|(name, _)| *name == room).map(|(_, rooms)| *rooms);
    let Some(listed) = listed.or(FOOT.contains(&room).then_some(&[])) else {
        return vec![source.finding(1, format!("room {room} is not in the table of who may import whom"))];
    };
    let foreign = |name: &&str| *name != room && !FOOT.contains(name) && !listed.contains(name);
    source
        .code()
        .flat_map(|(line, code)| {
            rooms_in(code).into_iter().filter(foreign).map(move |name| (line, name)).collect::<Vec<_>>()
        })
        .map(|(line, name)| source.finding(line, format!("room {room} must not import {name}")))
        .collect()
}

/// The rooms that a line names as `crate::room`.
fn rooms_in(code: &str) -> Vec<&str> {
    let after = code.split("crate::").skip(1);
    let names =
        after.map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default());
    names.filter(|name| name.chars().next().is_some_and(char::is_lowercase)).collect()
}

/// Decisions and state have no effects and no clock.
pub(super) fn purity(sources: &Sources) -> Vec<Finding> {
    let pure = sources.files.iter().filter(|source| source.room().is_some_and(|room| PURE.contains(&room)));
    pure.flat_map(|source| {
        source.code().flat_map(move |(line, code)| {
            let hits = IMPURE.iter().filter(move |(word, _)| code.contains(word));
            hits.map(move |(word, what)| source.finding(line, format!("{word}: {what} in a pure room")))
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::sources::sources;
    use super::*;

    #[test]
    fn an_import_upwards_is_found() {
        assert_eq!(imports(&sources("koordlet/src/claims/a.rs", "use crate::executor::Writer;")).len(), 1);
        assert_eq!(imports(&sources("koordlet/src/executor/a.rs", "use crate::state::slo::Slo;")).len(), 1);
        assert_eq!(imports(&sources("koordlet/src/state/a.rs", "fn f(x: crate::rules::R) {}")).len(), 1);
        assert_eq!(imports(&sources("koordlet/src/units.rs", "use crate::state::S;")).len(), 1);
        assert!(imports(&sources("koordlet/src/rules/a.rs", "use crate::claims::claim::Claim;")).is_empty());
        assert!(imports(&sources("koordlet/src/agent.rs", "use crate::executor::Executor;")).is_empty());
    }

    #[test]
    fn a_new_room_must_say_whom_it_imports() {
        assert_eq!(imports(&sources("koordlet/src/extra/mod.rs", "")).len(), 1);
    }

    #[test]
    fn a_clock_in_a_pure_room_is_found_but_not_in_its_tests() {
        assert_eq!(purity(&sources("koordlet/src/rules/a.rs", "let t = Instant::now();")).len(), 1);
        assert!(
            purity(&sources("koordlet/src/rules/a.rs", "#[cfg(test)]\nlet t = Instant::now();")).is_empty()
        );
        assert!(purity(&sources("koordlet/src/node/a.rs", "let t = Instant::now();")).is_empty());
    }
}
