//! `basicInfo` of collection.md 2.1: model, vendor, SMT, turbo, L3 mask. A fact that cannot be had is its
//! default; nothing here fails.

use std::io::Read as _;

use serde::Serialize;

use super::lscpu;
use super::roots::Roots;
use super::text_file;

/// Bytes of cpuinfo that surely hold all about the first CPU, which takes some three KiB.
const FIRST_CPU: u64 = 64 << 10;

/// Facts about the processor model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BasicInfo {
    /// Model name of the first CPU; `unknown` where the architecture does not tell.
    pub cpu_model: String,
    /// Vendor of the first CPU; `unknown` where the architecture does not tell.
    #[serde(rename = "vendorID")]
    pub vendor_id: String,
    /// Whether a core runs more than one thread.
    pub hyper_thread_enabled: bool,
    /// Whether the CPU may exceed its nominal frequency; known only with the driver `intel_pstate`.
    pub turbo_enabled: bool,
    /// Capacity mask of the L3 cache (hexadecimal); empty without resctrl.
    #[serde(rename = "catL3CbmMask")]
    pub cat_l3_cbm_mask: String,
}

impl BasicInfo {
    /// Reads the facts. `threads_per_core` decides about SMT where the kernel has no `smt/active` file.
    pub(super) fn read(roots: &Roots, threads_per_core: usize) -> Self {
        let cpuinfo = text_file::read(&roots.proc.join("cpuinfo")).unwrap_or_default();
        let flag = |path: &str| lscpu::text(&roots.sys.join(path));
        let smt = flag("devices/system/cpu/smt/active");
        Self {
            cpu_model: field(&cpuinfo, &["model name", "Model Name"]),
            vendor_id: field(&cpuinfo, &["vendor_id"]),
            hyper_thread_enabled: smt.map_or(threads_per_core > 1, |active| active == "1"),
            turbo_enabled: flag("devices/system/cpu/intel_pstate/no_turbo").is_some_and(|off| off == "0"),
            cat_l3_cbm_mask: lscpu::text(&roots.sys_fs.join("resctrl/info/L3/cbm_mask")).unwrap_or_default(),
        }
    }
}

/// Who made the CPU and what it can do, as the first CPU of `<proc>/cpuinfo` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuModel {
    /// Vendor; `unknown` where the architecture does not tell.
    pub vendor: String,
    flags: Vec<String>,
}

impl CpuModel {
    /// Reads `<proc>/cpuinfo`; a file that cannot be read tells nothing.
    pub fn read(roots: &Roots) -> Self {
        // The kernel makes the text CPU by CPU; of hundreds of them the first is enough.
        let path = roots.proc.join("cpuinfo");
        let mut first = Vec::new();
        let read = text_file::open(&path).and_then(|file| file.take(FIRST_CPU).read_to_end(&mut first));
        if read.is_err() {
            first.clear();
        }
        Self::of_cpuinfo(&String::from_utf8_lossy(&first))
    }

    fn of_cpuinfo(text: &str) -> Self {
        let flags = text.lines().find_map(|line| {
            let (name, flags) = line.split_once(':')?;
            (name.trim() == "flags").then_some(flags)
        });
        let flags = flags.unwrap_or_default().split_ascii_whitespace().map(str::to_owned).collect();
        Self { vendor: field(text, &["vendor_id"]), flags }
    }

    /// Whether `flag` is among the first CPU's `flags`.
    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|known| known == flag)
    }
}

/// The text between the first and the second colon of the first line that contains one of `names`.
fn field(cpuinfo: &str, names: &[&str]) -> String {
    let line = cpuinfo.lines().find(|line| names.iter().any(|name| line.contains(name)));
    let value = line.and_then(|line| line.split(':').nth(1)).map_or("", str::trim);
    if value.is_empty() { "unknown".to_owned() } else { value.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_what_stands_between_the_first_two_colons() {
        let text =
            "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon: Gold : x\nmodel name\t: no\n";
        assert_eq!(field(text, &["model name", "Model Name"]), "Xeon");
        assert_eq!(field(text, &["vendor_id"]), "GenuineIntel");
        for text in ["", "vendor_id\n", "vendor_id\t:\n"] {
            assert_eq!(field(text, &["vendor_id"]), "unknown", "{text:?}");
        }
    }

    #[test]
    fn flags_are_whole_words_of_the_line_of_that_name() {
        let cpu =
            CpuModel::of_cpuinfo("vendor_id\t: AuthenticAMD\nvmx flags\t: vnmi\nflags\t\t: fpu cqm_llc\n");
        assert_eq!(cpu.vendor, "AuthenticAMD");
        assert!(cpu.has("fpu") && cpu.has("cqm_llc") && !cpu.has("cqm") && !cpu.has("vnmi"));
        assert!(!CpuModel::of_cpuinfo("").has("fpu"));
    }
}
