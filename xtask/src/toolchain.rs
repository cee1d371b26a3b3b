//! The compiler and linker of the eBPF programs: which versions go together, and which of them are here.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::command::{capture, find_program, foreign};
use crate::workspace::Workspace;

/// The linker's version that the programs are built and tested with.
pub(crate) const LINKER_VERSION: &str = "0.13.0";
/// The LLVM of the linker. It reads the compiler's bitcode, so the compiler's LLVM must not be newer.
pub(crate) const LLVM_MAJOR: u32 = 22;
/// Debian's own names for the compiler, its library's source, Cargo, and what the linker is built against.
pub(crate) const PACKAGES: [&str; 4] = ["rustc-web", "rust-web-src", "cargo-web", "llvm-22-dev"];

/// A compiler that can build the core library for the BPF target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Compiler {
    /// `rustup run nightly`, with the `rust-src` component.
    RustupNightly,
    /// The distribution's, with nightly features switched on.
    Distribution,
}

/// Compiler and linker.
#[derive(Clone, Debug)]
pub(crate) struct Toolchain {
    /// Which compiler.
    pub(crate) compiler: Compiler,
    /// Path of bpf-linker.
    pub(crate) linker: PathBuf,
}

impl Compiler {
    /// Those that are complete here, in the order of preference.
    pub(crate) fn find() -> Option<Self> {
        [Self::RustupNightly, Self::Distribution].into_iter().find(Self::is_usable)
    }

    /// A command for its cargo, free of the calling Cargo's settings.
    pub(crate) fn cargo(&self) -> Command {
        match self {
            Self::RustupNightly => {
                let mut command = foreign("rustup");
                command.args(["run", "nightly", "cargo"]);
                command
            }
            Self::Distribution => {
                let mut command = foreign("/usr/bin/cargo");
                command.env("RUSTC", "/usr/bin/rustc").env("RUSTC_BOOTSTRAP", "1");
                command
            }
        }
    }

    /// What to call it in messages.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::RustupNightly => "rustup's nightly",
            Self::Distribution => "Debian's rustc",
        }
    }

    /// `rustc -vV`.
    pub(crate) fn version(&self) -> Result<String> {
        capture(self.rustc().arg("-vV"))
    }

    fn rustc(&self) -> Command {
        match self {
            Self::RustupNightly => {
                let mut command = foreign("rustup");
                command.args(["run", "nightly", "rustc"]);
                command
            }
            Self::Distribution => foreign("/usr/bin/rustc"),
        }
    }

    /// It starts, has the core library's source, and its LLVM is one that the linker can read.
    fn is_usable(&self) -> bool {
        if *self == Self::Distribution && !Path::new("/usr/bin/cargo").exists() {
            return false;
        }
        let Ok(sysroot) = capture(self.rustc().args(["--print", "sysroot"])) else { return false };
        let source = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/core/Cargo.toml");
        let llvm = self.version().ok().as_deref().and_then(llvm_major);
        source.exists() && llvm.is_some_and(|major| major <= LLVM_MAJOR)
    }
}

/// The linker, as found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Linker {
    /// The right version.
    Right(PathBuf),
    /// Another version, which must not be used: it fails late and with a riddle.
    Wrong {
        /// Where it is.
        path: PathBuf,
        /// What it says of itself, or why it does not start.
        says: String,
    },
    /// None.
    Missing,
}

impl Linker {
    /// The project's own first, then PATH and Cargo's folder of installed programs.
    pub(crate) fn find(workspace: &Workspace) -> Self {
        let own = own_tools(workspace).join("bin/bpf-linker");
        let installed = cargo_home().map(|home| home.join("bin/bpf-linker"));
        Self::among([Some(own), find_program("bpf-linker"), installed].into_iter().flatten())
    }

    /// The first of the right version, else the last wrong one.
    fn among(places: impl Iterator<Item = PathBuf>) -> Self {
        let mut wrong = Self::Missing;
        for path in places.filter(|path| path.exists()) {
            match capture(Command::new(&path).arg("--version")) {
                Ok(says) if says.trim() == format!("bpf-linker {LINKER_VERSION}") => {
                    return Self::Right(path);
                }
                Ok(says) => wrong = Self::Wrong { path, says: says.trim().to_owned() },
                Err(error) => wrong = Self::Wrong { path, says: format!("{error:#}") },
            }
        }
        wrong
    }
}

impl Toolchain {
    /// What is here already; the error says what is missing.
    pub(crate) fn find(workspace: &Workspace) -> Result<Self> {
        let compiler = Compiler::find().context("no compiler for eBPF")?;
        match Linker::find(workspace) {
            Linker::Right(linker) => Ok(Self { compiler, linker }),
            Linker::Wrong { path, says } => {
                bail!("{} is not bpf-linker {LINKER_VERSION}: {says}", path.display())
            }
            Linker::Missing => bail!("no bpf-linker"),
        }
    }
}

/// Where the project installs a linker of its own when another version is on PATH.
pub(crate) fn own_tools(workspace: &Workspace) -> PathBuf {
    workspace.target("tools")
}

fn cargo_home() -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home)
}

/// The major number in the line `LLVM version: 22.1.8` of `rustc -vV`.
fn llvm_major(version: &str) -> Option<u32> {
    let number = version.lines().find_map(|line| line.strip_prefix("LLVM version: "))?;
    number.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compilers_llvm_is_read_from_its_own_words() {
        assert_eq!(llvm_major("rustc 1.96.0\nrelease: 1.96.0\nLLVM version: 22.1.8\n"), Some(22));
        assert_eq!(llvm_major("rustc 1.96.0"), None);
    }

    /// A program that says `text` as its version.
    fn linker(folder: &Path, name: &str, text: &str) -> PathBuf {
        use std::io::Write as _;
        use std::os::unix::fs::OpenOptionsExt as _;
        let path = folder.join(name);
        let mut options = std::fs::File::options();
        let mut file =
            options.create(true).truncate(true).write(true).mode(0o755).open(&path).expect("a file");
        write!(file, "#!/bin/sh\necho '{text}'\n").expect("written");
        path
    }

    #[test]
    fn c184_a_linker_of_another_version_is_told_before_anything_is_built() {
        let folder = std::env::temp_dir().join(format!("xtask-linker-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let old = linker(&folder, "old", "bpf-linker 0.9.14");
        let right = linker(&folder, "right", &format!("bpf-linker {LINKER_VERSION}"));
        let missing = folder.join("none");
        let wrong = Linker::Wrong { path: old.clone(), says: "bpf-linker 0.9.14".into() };
        assert_eq!(Linker::among([missing.clone(), old.clone()].into_iter()), wrong);
        assert_eq!(Linker::among([old, right.clone()].into_iter()), Linker::Right(right));
        assert_eq!(Linker::among([missing].into_iter()), Linker::Missing);
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
