//! Which CPUs are online or at least present right now: one small file each. Their cores, sockets and caches are
//! `topology`'s.

use std::io;

use super::roots::Roots;
use super::text_file;
use crate::cpuset::CpuSet;

/// Reads `<sys>/devices/system/cpu/online`.
///
/// # Errors
/// The file cannot be read, is malformed (`InvalidData`), or names no CPU.
pub fn online_cpus(roots: &Roots) -> io::Result<CpuSet> {
    cpus(roots, "online")
}

/// Reads `<sys>/devices/system/cpu/present`: CPUs that are there, switched off or not.
///
/// # Errors
/// As for [`online_cpus`].
pub fn present_cpus(roots: &Roots) -> io::Result<CpuSet> {
    cpus(roots, "present")
}

fn cpus(roots: &Roots, which: &str) -> io::Result<CpuSet> {
    let text = text_file::read(&roots.sys.join("devices/system/cpu").join(which))?;
    let invalid =
        |error: Box<dyn std::error::Error + Send + Sync>| io::Error::new(io::ErrorKind::InvalidData, error);
    let cpus: CpuSet = text.trim().parse().map_err(|error| invalid(Box::new(error)))?;
    if cpus.is_empty() { Err(invalid(format!("no CPU is {which}").into())) } else { Ok(cpus) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a fixture file in a temporary directory")]
    fn holes_are_kept_and_an_empty_list_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let roots = Roots { sys: root.path().to_owned(), ..Roots::host() };
        assert_eq!(online_cpus(&roots).unwrap_err().kind(), io::ErrorKind::NotFound);
        let file = root.path().join("devices/system/cpu/online");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        for (text, expected) in [("0-1,4\n", Some("0-1,4")), ("\n", None), ("x\n", None)] {
            fs::write(&file, text).unwrap();
            assert_eq!(
                online_cpus(&roots).ok().map(|cpus| cpus.to_string()).as_deref(),
                expected,
                "{text:?}"
            );
        }
    }
}
