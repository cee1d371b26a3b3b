//! Why eBPF (or one of its tracepoints) is not in use: typed, and shown by the log line, the metric and `doctor`.

use std::error::Error;
use std::io;

use aya::EbpfError;
use aya::maps::MapError;
use aya::programs::ProgramError;

use super::offsets::OffsetsError;

/// The reason. Every one of them leaves the agent running on files and inotify.
#[derive(Debug, thiserror::Error)]
pub enum WhyNot {
    /// `--ebpf=off`.
    #[error("switched off by --ebpf=off")]
    Off,
    /// `--cpu-usage-source=files`: the one tracepoint that counts CPU time is not attached.
    #[error("switched off by --cpu-usage-source=files")]
    UsageFromFiles,
    /// The agent was compiled without the object.
    #[error("built without eBPF")]
    NotBuiltIn,
    /// The kernel's type information is absent or unusable.
    #[error("no kernel type information (BTF)")]
    NoBtf(#[source] OffsetsError),
    /// Which hierarchy is which could not be found out.
    #[error("reading the cgroup hierarchies of this process failed")]
    Hierarchies(#[source] io::Error),
    /// The usage hierarchy's root directory could not be looked at.
    #[error("no usable CPU accounting hierarchy at {path}")]
    UsageRoot {
        /// Its root directory.
        path: std::path::PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The kernel forbids it: CAP_BPF and CAP_PERFMON (or CAP_SYS_ADMIN) are needed.
    #[error("not permitted: CAP_BPF and CAP_PERFMON (or CAP_SYS_ADMIN) are needed")]
    NotPermitted(#[source] Box<dyn Error + Send + Sync>),
    /// The object could not be parsed or its maps not made.
    #[error("loading the eBPF object failed")]
    Object(#[source] Box<EbpfError>),
    /// A map lacks or could not be used.
    #[error("using the eBPF map {name} failed")]
    Map {
        /// Its name.
        name: &'static str,
        /// Why; none if the object has no such map.
        #[source]
        source: Option<Box<MapError>>,
    },
    /// A map could not be mapped into memory or waited for.
    #[error("mapping or watching the eBPF map {name} failed")]
    MapAccess {
        /// Its name.
        name: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The kernel has no such tracepoint.
    #[error("the kernel has no tracepoint {0}")]
    NoTracepoint(String),
    /// The verifier refused a program.
    #[error("the kernel refused the program for {tracepoint}: {log_tail}")]
    Verifier {
        /// The tracepoint.
        tracepoint: String,
        /// The end of the verifier's log.
        log_tail: String,
        /// The error number.
        #[source]
        source: io::Error,
    },
    /// Loading or attaching one program failed otherwise.
    #[error("attaching to the tracepoint {tracepoint} failed")]
    Attach {
        /// The tracepoint.
        tracepoint: String,
        /// Why.
        #[source]
        source: Box<ProgramError>,
    },
}

impl WhyNot {
    /// A short fixed word for a metric's label.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::UsageFromFiles => "usage_from_files",
            Self::NotBuiltIn => "not_built_in",
            Self::NoBtf(_) => "no_btf",
            Self::Hierarchies(_) | Self::UsageRoot { .. } => "no_hierarchy",
            Self::NotPermitted(_) => "not_permitted",
            Self::Object(_) => "object",
            Self::Map { .. } | Self::MapAccess { .. } => "map",
            Self::NoTracepoint(_) => "no_tracepoint",
            Self::Verifier { .. } => "verifier",
            Self::Attach { .. } => "attach",
        }
    }

    /// The reason and its causes in one line.
    pub fn chain(&self) -> String {
        crate::error_chain::chain(self)
    }

    pub(super) fn object(error: EbpfError) -> Self {
        if is_permission(&error) {
            Self::NotPermitted(Box::new(error))
        } else {
            Self::Object(Box::new(error))
        }
    }

    pub(super) fn map(name: &'static str, error: MapError) -> Self {
        if is_permission(&error) {
            return Self::NotPermitted(Box::new(error));
        }
        Self::Map { name, source: Some(Box::new(error)) }
    }

    pub(super) fn program(tracepoint: &str, error: ProgramError) -> Self {
        let tracepoint = tracepoint.to_owned();
        match error {
            ProgramError::Btf(aya::BtfError::UnknownBtfTypeName { .. }) => Self::NoTracepoint(tracepoint),
            ProgramError::LoadError { io_error, verifier_log } => {
                let log = verifier_log.to_string();
                if log.trim().is_empty() && io_error.kind() == io::ErrorKind::PermissionDenied {
                    return Self::NotPermitted(Box::new(io_error));
                }
                Self::Verifier { tracepoint, log_tail: tail(&log), source: io_error }
            }
            error if is_permission(&error) => Self::NotPermitted(Box::new(error)),
            error => Self::Attach { tracepoint, source: Box::new(error) },
        }
    }
}

/// The end of the verifier's log without its statistics: there it says what it disliked.
fn tail(log: &str) -> String {
    const LINES: usize = 6;
    let lines: Vec<&str> = log
        .lines()
        .map(str::trim)
        .filter(|line| {
            !line.is_empty() && !line.starts_with("processed ") && !line.starts_with("verification time")
        })
        .collect();
    lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default().join(" | ")
}

/// Whether a permission error is among the causes.
fn is_permission(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::PermissionDenied) {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_verifiers_log_is_kept() {
        let log = "0: (b7) r0 = 0\n1: x\n2: y\n3: z\n4: a\n5: b\nR1 invalid mem access 'scalar'\n\
                   verification time 3 usec\nprocessed 7 insns (limit 1000000)\n";
        let tail = tail(log);
        assert!(tail.ends_with("R1 invalid mem access 'scalar'"), "{tail}");
        assert!(!tail.contains("0: (b7)"));
    }

    #[test]
    fn a_permission_error_is_found_beneath_others() {
        let denied = || io::Error::from_raw_os_error(libc::EPERM);
        let map = MapError::CreateError { name: "M".into(), io_error: denied() };
        let why = WhyNot::object(EbpfError::MapError(map));
        assert_eq!(why.label(), "not_permitted");
        assert!(
            why.chain().contains("CAP_BPF") && why.chain().contains("Operation not permitted"),
            "{}",
            why.chain()
        );
        let other = MapError::CreateError { name: "M".into(), io_error: io::Error::from_raw_os_error(22) };
        assert_eq!(WhyNot::object(EbpfError::MapError(other)).label(), "object");
    }
}
