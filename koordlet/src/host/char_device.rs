//! Character devices for a container: from what is known of one to path and numbers, hooks.md 11.3. Looked up in
//! sysfs, which shows the host's devices also where `/dev` is the agent's own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::roots::Roots;
use super::text_file;

/// A device by what is known of it before the host is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceWish {
    /// The character device at this path.
    Path(String),
    /// The verbs device of the PCI function at this address.
    VerbsOfPci(String),
}

/// A character device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CharDevice {
    /// Its path, on the host and in the container.
    pub path: String,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Permission bits.
    pub mode: u32,
}

/// Where the devices of RDMA are.
const DEV_FOLDER: &str = "/dev/infiniband";

/// Everybody in the container may use it.
const MODE: u32 = 0o666;

/// Why there is no device.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// It is not the address of a PCI function.
    #[error("{0:?} is no address of a PCI function")]
    Address(String),
    /// It is not a path of a device of RDMA.
    #[error("{0:?} is no path of a device in {DEV_FOLDER}")]
    Path(String),
    /// The function has no verbs device: not RDMA, or its driver is not loaded.
    #[error("there is no verbs device in {}", .0.display())]
    Empty(PathBuf),
    /// sysfs did not answer.
    #[error("cannot read {}", path.display())]
    Read {
        /// What was read.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The file of its numbers holds something else.
    #[error("{} says {text:?}, which are no device numbers", path.display())]
    Numbers {
        /// The file.
        path: PathBuf,
        /// Its text, shortened.
        text: String,
    },
}

/// Looks up one device.
///
/// # Errors
/// It is not there, or what was asked is no address or path of one.
pub fn look_up(roots: &Roots, wish: &DeviceWish) -> Result<CharDevice, DeviceError> {
    match wish {
        DeviceWish::Path(path) => by_path(roots, path),
        DeviceWish::VerbsOfPci(address) => verbs_of_pci(roots, address),
    }
}

/// A device of its own, of which sysfs knows the name.
fn by_path(roots: &Roots, path: &str) -> Result<CharDevice, DeviceError> {
    let name = path.strip_prefix(DEV_FOLDER).and_then(|rest| rest.strip_prefix('/'));
    let name = name.filter(|name| is_name(name)).ok_or_else(|| DeviceError::Path(shortened(path)))?;
    with_numbers(name, &roots.sys.join("class/misc").join(name))
}

/// The first verbs device of a function.
fn verbs_of_pci(roots: &Roots, address: &str) -> Result<CharDevice, DeviceError> {
    if !is_address(address) {
        return Err(DeviceError::Address(shortened(address)));
    }
    let folder = roots.sys.join("bus/pci/devices").join(address).join("infiniband_verbs");
    let read = |source| DeviceError::Read { path: folder.clone(), source };
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).map_err(read)? {
        names.extend(entry.map_err(read)?.file_name().into_string().ok().filter(|name| is_name(name)));
    }
    let first = names.into_iter().min().ok_or_else(|| DeviceError::Empty(folder.clone()))?;
    with_numbers(&first, &folder.join(&first))
}

fn with_numbers(name: &str, folder: &Path) -> Result<CharDevice, DeviceError> {
    let path = folder.join("dev");
    let text = text_file::read(&path).map_err(|source| DeviceError::Read { path: path.clone(), source })?;
    let numbers = text
        .trim()
        .split_once(':')
        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    let (major, minor) = numbers.ok_or_else(|| DeviceError::Numbers { path, text: shortened(&text) })?;
    Ok(CharDevice { path: format!("{DEV_FOLDER}/{name}"), major, minor, mode: MODE })
}

/// `DDDD:BB:SS.F`, hexadecimal; a domain may have more digits.
fn is_address(text: &str) -> bool {
    let hex = |text: &str, digits: std::ops::RangeInclusive<usize>| {
        digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let parts = text.rsplit_once('.').and_then(|(rest, function)| {
        let (rest, slot) = rest.rsplit_once(':')?;
        let (domain, bus) = rest.rsplit_once(':')?;
        Some(hex(domain, 4..=8) && hex(bus, 2..=2) && hex(slot, 2..=2) && hex(function, 1..=1))
    });
    parts == Some(true)
}

fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !name.is_empty() && name.bytes().all(is_plain)
}

fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a fixture tree in a temporary directory")]
    fn host(files: &[(&str, &str)]) -> (tempfile::TempDir, Roots) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let roots = Roots { sys: folder.path().into(), ..Roots::host() };
        (folder, roots)
    }

    fn pci(address: &str) -> DeviceWish {
        DeviceWish::VerbsOfPci(address.to_owned())
    }

    #[test]
    fn devices_are_found_by_address_and_by_path() {
        let (_folder, roots) = host(&[
            ("bus/pci/devices/0000:1f:00.2/infiniband_verbs/uverbs7/dev", "231:199\n"),
            ("bus/pci/devices/0000:1f:00.2/infiniband_verbs/uverbs10/dev", "231:202\n"),
            ("class/misc/rdma_cm/dev", "10:58\n"),
        ]);
        let device =
            |path: &str, major, minor| CharDevice { path: path.to_owned(), major, minor, mode: 0o666 };
        let found = look_up(&roots, &pci("0000:1f:00.2")).unwrap();
        assert_eq!(found, device("/dev/infiniband/uverbs10", 231, 202), "the first by name");
        let manager = DeviceWish::Path("/dev/infiniband/rdma_cm".to_owned());
        assert_eq!(look_up(&roots, &manager).unwrap(), device("/dev/infiniband/rdma_cm", 10, 58));
    }

    #[test]
    fn a_folder_that_is_missing_or_empty_is_an_error_and_no_crash() {
        let (folder, roots) =
            host(&[("bus/pci/devices/0000:1f:00.0/infiniband_verbs/uverbs0/dev", "what\n")]);
        fs::create_dir_all(folder.path().join("bus/pci/devices/0000:1f:00.1/infiniband_verbs")).unwrap();
        assert!(matches!(look_up(&roots, &pci("0000:1f:00.0")), Err(DeviceError::Numbers { .. })));
        assert!(matches!(look_up(&roots, &pci("0000:1f:00.1")), Err(DeviceError::Empty(_))));
        assert!(matches!(look_up(&roots, &pci("0000:1f:00.2")), Err(DeviceError::Read { .. })));
        let manager = DeviceWish::Path("/dev/infiniband/rdma_cm".to_owned());
        assert!(matches!(look_up(&roots, &manager), Err(DeviceError::Read { .. })));
    }

    #[test]
    fn hostile_addresses_and_paths_are_never_looked_up() {
        let (_folder, roots) = host(&[]);
        for address in [
            "",
            "..",
            "../0000:1f:00.0",
            "0000:1f:00.0/..",
            "0000:1f:00",
            "0000:1f:0.0",
            "0:1f:00.0",
            "0000:1f:00.00",
            "0000:1f:00.g",
            "0000:1f:00.0\0",
            "ü000:1f:00.0",
            "0000:00:1f:00.0",
        ] {
            assert!(matches!(look_up(&roots, &pci(address)), Err(DeviceError::Address(_))), "{address:?}");
        }
        for path in
            ["", "/dev/mem", "/dev/infiniband/", "/dev/infiniband/../mem", "/dev/infinibandx", "rdma_cm"]
        {
            let wish = DeviceWish::Path(path.to_owned());
            assert!(matches!(look_up(&roots, &wish), Err(DeviceError::Path(_))), "{path:?}");
        }
    }
}
