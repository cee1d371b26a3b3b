//! CPUs of the machine with core, socket, NUMA node and caches: the value behind `node_cpu_info`,
//! collection.md 2.1. Who may use which CPU is `state::topology`'s.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

use serde::Serialize;

use super::cpuinfo::BasicInfo;
use super::lscpu;
use super::roots::Roots;

/// Why the CPUs of the machine are not known.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// The directory of CPUs cannot be listed.
    #[error("cannot list the CPUs in {}", path.display())]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// No CPU there is online and has a topology.
    #[error("no online CPU with a topology in {}", path.display())]
    NoCpu {
        /// The directory.
        path: PathBuf,
    },
}

/// One online CPU, under the names of collection.md 2.1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessorInfo {
    /// Logical CPU number.
    pub cpu: u32,
    /// Logical core number, unique in the machine.
    pub core: u32,
    /// Logical socket number.
    pub socket: u32,
    /// NUMA node; 0 where there is no NUMA.
    pub node: u32,
    /// Id of the CPU's L1 data cache as text; `0` where caches are not known.
    pub l1dl1il2: String,
    /// Id of its L3 cache; 0 where there is none.
    pub l3: i32,
    /// `yes`: CPUs that are offline are left out.
    pub online: String,
}

/// The same processors by core, node, socket and L3 cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TotalInfo {
    /// Number of online CPUs.
    #[serde(rename = "numberCPUs")]
    pub number_cpus: usize,
    /// Core -> its CPUs.
    #[serde(rename = "coreToCPU")]
    pub core_to_cpu: BTreeMap<u32, Vec<ProcessorInfo>>,
    /// NUMA node -> its CPUs.
    #[serde(rename = "nodeToCPU")]
    pub node_to_cpu: BTreeMap<u32, Vec<ProcessorInfo>>,
    /// Socket -> its CPUs.
    #[serde(rename = "socketToCPU")]
    pub socket_to_cpu: BTreeMap<u32, Vec<ProcessorInfo>>,
    /// L3 cache -> its CPUs.
    #[serde(rename = "l3ToCPU")]
    pub l3_to_cpu: BTreeMap<i32, Vec<ProcessorInfo>>,
}

/// All that is known of the machine's CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeCpuInfo {
    /// Facts about the model.
    pub basic_info: BasicInfo,
    /// Online CPUs, sorted by node, socket, core, CPU.
    pub processor_infos: Vec<ProcessorInfo>,
    /// The same, grouped.
    pub total_info: TotalInfo,
}

impl NodeCpuInfo {
    /// Reads sysfs and `/proc/cpuinfo` below `roots`.
    pub fn read(roots: &Roots) -> Result<Self, TopologyError> {
        let lscpu::Rows { rows, threads_per_core } = lscpu::read(&roots.sys)?;
        if rows.is_empty() {
            return Err(TopologyError::NoCpu { path: roots.sys.join("devices/system/cpu") });
        }
        let processor_infos = rows.into_iter().map(ProcessorInfo::from).collect();
        Ok(Self::new(BasicInfo::read(roots, threads_per_core), processor_infos))
    }

    /// Sorts and groups the processors.
    pub fn new(basic_info: BasicInfo, mut processor_infos: Vec<ProcessorInfo>) -> Self {
        processor_infos.sort_by_key(|info| (info.node, info.socket, info.core, info.cpu));
        Self { basic_info, total_info: TotalInfo::group(&processor_infos), processor_infos }
    }
}

impl From<lscpu::Row> for ProcessorInfo {
    fn from(row: lscpu::Row) -> Self {
        let lscpu::Row { cpu, node, socket, core, l1, l3 } = row;
        Self { cpu, core, socket, node, l1dl1il2: l1, l3, online: "yes".to_owned() }
    }
}

impl TotalInfo {
    fn group(infos: &[ProcessorInfo]) -> Self {
        let mut total = Self {
            number_cpus: infos.iter().map(|info| info.cpu).collect::<BTreeSet<_>>().len(),
            ..Self::default()
        };
        for info in infos {
            total.core_to_cpu.entry(info.core).or_default().push(info.clone());
            total.node_to_cpu.entry(info.node).or_default().push(info.clone());
            total.socket_to_cpu.entry(info.socket).or_default().push(info.clone());
            total.l3_to_cpu.entry(info.l3).or_default().push(info.clone());
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::{env, fs};

    use serde_json::json;

    use super::super::machines::Machine;
    use super::*;

    #[test]
    fn each_kind_of_machine_gives_the_numbers_beside_it() {
        for machine in Machine::all() {
            let (shape, expected) = (machine.path.display(), &machine.expected);
            let cpu = NodeCpuInfo::read(&machine.roots()).unwrap();
            let mut processors = serde_json::to_value(&cpu.processor_infos).unwrap();
            for processor in processors.as_array_mut().unwrap() {
                assert_eq!(processor.as_object_mut().unwrap().remove("online"), Some(json!("yes")));
            }
            assert_eq!(processors, expected["processors"], "{shape}");
            assert_eq!(json!(cpu.basic_info), expected["basicInfo"], "{shape}");
            let total = &cpu.total_info;
            let counts = json!({
                "cpus": total.number_cpus,
                "cores": total.core_to_cpu.len(),
                "sockets": total.socket_to_cpu.len(),
                "nodesWithCpus": total.node_to_cpu.len(),
                "l3Caches": total.l3_to_cpu.len(),
            });
            assert_eq!(counts, expected["counts"], "{shape}");
        }
    }

    #[test]
    fn c087_a_cpu_without_an_online_file_is_online() {
        let info = NodeCpuInfo::read(&Machine::named("offline-cpus").roots()).unwrap();
        let cpus: Vec<_> = info.processor_infos.iter().map(|info| info.cpu).collect();
        assert_eq!(cpus, [0, 3, 1, 5]);
        assert_eq!(info.total_info.number_cpus, 4);
    }

    #[test]
    fn c083_a_machine_without_l3_has_everything_on_l3_zero() {
        let info = NodeCpuInfo::read(&Machine::named("no-numa-no-l3").roots()).unwrap();
        assert_eq!(info.total_info.l3_to_cpu.keys().copied().collect::<Vec<_>>(), [0]);
        assert_eq!(info.total_info.node_to_cpu[&0].len(), 2);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a fixture tree in a temporary directory")]
    fn c084_h13_cpus_without_a_cache_or_a_node_are_kept() {
        let root = tempfile::tempdir().unwrap();
        let put = |file: &str, text: &str| {
            let path = root.path().join("devices/system").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for cpu in [0, 1, 2] {
            put(&format!("cpu/cpu{cpu}/topology/thread_siblings"), &format!("{:x}\n", 1 << cpu));
            put(&format!("cpu/cpu{cpu}/topology/core_siblings"), "7\n");
        }
        // CPU 0 has an L3, CPU 1 an L1 only, CPU 2 nothing; CPU 1 is on no node.
        for (cpu, index, level, kind) in [(0, 0, 1, "Data"), (0, 1, 3, "Unified"), (1, 0, 1, "Data")] {
            let dir = format!("cpu/cpu{cpu}/cache/index{index}");
            put(&format!("{dir}/level"), &format!("{level}\n"));
            put(&format!("{dir}/type"), kind);
            put(&format!("{dir}/id"), &format!("{}\n", 5 + cpu));
            put(&format!("{dir}/shared_cpu_list"), &format!("{cpu}\n"));
        }
        put("node/node1/cpumap", "5\n");
        let info = NodeCpuInfo::read(&Roots { sys: root.path().into(), ..Roots::host() }).unwrap();
        let rows: Vec<_> =
            info.processor_infos.iter().map(|info| (info.cpu, info.node, &*info.l1dl1il2, info.l3)).collect();
        assert_eq!(rows, [(1, 0, "6", 0), (0, 1, "5", 5), (2, 1, "0", 0)]);
    }

    #[test]
    fn groups_are_keyed_by_id_as_text() {
        let info = NodeCpuInfo::read(&Machine::named("two-sockets-smt").roots()).unwrap();
        let value = serde_json::to_value(info).unwrap();
        let total = &value["totalInfo"];
        assert_eq!(total["numberCPUs"], 8);
        assert_eq!(total["coreToCPU"]["3"][1]["cpu"], 7);
        for (group, count) in [("nodeToCPU", 4), ("socketToCPU", 4), ("l3ToCPU", 4), ("coreToCPU", 2)] {
            assert_eq!(total[group]["1"].as_array().unwrap().len(), count, "{group}");
        }
    }

    #[test]
    fn no_cpu_directory_and_no_cpu_are_errors() {
        let root = tempfile::tempdir().unwrap();
        let roots = Roots { sys: root.path().into(), ..Roots::host() };
        assert!(matches!(NodeCpuInfo::read(&roots), Err(TopologyError::Unreadable { .. })));
        fs::create_dir_all(root.path().join("devices/system/cpu/cpu0")).unwrap();
        assert!(matches!(NodeCpuInfo::read(&roots), Err(TopologyError::NoCpu { .. })));
    }

    /// What lscpu says, read as collection.md 2.1 reads it, but that a CPU without cache figures is kept.
    fn lscpu_says(output: &str) -> Vec<[String; 6]> {
        let rows = output.lines().filter_map(|line| {
            let columns: Vec<_> = line.split_whitespace().collect();
            let [cpu, node, socket, core, cache, "yes", ..] = columns.as_slice() else { return None };
            let (Ok(_), Ok(_)) = (core.parse::<u32>(), socket.parse::<u32>()) else { return None };
            let node = if *node == "-" { "0" } else { node };
            let mut caches = cache.split(':');
            let l1 = caches.next().filter(|id| *id != "-").unwrap_or("0");
            let l3 = caches.nth(2).unwrap_or("0");
            Some([*cpu, node, socket, core, l1, l3].map(str::to_owned))
        });
        rows.collect()
    }

    #[test]
    fn c086_sysfs_gives_the_numbers_of_the_installed_lscpu() {
        // More captures to compare with, as lscpu's own test suite has them: directories with proc and sys.
        let more = env::var_os("KOORDLET_LSCPU_ROOTS");
        let more = more.iter().flat_map(env::split_paths).collect::<Vec<_>>();
        let fixtures = Machine::all().into_iter().map(|machine| machine.path);
        for shape in fixtures.chain([PathBuf::from("/")]).chain(more) {
            let output = Command::new("lscpu")
                .env("LC_ALL", "C")
                .arg("--sysroot")
                .arg(&shape)
                .arg("-e=CPU,NODE,SOCKET,CORE,CACHE,ONLINE")
                .output();
            let Ok(output) = output else {
                println!("SKIPPED: lscpu is not installed");
                return;
            };
            assert!(output.status.success(), "{output:?}");
            let info = NodeCpuInfo::read(&Roots {
                proc: shape.join("proc"),
                sys: shape.join("sys"),
                ..Roots::host()
            })
            .unwrap();
            let mut ours: Vec<_> = info
                .processor_infos
                .iter()
                .map(|info| {
                    let ProcessorInfo { cpu, core, socket, node, l1dl1il2, l3, online: _ } = info;
                    let columns: [&dyn ToString; 6] = [cpu, node, socket, core, l1dl1il2, l3];
                    columns.map(ToString::to_string)
                })
                .collect();
            ours.sort_by_key(|row| row[0].parse::<u32>().unwrap());
            assert_eq!(ours, lscpu_says(&String::from_utf8_lossy(&output.stdout)), "{}", shape.display());
        }
    }
}
