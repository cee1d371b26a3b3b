//! Rows of `lscpu -e=CPU,NODE,SOCKET,CORE,CACHE,ONLINE` -> a sysfs tree from which lscpu would print them, so
//! that recorded lscpu output can be checked against an agent that runs no command.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// One CPU line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) cpu: u32,
    pub(crate) node: Option<u32>,
    pub(crate) socket: u32,
    pub(crate) core: u32,
    /// Ids of L1d, L1i, L2, and L3 and on where there are any; empty without cache figures.
    pub(crate) caches: Vec<i32>,
    pub(crate) online: bool,
}

/// What the reference makes of a line.
enum Parsed {
    /// A header, a blank line, an offline CPU: no CPU for the reference, and none in the tree.
    None,
    /// A CPU.
    Cpu(Line),
    /// Nothing that lscpu prints, whatever sysfs holds.
    NotExpressible(&'static str),
}

/// The CPUs of a text; `Err` says why no sysfs tree gives this text.
pub(crate) fn parse(text: &str) -> Result<Vec<Line>, &'static str> {
    let mut lines: Vec<Line> = Vec::new();
    for line in text.lines() {
        match parse_line(line) {
            Parsed::None => {}
            Parsed::NotExpressible(reason) => return Err(reason),
            Parsed::Cpu(line) if lines.iter().any(|known| known.cpu == line.cpu) => {
                return Err("lscpu prints each CPU once");
            }
            Parsed::Cpu(line) => lines.push(line),
        }
    }
    Ok(lines)
}

fn parse_line(line: &str) -> Parsed {
    let columns: Vec<_> = line.split_whitespace().collect();
    let number = |index: usize| columns.get(index).and_then(|text| text.parse::<u32>().ok());
    let (Some(cpu), Some(socket), Some(core)) = (number(0), number(2), number(3)) else {
        return Parsed::None;
    };
    let (Some(cache), Some(online)) = (columns.get(4), columns.get(5)) else {
        return Parsed::NotExpressible("lscpu prints every column that it was asked for");
    };
    let ids: Option<Vec<i32>> = cache.split(':').map(|id| id.parse().ok()).collect();
    match ids {
        Some(caches) if caches.len() >= 3 => {
            Parsed::Cpu(Line { cpu, node: number(1), socket, core, caches, online: *online == "yes" })
        }
        Some(_) => Parsed::NotExpressible("a CPU with fewer than three caches is kept (C084)"),
        None if cache.contains('-') => {
            Parsed::NotExpressible("a CPU without cache figures is kept on every architecture (C084, H13)")
        }
        None => Parsed::NotExpressible("cache ids in sysfs are numbers"),
    }
}

/// Makes the tree. CPUs that are not online have no topology in it, as on a real machine.
pub(crate) fn build(sys: &Path, lines: &[Line]) {
    let online: Vec<&Line> = lines.iter().filter(|line| line.online).collect();
    let cpus = |same: &dyn Fn(&Line) -> bool| -> BTreeSet<u32> {
        online.iter().filter(|line| same(line)).map(|line| line.cpu).collect()
    };
    fs::create_dir_all(sys.join("devices/system/cpu")).unwrap();
    for line in lines {
        let dir = sys.join(format!("devices/system/cpu/cpu{}", line.cpu));
        if !line.online {
            put(&dir.join("online"), "0");
            continue;
        }
        put(&dir.join("topology/thread_siblings"), &mask(&cpus(&|other| other.core == line.core)));
        put(&dir.join("topology/core_siblings"), &mask(&cpus(&|other| other.socket == line.socket)));
        for (index, id) in line.caches.iter().enumerate() {
            let cache = dir.join(format!("cache/index{index}"));
            let (level, kind) = match index {
                0 => (1, "Data"),
                1 => (1, "Instruction"),
                more => (more, "Unified"),
            };
            put(&cache.join("level"), &level.to_string());
            put(&cache.join("type"), kind);
            put(&cache.join("id"), &id.to_string());
            let shared = cpus(&|other| other.caches.get(index) == Some(id));
            put(&cache.join("shared_cpu_map"), &mask(&shared));
        }
    }
    for node in online.iter().filter_map(|line| line.node) {
        let map = mask(&cpus(&|other| other.node == Some(node)));
        put(&sys.join(format!("devices/system/node/node{node}/cpumap")), &map);
    }
}

/// The kernel's form of a CPU mask.
fn mask(cpus: &BTreeSet<u32>) -> String {
    let words = cpus.last().map_or(0, |last| last / 32) + 1;
    let word = |index: u32| {
        let bits =
            cpus.iter().filter(|cpu| **cpu / 32 == index).fold(0u32, |bits, cpu| bits | 1 << (cpu % 32));
        format!("{bits:08x}")
    };
    (0..words).rev().map(word).collect::<Vec<_>>().join(",")
}

#[expect(clippy::disallowed_methods, reason = "a tree in a temporary directory")]
pub(crate) fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{text}\n")).unwrap();
}
