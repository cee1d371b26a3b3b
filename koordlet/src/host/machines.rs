//! The recorded machines in `tests/fixtures`, with the numbers that stand beside each. For tests only.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::roots::Roots;

/// One kind of machine.
pub(crate) struct Machine {
    /// Its directory, with `proc` and `sys` as the machine has them.
    pub(crate) path: PathBuf,
    /// What is to come out.
    pub(crate) expected: Value,
}

impl Machine {
    pub(crate) fn named(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(name);
        let expected = fs::read_to_string(path.join("expected.json")).unwrap();
        Self { expected: serde_json::from_str(&expected).unwrap(), path }
    }

    /// All of them.
    pub(crate) fn all() -> Vec<Self> {
        let names = [
            "arm64",
            "hugepages-both-sizes",
            "memory-only-node",
            "no-numa-no-l3",
            "offline-cpus",
            "smt-off",
            "two-sockets-smt",
        ];
        names.map(Self::named).into()
    }

    pub(crate) fn roots(&self) -> Roots {
        let (proc, sys, sys_fs) = (self.path.join("proc"), self.path.join("sys"), self.path.join("sys/fs"));
        Roots { proc, sys, sys_fs, ..Roots::host() }
    }
}
