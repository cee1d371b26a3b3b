//! kidled, the part of some vendors' kernels that finds idle pages: whether there is one, and whether it scans.

use std::path::{Path, PathBuf};

use super::lscpu::text;
use super::roots::Roots;

/// State of kidled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kidled {
    /// This kernel has none.
    Absent,
    /// It is there, but as it is set its figures are of no use.
    Off {
        /// What is in the way, and what an admin would do.
        why: String,
    },
    /// It scans.
    Scanning {
        /// Seconds between two scans.
        period: u32,
    },
}

impl Kidled {
    /// Reads its settings. Both are needed: without `use_hierarchy` a pod's figures lack those of its containers.
    pub fn read(roots: &Roots) -> Self {
        let (period, hierarchy) = files(&roots.sys);
        let Some(found) = text(&period) else { return Self::Absent };
        let off = |path: &Path, found: &str| Self::Off {
            why: format!(
                "{} holds {found:?}: an admin may switch kidled on by writing 5 to {} and 1 to {}; this agent \
                 only reads",
                path.display(),
                period.display(),
                hierarchy.display()
            ),
        };
        let Some(seconds) = found.parse().ok().filter(|seconds| *seconds > 0) else {
            return off(&period, &found);
        };
        match text(&hierarchy).as_deref() {
            Some("1") => Self::Scanning { period: seconds },
            other => off(&hierarchy, other.unwrap_or_default()),
        }
    }
}

/// The files with its period and with whether groups count what is beneath them.
fn files(sys: &Path) -> (PathBuf, PathBuf) {
    let dir = sys.join("kernel/mm/kidled");
    (dir.join("scan_period_in_seconds"), dir.join("use_hierarchy"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a fixture tree in a temporary directory")]
    fn both_settings_are_needed() {
        let root = tempfile::tempdir().unwrap();
        let roots = Roots { sys: root.path().to_path_buf(), ..Roots::host() };
        assert_eq!(Kidled::read(&roots), Kidled::Absent);
        let (period, hierarchy) = files(root.path());
        fs::create_dir_all(period.parent().unwrap()).unwrap();
        for (seconds, with, on) in [
            ("0", "1", false),
            ("120", "0", false),
            ("x", "1", false),
            ("-1", "1", false),
            ("120", "1", true),
        ] {
            fs::write(&period, format!("{seconds}\n")).unwrap();
            fs::write(&hierarchy, format!("{with}\n")).unwrap();
            match Kidled::read(&roots) {
                Kidled::Scanning { period: 120 } if on => {}
                Kidled::Off { why } if !on => assert!(why.contains("writing 5 to"), "{why}"),
                other => panic!("{seconds} {with}: {other:?}"),
            }
        }
    }
}
