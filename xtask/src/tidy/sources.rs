//! The project's sources as the rules see them.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

/// The folders that hold Rust code.
const CODE: [&str; 5] = ["koordlet", "koordlet-common", "koordlet-ebpf", "tests", "xtask"];

/// All sources, and the names at the top level.
pub(crate) struct Sources {
    /// Rust files.
    pub(crate) files: Vec<Source>,
    /// `Cargo.toml` of each crate: path and text.
    pub(crate) manifests: Vec<(String, String)>,
    /// Names at the top level.
    pub(crate) top: Vec<String>,
    /// Text of the README.
    pub(crate) readme: String,
}

/// One Rust file.
pub(crate) struct Source {
    /// Path from the project's folder, with `/`.
    pub(crate) path: String,
    /// Its text.
    pub(crate) text: String,
}

/// A line that breaks a rule.
pub(crate) struct Finding {
    place: String,
    what: String,
}

impl Finding {
    /// A finding in a place (`path` or `path:line`).
    pub(crate) fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { place: place.into(), what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

impl Source {
    /// The room of the agent's library that the file is in: a folder of `koordlet/src`, or a file of it.
    pub(crate) fn room(&self) -> Option<&str> {
        let inside = self.path.strip_prefix("koordlet/src/")?;
        let first = inside.split('/').next()?;
        (first != "bin").then(|| first.strip_suffix(".rs").unwrap_or(first))
    }

    /// Lines of code outside of the file's own tests, with their numbers; comments are cut off.
    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let own_tests = ["/tests.rs", "/testing.rs"].iter().any(|name| self.path.ends_with(name));
        let lines =
            self.text.lines().enumerate().take_while(move |(_, line)| !own_tests && *line != "#[cfg(test)]");
        lines
            .map(|(index, line)| (index + 1, without_comment(line)))
            .filter(|(_, line)| !line.trim().is_empty())
    }

    /// A finding in a line of this file.
    pub(crate) fn finding(&self, line: usize, what: impl Into<String>) -> Finding {
        Finding::new(format!("{}:{line}", self.path), what)
    }
}

impl Sources {
    /// Reads all of them.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut files = Vec::new();
        let mut manifests = Vec::new();
        for folder in CODE {
            collect(root, folder, &mut files)?;
            let manifest = format!("{folder}/Cargo.toml");
            if root.join(&manifest).exists() {
                manifests.push((manifest.clone(), read(&root.join(&manifest))?));
            }
        }
        let entries = fs::read_dir(root)?.flatten();
        let top = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        Ok(Self { files, manifests, top, readme: read(&root.join("README.md"))? })
    }
}

fn collect(root: &Path, folder: &str, files: &mut Vec<Source>) -> Result<()> {
    let Ok(entries) = fs::read_dir(root.join(folder)) else { return Ok(()) };
    for entry in entries {
        let entry = entry?;
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            if entry.file_name() != "target" {
                collect(root, &path, files)?;
            }
        } else if entry.path().extension().is_some_and(|extension| extension == "rs") {
            files.push(Source { text: read(&entry.path())?, path });
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

/// The line up to a `//`, unless that is in a text such as a URL.
fn without_comment(line: &str) -> &str {
    line.match_indices("//").find(|(at, _)| !line[..*at].ends_with(':')).map_or(line, |(at, _)| &line[..at])
}

/// A project of one file, for tests of the rules.
#[cfg(test)]
pub(super) fn sources(path: &str, text: &str) -> Sources {
    let files = vec![Source { path: path.into(), text: text.into() }];
    Sources { files, manifests: vec![], top: vec![], readme: String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_without_comments_and_own_tests() {
        let text = "//! Head\nuse a; // why\n/// Doc\nlet url = \"unix://x\";\n#[cfg(test)]\nmod tests {}\n";
        let source = Source { path: "koordlet/src/rules/a.rs".into(), text: text.into() };
        assert_eq!(source.code().collect::<Vec<_>>(), [(2, "use a; "), (4, "let url = \"unix://x\";")]);
        assert_eq!(source.room(), Some("rules"));
    }

    #[test]
    fn a_file_beside_the_rooms_is_its_own_room() {
        let source = |path: &str| Source { path: path.into(), text: String::new() };
        assert_eq!(source("koordlet/src/units.rs").room(), Some("units"));
        assert_eq!(source("koordlet/src/bin/koordlet.rs").room(), None);
        assert_eq!(source("xtask/src/main.rs").room(), None);
    }
}
