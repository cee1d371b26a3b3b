//! Rules of places: what may stand in few files only.

use super::sources::{Finding, Source, Sources};

/// Ways to change the file system. A socket or file of the agent's own is no change of the host.
const WRITING: &[&str] = &[
    ".write(true)",
    ".append(true)",
    ".create(true)",
    ".create_new(true)",
    "fs::write",
    "File::create",
    "fs::create_dir",
    "fs::remove_",
    "fs::rename",
    "O_WRONLY",
    "O_RDWR",
    "OFlag::O_CREAT",
];

/// Rooms and files of the agent that may: the executor writes to the host, the others own what they write.
const MAY_WRITE: &[(&str, &str)] = &[
    ("koordlet/src/executor/", "the host"),
    ("koordlet/src/report/admin", "the agent's own socket"),
    ("koordlet/src/report/audit/", "the agent's own audit log"),
    ("koordlet/src/report/checkpoints.rs", "the agent's own checkpoints of prediction"),
    ("koordlet/src/agent", "the agent's own run directory"),
    ("koordlet/src/host/probe_group.rs", "an empty group of doctor's own, removed at once"),
    ("koordlet/src/cli/restore.rs", "the ledger, through the executor"),
];

/// Files that may hold unsafe code.
const MAY_BE_UNSAFE: &[&str] = &["koordlet/src/sys.rs", "koordlet/src/sys/", "koordlet-ebpf/src/"];

/// The crate whose one-line `Pod` impls are unsafe.
const POD_IMPLS: &str = "koordlet-common/src/";

/// Rooms that must not ask which version of cgroups runs.
const VERSION_BLIND: &[&str] = &["claims", "executor", "rules", "state", "strategies"];

/// Only the executor writes to the host.
pub(super) fn writes(sources: &Sources) -> Vec<Finding> {
    let agent = sources.files.iter().filter(|source| source.room().is_some());
    let rest = agent.filter(|source| !MAY_WRITE.iter().any(|(place, _)| source.path.starts_with(place)));
    find(rest, |code| {
        WRITING
            .iter()
            .find(|word| code.contains(**word))
            .map(|word| format!("{word} outside of the executor"))
    })
}

/// `unsafe` stands only where it may.
pub(super) fn unsafe_code(sources: &Sources) -> Vec<Finding> {
    let rest = sources
        .files
        .iter()
        .filter(|source| !MAY_BE_UNSAFE.iter().any(|place| source.path.starts_with(place)));
    rest.flat_map(|source| {
        let pods = source.path.starts_with(POD_IMPLS);
        let lines = source.code().filter(move |(_, code)| {
            has_word(code, "unsafe")
                && !(pods && code.trim_start().starts_with("unsafe impl") && code.contains("Pod for"))
        });
        lines.map(|(line, _)| source.finding(line, "unsafe code outside of its places"))
    })
    .collect()
}

/// Decisions and the executor do not know cgroup v1 from v2.
pub(super) fn cgroup_versions(sources: &Sources) -> Vec<Finding> {
    let blind =
        sources.files.iter().filter(|source| source.room().is_some_and(|room| VERSION_BLIND.contains(&room)));
    find(blind, |code| {
        let word = ["CgroupVersion", "is_v2", "is_v1", "Version::V1", "Version::V2"]
            .into_iter()
            .find(|word| code.contains(word))?;
        Some(format!("{word}: only the cgroup room knows versions"))
    })
}

fn find<'a>(files: impl Iterator<Item = &'a Source>, look: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
    files
        .flat_map(|source| {
            let hits: Vec<Finding> =
                source.code().filter_map(|(line, code)| Some(source.finding(line, look(code)?))).collect();
            hits
        })
        .collect()
}

/// Whether `code` has `word` as a word of its own, outside of an attribute or a text.
fn has_word(code: &str, word: &str) -> bool {
    let code = code.split('"').step_by(2).collect::<Vec<_>>().join("\"");
    if code.trim_start().starts_with('#') {
        return false;
    }
    code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|each| each == word)
}

#[cfg(test)]
mod tests {
    use super::super::sources::sources;
    use super::*;

    #[test]
    fn unsafe_outside_of_its_places_is_found() {
        assert_eq!(unsafe_code(&sources("koordlet/src/node/a.rs", "unsafe { f() }")).len(), 1);
        assert!(unsafe_code(&sources("koordlet/src/sys.rs", "unsafe { f() }")).is_empty());
        assert!(unsafe_code(&sources("koordlet/src/a.rs", "#![forbid(unsafe_code)]")).is_empty());
        let pod = "unsafe impl aya::Pod for Slot {}";
        assert!(unsafe_code(&sources("koordlet-common/src/a.rs", pod)).is_empty());
        assert_eq!(unsafe_code(&sources("koordlet/src/a.rs", pod)).len(), 1);
    }

    #[test]
    fn a_write_outside_of_the_executor_is_found() {
        let text = "OpenOptions::new().write(true).open(path)";
        assert_eq!(writes(&sources("koordlet/src/node/a.rs", text)).len(), 1);
        assert!(writes(&sources("koordlet/src/executor/write.rs", text)).is_empty());
        assert!(writes(&sources("xtask/src/a.rs", text)).is_empty());
    }

    #[test]
    fn a_version_in_a_decision_is_found() {
        assert_eq!(cgroup_versions(&sources("koordlet/src/rules/a.rs", "if layout.is_v2() {")).len(), 1);
        assert!(cgroup_versions(&sources("koordlet/src/cgroup/a.rs", "if layout.is_v2() {")).is_empty());
    }
}
