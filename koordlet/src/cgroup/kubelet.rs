//! What the kubelet says about cgroups: its command line and configuration file, collection.md 3.2.
//!
//! Nobody is asked over the network: the process and its files are on this host.

use std::io;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use super::naming::{CgroupDriver, CgroupDriverError};
use crate::host::roots::Roots;
use crate::host::text_file;

/// The kubelet's cgroup settings, as far as it states them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeletCgroups {
    /// `--cgroup-driver` or `cgroupDriver`. Absent says nothing: the kubelet may follow the runtime then.
    pub driver: Option<CgroupDriver>,
    /// `--cgroup-root` or `cgroupRoot`.
    pub cgroup_root: Option<String>,
}

/// Why the kubelet's settings could not be used.
#[derive(Debug, thiserror::Error)]
pub enum KubeletError {
    /// A file of it cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The configuration is neither YAML nor JSON of the expected form.
    #[error("cannot use the kubelet configuration")]
    Config(#[source] serde_yaml_ng::Error),
    /// The driver is an unknown one.
    #[error("cannot use the kubelet's cgroup driver")]
    Driver(#[source] CgroupDriverError),
}

/// The keys of a KubeletConfiguration that matter here.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Config {
    cgroup_driver: Option<String>,
    cgroup_root: Option<String>,
}

impl KubeletCgroups {
    /// From the text of a configuration file, YAML or JSON.
    pub fn from_config(text: &str) -> Result<Self, KubeletError> {
        let config: Option<Config> = serde_yaml_ng::from_str(text).map_err(KubeletError::Config)?;
        let config = config.unwrap_or_default();
        let driver = config.cgroup_driver.filter(|driver| !driver.is_empty());
        let driver = driver.map(|driver| driver.parse()).transpose().map_err(KubeletError::Driver)?;
        Ok(Self { driver, cgroup_root: config.cgroup_root })
    }

    /// From command line arguments, with the configuration file that they name.
    pub fn from_arguments(arguments: &[&str]) -> Result<(Self, Option<PathBuf>), KubeletError> {
        let value = |name| flag(arguments, name).filter(|value| !value.is_empty());
        let driver = value("cgroup-driver").map(str::parse).transpose().map_err(KubeletError::Driver)?;
        let cgroup_root = value("cgroup-root").map(str::to_owned);
        Ok((Self { driver, cgroup_root }, value("config").map(PathBuf::from)))
    }

    /// Reads the settings of this host's kubelet: those of its command line win over its configuration
    /// file's. `None` if no kubelet is seen and there is no file at its usual place.
    pub fn read(roots: &Roots) -> Result<Option<Self>, KubeletError> {
        let Some(process) = kubelet_process(&roots.proc) else {
            let path = roots.var_lib_kubelet.join("config.yaml");
            return read_if_there(&path)?.map(|text| Self::from_config(&text)).transpose();
        };
        let Some(line) = read_if_there(&process.join("cmdline"))? else { return Ok(None) };
        let arguments: Vec<&str> = line.split('\0').filter(|argument| !argument.is_empty()).collect();
        let (stated, config) = Self::from_arguments(arguments.get(1..).unwrap_or_default())?;
        let Some(config) = config else { return Ok(Some(stated)) };
        let text = read_if_there(&in_process(&process, &config))?;
        let file = text.map(|text| Self::from_config(&text)).transpose()?.unwrap_or_default();
        Ok(Some(Self {
            driver: stated.driver.or(file.driver),
            cgroup_root: stated.cgroup_root.or(file.cgroup_root),
        }))
    }
}

/// The value of a Go flag: one or two dashes, after `=` or as the next argument; the last one counts.
fn flag<'a>(arguments: &[&'a str], name: &str) -> Option<&'a str> {
    let mut found = None;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let Some(text) = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')) else {
            continue;
        };
        match text.split_once('=') {
            Some((key, value)) if key == name => found = Some(value),
            None if text == name => found = rest.next().copied(),
            _ => {}
        }
    }
    found
}

/// A path of a process as seen from here: its own root, and its working directory where it is relative.
fn in_process(process: &Path, path: &Path) -> PathBuf {
    if path.is_relative() {
        return process.join("cwd").join(path);
    }
    let parts = path.components().filter(|part| !matches!(part, Component::RootDir));
    process.join("root").join(parts.collect::<PathBuf>())
}

/// The process directory of a kubelet, the first in the process table.
fn kubelet_process(proc: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(proc).ok()?.filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut pids: Vec<u32> = pids.collect();
    pids.sort_unstable();
    let directories = pids.into_iter().map(|pid| proc.join(pid.to_string()));
    directories.into_iter().find(|directory| {
        text_file::read(&directory.join("comm")).is_ok_and(|name| name.trim_end() == "kubelet")
    })
}

fn read_if_there(path: &Path) -> Result<Option<String>, KubeletError> {
    match text_file::read(path) {
        Err(error) if super::held_file::is_gone(&error) => Ok(None),
        other => other.map(Some).map_err(|source| KubeletError::Read { path: path.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn write(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = std::fs::OpenOptions::new().create_new(true).write(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn c14_the_configuration_is_yaml_or_json_and_may_be_quoted() {
        for text in [
            "kind: KubeletConfiguration\ncgroupDriver: systemd\n",
            "cgroupDriver: \"systemd\"\n",
            "{\"cgroupDriver\": \"systemd\", \"authentication\": {\"x509\": {}}}",
        ] {
            assert_eq!(
                KubeletCgroups::from_config(text).unwrap().driver,
                Some(CgroupDriver::Systemd),
                "{text}"
            );
        }
        for (text, root) in [("", None), ("a: 1", None), ("cgroupRoot: /kubelet", Some("/kubelet"))] {
            let settings = KubeletCgroups::from_config(text).unwrap();
            assert_eq!((settings.driver, settings.cgroup_root.as_deref()), (None, root), "{text}");
        }
        assert!(matches!(KubeletCgroups::from_config("cgroupDriver: other"), Err(KubeletError::Driver(_))));
        assert!(matches!(KubeletCgroups::from_config("- a\n- b"), Err(KubeletError::Config(_))));
    }

    #[test]
    fn flags_are_gos() {
        let parse = |arguments: &[&str]| KubeletCgroups::from_arguments(arguments).unwrap();
        let (settings, config) = parse(&["--cgroup-driver=systemd", "--config=/k", "--v", "2"]);
        assert_eq!(settings.driver, Some(CgroupDriver::Systemd));
        assert_eq!(config, Some("/k".into()));
        let (settings, config) = parse(&["-cgroup-root", "/kubelet", "--v=2"]);
        assert_eq!((settings.cgroup_root.as_deref(), config), (Some("/kubelet"), None));
        assert!(KubeletCgroups::from_arguments(&["--cgroup-driver=x"]).is_err());
    }

    #[test]
    fn the_kubelets_own_files_are_read_as_it_sees_them() {
        let host = tempfile::tempdir().unwrap();
        let roots = Roots {
            proc: host.path().join("proc"),
            var_lib_kubelet: host.path().join("kubelet"),
            ..Roots::host()
        };
        assert_eq!(KubeletCgroups::read(&roots).unwrap(), None);
        write(&roots.var_lib_kubelet.join("config.yaml"), "cgroupDriver: cgroupfs");
        let read = || KubeletCgroups::read(&roots).unwrap().unwrap();
        assert_eq!(read().driver, Some(CgroupDriver::Cgroupfs), "no process is seen: the usual place");

        write(&roots.proc.join("7/comm"), "kubelet\n");
        write(&roots.proc.join("7/cmdline"), "/usr/bin/kubelet\0--config=/etc/k.yaml\0--cgroup-root=/x\0");
        assert_eq!(read().driver, None, "the file that it names is not there");
        write(&roots.proc.join("7/root/etc/k.yaml"), "cgroupDriver: systemd\ncgroupRoot: /y\n");
        assert_eq!(read().driver, Some(CgroupDriver::Systemd));
        assert_eq!(read().cgroup_root.as_deref(), Some("/x"), "the command line wins");
    }
}
