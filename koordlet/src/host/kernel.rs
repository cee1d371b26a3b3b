//! The running kernel: its release, its type information, what it lets this process do. Facts only; what they
//! mean for the agent is in `offers`.

use std::fs;
use std::io::{self, Read as _};

use super::lscpu;
use super::roots::Roots;
use super::text_file;

/// Capabilities that the agent has a use for: bit and name.
const CAPABILITIES: [(u32, &str); 6] = [
    (1, "CAP_DAC_OVERRIDE"),
    (12, "CAP_NET_ADMIN"),
    (21, "CAP_SYS_ADMIN"),
    (24, "CAP_SYS_RESOURCE"),
    (38, "CAP_PERFMON"),
    (39, "CAP_BPF"),
];

/// What is known of the running kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// As `uname -r` says it; empty if procfs does not tell.
    pub release: String,
    /// Size in bytes of the kernel's type information; `None` without any.
    pub btf_bytes: Option<u64>,
    /// Effective capabilities of this process that the agent has a use for, and those that it lacks.
    pub capabilities: Capabilities,
    /// Why pressure figures cannot be had; `None` if they can.
    pub no_psi: Option<String>,
    /// Whether resctrl is mounted.
    pub resctrl: Resctrl,
    /// Whether the CPU's own counters can be used (perf events).
    pub hardware_counters: bool,
    /// `kernel.perf_event_paranoid`.
    pub perf_event_paranoid: Option<i32>,
}

/// Names of capabilities that this process has and lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Effective.
    pub held: Vec<&'static str>,
    /// Not effective.
    pub lacking: Vec<&'static str>,
}

/// State of the resource control file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resctrl {
    /// Mounted.
    Mounted,
    /// The kernel has it, but it is not mounted.
    NotMounted,
    /// Kernel or CPU have none.
    #[default]
    Unsupported,
}

impl Kernel {
    /// Reads the facts below `roots`.
    pub fn read(roots: &Roots) -> Self {
        let proc = |file: &str| lscpu::text(&roots.proc.join(file));
        Self {
            release: proc("sys/kernel/osrelease").unwrap_or_default(),
            btf_bytes: fs::metadata(roots.sys.join("kernel/btf/vmlinux")).ok().map(|file| file.len()),
            capabilities: Capabilities::of_status(&proc("self/status").unwrap_or_default()),
            no_psi: first_byte(roots).err().map(|error| error.to_string()),
            resctrl: if roots.sys_fs.join("resctrl/schemata").exists() {
                Resctrl::Mounted
            } else if proc("filesystems")
                .is_some_and(|list| list.lines().any(|line| line.ends_with("\tresctrl")))
            {
                Resctrl::NotMounted
            } else {
                Resctrl::Unsupported
            },
            hardware_counters: roots.sys.join("bus/event_source/devices/cpu/type").exists(),
            perf_event_paranoid: proc("sys/kernel/perf_event_paranoid").and_then(|text| text.parse().ok()),
        }
    }
}

/// Tries a pressure file: with `psi=0` on the command line it is there, but reading it fails.
fn first_byte(roots: &Roots) -> io::Result<()> {
    let mut byte = [0; 1];
    text_file::open(&roots.proc.join("pressure/cpu"))?.read_exact(&mut byte)
}

impl Capabilities {
    /// From `/proc/self/status`; without a `CapEff` line nothing is held.
    fn of_status(status: &str) -> Self {
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let bits = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
        let (held, lacking): (Vec<_>, Vec<_>) =
            CAPABILITIES.into_iter().partition(|(bit, _)| bits & (1 << bit) != 0);
        let names = |list: Vec<(u32, &'static str)>| list.into_iter().map(|(_, name)| name).collect();
        Self { held: names(held), lacking: names(lacking) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_bit_by_bit() {
        let all = Capabilities::of_status("Name:\tx\nCapPrm:\t0\nCapEff:\t000001ffffffffff\n");
        assert_eq!((all.held.len(), all.lacking.len()), (6, 0));
        let no_resource = Capabilities::of_status("CapEff:\t000001fffeffffff\n");
        assert_eq!(no_resource.lacking, ["CAP_SYS_RESOURCE"]);
        assert_eq!(Capabilities::of_status("").held.len(), 0);
    }

    #[test]
    fn a_root_without_files_offers_nothing_and_does_not_fail() {
        let root = tempfile::tempdir().unwrap();
        let [proc, sys, sys_fs] = ["proc", "sys", "sys/fs"].map(|dir| root.path().join(dir));
        let kernel = Kernel::read(&Roots { proc, sys, sys_fs, ..Roots::host() });
        assert!(kernel.no_psi.is_some());
        assert_eq!(
            (kernel.btf_bytes, kernel.resctrl, kernel.hardware_counters),
            (None, Resctrl::Unsupported, false)
        );
    }

    #[test]
    fn this_kernel_has_a_release() {
        assert!(Kernel::read(&Roots::host()).release.contains('.'));
    }
}
