//! Rules of shape: names, lengths, headers, what lies where.

use super::sources::{Finding, Sources};

/// A file that outgrows this holds more than one idea.
const MAX_LINES: usize = 420;

/// Names that say nothing of what is in a file.
const EMPTY_NAMES: [&str; 7] = ["utils", "util", "helpers", "helper", "common", "misc", "manager"];

/// What may lie at the top level, beside dot files and build output.
const TOP: [&str; 10] = [
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "deploy",
    "koordlet",
    "koordlet-common",
    "koordlet-ebpf",
    "tests",
    "xtask",
];

/// Lints are listed once; a crate that forgets to take them has none.
pub(super) fn workspace_lints(sources: &Sources) -> Vec<Finding> {
    let forgotten = sources.manifests.iter().filter(|(_, text)| {
        let mut lines = text.lines().skip_while(|line| line.trim() != "[lints]").skip(1);
        lines.next().is_none_or(|line| line.trim() != "workspace = true")
    });
    forgotten.map(|(path, _)| Finding::new(path, "no `[lints] workspace = true`")).collect()
}

/// Files stay short enough to hold one idea. Recorded tables in tests are data.
pub(super) fn file_length(sources: &Sources) -> Vec<Finding> {
    let long = sources.files.iter().filter_map(|source| {
        let lines = source.text.lines().count();
        (lines > MAX_LINES).then(|| Finding::new(&source.path, format!("{lines} lines, at most {MAX_LINES}")))
    });
    long.collect()
}

/// A file's name is its idea.
pub(super) fn file_names(sources: &Sources) -> Vec<Finding> {
    let empty = sources.files.iter().filter(|source| {
        source.path.split('/').any(|part| EMPTY_NAMES.contains(&part.strip_suffix(".rs").unwrap_or(part)))
    });
    empty.map(|source| Finding::new(&source.path, "a name that says nothing")).collect()
}

/// The first line says what the file is.
pub(super) fn file_headers(sources: &Sources) -> Vec<Finding> {
    // A file of tests says with its name whose tests they are.
    let named = sources.files.iter().filter(|source| !source.path.ends_with("/tests.rs"));
    let silent = named.filter(|source| !source.text.starts_with("//! "));
    let placeholder = |text: &str| text.starts_with("//! Placeholder");
    let silent = silent.chain(sources.files.iter().filter(|source| placeholder(&source.text)));
    silent.map(|source| Finding::new(&source.path, "no `//!` header that says what it is")).collect()
}

/// A test that cannot run says so at run time, where it is counted.
pub(super) fn ignored_tests(sources: &Sources) -> Vec<Finding> {
    let lines = sources.files.iter().flat_map(|source| {
        let hits =
            source.text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("#[ignore"));
        hits.map(|(index, _)| source.finding(index + 1, "an ignored test: announce a skip instead"))
    });
    lines.collect()
}

/// The top level is the table of contents.
pub(super) fn top_level(sources: &Sources) -> Vec<Finding> {
    let known = |name: &str| name.starts_with('.') || name == "target" || TOP.contains(&name);
    let extra = sources.top.iter().filter(|name| !known(name));
    extra.map(|name| Finding::new(name, "not among the top-level entries of the design")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sources::sources;
    use super::*;

    #[test]
    fn names_lengths_and_headers_are_checked() {
        assert_eq!(file_names(&sources("koordlet/src/utils.rs", "")).len(), 1);
        assert!(file_names(&sources("koordlet-common/src/lib.rs", "")).is_empty());
        assert_eq!(file_length(&sources("a.rs", &"x\n".repeat(MAX_LINES + 1))).len(), 1);
        assert_eq!(file_headers(&sources("a.rs", "use x;")).len(), 1);
        assert_eq!(file_headers(&sources("a.rs", "//! Placeholder.")).len(), 1);
        assert_eq!(ignored_tests(&sources("a.rs", "    #[ignore = \"slow\"]")).len(), 1);
    }

    #[test]
    fn a_crate_without_the_lints_and_a_stray_entry_are_found() {
        let mut all = sources("a.rs", "");
        all.manifests = vec![
            ("a/Cargo.toml".into(), "[lints]\nworkspace = true\n".into()),
            ("b/Cargo.toml".into(), "[package]\n".into()),
        ];
        all.top = vec![".ci".into(), "koordlet".into(), "notes.txt".into()];
        assert_eq!(workspace_lints(&all).len(), 1);
        assert_eq!(top_level(&all).len(), 1);
    }
}
