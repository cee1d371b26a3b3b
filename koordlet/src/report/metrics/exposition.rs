//! Writes one page of series, in the classic text format or OpenMetrics.
//!
//! Not left to a client library: those add `_total` to every counter, which several of the reference's names lack
//! (collection.md 12), and keep a copy of each series, where a page is to show what the snapshots hold now.

use std::fmt::Write as _;

use super::families::{Descriptor, Family, Kind, Page};

/// Which series a path shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// `/internal-metrics`: health and actions of the agent.
    Internal,
    /// `/external-metrics`: resources.
    External,
    /// `/metrics`: both.
    All,
}

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Version 0.0.4 of the text format, with the reference's names as they are.
    Classic,
    /// OpenMetrics 1.0.0. A counter's series must end in `_total` there. So that one and the same series has one name
    /// in both formats, a counter of the reference whose name does not is of type `unknown` there.
    OpenMetrics,
}

/// A page that is being written.
#[derive(Debug)]
pub struct Exposition<'a> {
    text: String,
    format: Format,
    scope: Scope,
    node: &'a str,
}

impl<'a> Exposition<'a> {
    /// An empty page of the node `node`, with room for so many bytes.
    pub fn new(format: Format, scope: Scope, node: &'a str, room: usize) -> Self {
        Self { text: String::with_capacity(room), format, scope, node }
    }

    /// Has `write` write the series of `family`, if the page shows it. A family is written once a page; one without
    /// series leaves no trace.
    pub fn family(&mut self, family: Family, write: impl FnOnce(&mut Series<'_, 'a>)) {
        let descriptor = family.descriptor();
        let shown = match self.scope {
            Scope::All => true,
            Scope::Internal => descriptor.page == Page::Internal,
            Scope::External => descriptor.page == Page::External,
        };
        if shown {
            write(&mut Series { page: self, descriptor, is_headed: false });
        }
    }

    /// The text.
    pub fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

/// The series of one family that is being written.
#[derive(Debug)]
pub struct Series<'p, 'a> {
    page: &'p mut Exposition<'a>,
    descriptor: &'static Descriptor,
    is_headed: bool,
}

impl Series<'_, '_> {
    /// One series. `labels` are the values of the family's labels in their order, without `node`.
    pub fn value(&mut self, labels: &[&str], value: f64) {
        self.start(labels, self.value_suffix(), None);
        push_number(&mut self.page.text, value);
        self.page.text.push('\n');
    }

    /// One series with a whole number.
    pub fn count(&mut self, labels: &[&str], count: u64) {
        self.start(labels, self.value_suffix(), None);
        writeln(&mut self.page.text, count);
    }

    /// One histogram: the sum of what was observed, and the number of observations up to each bound that were above
    /// the one before; the last bound is infinite.
    pub fn histogram(&mut self, labels: &[&str], sum: f64, buckets: &[(f64, u64)]) {
        let mut below = 0u64;
        for (bound, count) in buckets {
            below = below.saturating_add(*count);
            self.start(labels, "_bucket", Some(*bound));
            writeln(&mut self.page.text, below);
        }
        self.start(labels, "_sum", None);
        push_number(&mut self.page.text, sum);
        self.page.text.push('\n');
        self.start(labels, "_count", None);
        writeln(&mut self.page.text, below);
    }

    /// OpenMetrics names the family without the ending that its series have.
    fn name(&self) -> &'static str {
        let Descriptor { name, kind, .. } = *self.descriptor;
        match (self.page.format, kind) {
            (Format::OpenMetrics, Kind::Counter) => name.strip_suffix("_total").unwrap_or(name),
            _ => name,
        }
    }

    fn value_suffix(&self) -> &'static str {
        if self.name() == self.descriptor.name { "" } else { "_total" }
    }

    /// Head of the family, if it is the first one, and the series up to the blank before the value.
    fn start(&mut self, labels: &[&str], suffix: &str, bound: Option<f64>) {
        if !std::mem::replace(&mut self.is_headed, true) {
            self.head();
        }
        let Descriptor { labels: names, name, .. } = *self.descriptor;
        let own = names.strip_prefix(&["node"]);
        debug_assert_eq!(own.unwrap_or(names).len(), labels.len(), "{name}: a value for each label");
        let family = self.name();
        let text = &mut self.page.text;
        text.push_str(family);
        text.push_str(suffix);
        let mut separator = '{';
        let mut label = |name: &str, value: &str| {
            text.push(std::mem::replace(&mut separator, ','));
            text.push_str(name);
            text.push_str("=\"");
            push_escaped(text, value);
            text.push('"');
        };
        if own.is_some() {
            label("node", self.page.node);
        }
        for (name, value) in own.unwrap_or(names).iter().zip(labels) {
            label(name, value);
        }
        if let Some(bound) = bound {
            label("le", &if bound.is_finite() { format!("{bound:?}") } else { "+Inf".to_owned() });
        }
        if separator == ',' {
            text.push('}');
        }
        text.push(' ');
    }

    fn head(&mut self) {
        let Descriptor { name, kind, unit, help, .. } = *self.descriptor;
        let family = self.name();
        let open = self.page.format == Format::OpenMetrics;
        let is_nameless = open && kind == Kind::Counter && !name.ends_with("_total");
        let kind = if is_nameless { "unknown" } else { kind.name() };
        let text = &mut self.page.text;
        writeln(text, format_args!("# HELP {family} {help}."));
        writeln(text, format_args!("# TYPE {family} {kind}"));
        if open && family.strip_suffix(unit).is_some_and(|start| start.ends_with('_')) {
            writeln(text, format_args!("# UNIT {family} {unit}"));
        }
    }
}

fn writeln(text: &mut String, line: impl std::fmt::Display) {
    // A String takes everything.
    writeln!(text, "{line}").unwrap_or_default();
}

/// A number as both formats want it.
fn push_number(text: &mut String, value: f64) {
    let written = if value.is_nan() {
        text.write_str("NaN")
    } else if value.is_infinite() {
        text.write_str(if value > 0.0 { "+Inf" } else { "-Inf" })
    } else {
        write!(text, "{value}")
    };
    // A String takes everything.
    written.unwrap_or_default();
}

/// A label's value: both formats escape backslash, quote and newline. A NUL ends the text for some readers, so it is
/// replaced; no object of Kubernetes has one in its name.
fn push_escaped(text: &mut String, mut value: &str) {
    while let Some(at) = value.find(['\\', '"', '\n', '\0']) {
        let (plain, rest) = value.split_at(at);
        text.push_str(plain);
        text.push_str(match rest.as_bytes().first() {
            Some(b'\\') => "\\\\",
            Some(b'"') => "\\\"",
            Some(b'\n') => "\\n",
            _ => "\u{fffd}",
        });
        value = rest.get(1..).unwrap_or_default();
    }
    text.push_str(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(format: Format, scope: Scope, write: impl FnOnce(&mut Exposition<'_>)) -> String {
        let mut page = Exposition::new(format, scope, "n1", 0);
        write(&mut page);
        page.finish()
    }

    #[test]
    fn a_family_without_series_leaves_no_trace() {
        let text = page(Format::Classic, Scope::All, |page| page.family(Family::KnownPods, |_| {}));
        assert_eq!(text, "");
        let text = page(Format::OpenMetrics, Scope::All, |page| page.family(Family::KnownPods, |_| {}));
        assert_eq!(text, "# EOF\n");
    }

    #[test]
    fn a_counter_is_named_as_each_format_demands() {
        let write = |page: &mut Exposition<'_>| {
            page.family(Family::PartSeconds, |series| series.value(&["sample"], 0.25));
            page.family(Family::CollectNodeCpuInfo, |series| series.count(&["failed"], 2));
        };
        assert_eq!(
            page(Format::Classic, Scope::All, write),
            "# HELP koordlet_part_seconds_total Time that the runs of a part took.\n\
             # TYPE koordlet_part_seconds_total counter\n\
             koordlet_part_seconds_total{node=\"n1\",part=\"sample\"} 0.25\n\
             # HELP koordlet_collect_node_cpu_info_status Readings of the node's CPUs.\n\
             # TYPE koordlet_collect_node_cpu_info_status counter\n\
             koordlet_collect_node_cpu_info_status{node=\"n1\",status=\"failed\"} 2\n"
        );
        assert_eq!(
            page(Format::OpenMetrics, Scope::All, write),
            "# HELP koordlet_part_seconds Time that the runs of a part took.\n\
             # TYPE koordlet_part_seconds counter\n\
             # UNIT koordlet_part_seconds seconds\n\
             koordlet_part_seconds_total{node=\"n1\",part=\"sample\"} 0.25\n\
             # HELP koordlet_collect_node_cpu_info_status Readings of the node's CPUs.\n\
             # TYPE koordlet_collect_node_cpu_info_status unknown\n\
             koordlet_collect_node_cpu_info_status{node=\"n1\",status=\"failed\"} 2\n\
             # EOF\n"
        );
    }

    #[test]
    fn a_page_has_its_families_alone() {
        let write = |page: &mut Exposition<'_>| {
            page.family(Family::KnownPods, |series| series.count(&[], 1));
            page.family(Family::ResctrlLlcOccupancy, |series| series.count(&["0", "LS"], 1));
        };
        let internal = page(Format::Classic, Scope::Internal, write);
        let external = page(Format::Classic, Scope::External, write);
        assert!(internal.contains("koordlet_known_pods{node=\"n1\"} 1\n") && !internal.contains("resctrl"));
        assert!(
            external.contains("{node=\"n1\",cache_id=\"0\",qos=\"LS\"} 1\n") && !external.contains("known")
        );
        assert_eq!(page(Format::Classic, Scope::All, write), internal + &external);
    }

    #[test]
    fn a_histogram_counts_from_below() {
        let buckets = [(0.01, 1), (163.84, 2), (f64::INFINITY, 3)];
        let text = page(Format::OpenMetrics, Scope::All, |page| {
            page.family(Family::ResourceUpdateDuration, |series| {
                series.histogram(&["success", "cgroup"], 1.5, &buckets);
            });
        });
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let name = "koordlet_resource_update_duration_milliseconds";
        let labels = "status=\"success\",type=\"cgroup\"";
        assert_eq!(
            lines,
            [
                format!("{name}_bucket{{{labels},le=\"0.01\"}} 1"),
                format!("{name}_bucket{{{labels},le=\"163.84\"}} 3"),
                format!("{name}_bucket{{{labels},le=\"+Inf\"}} 6"),
                format!("{name}_sum{{{labels}}} 1.5"),
                format!("{name}_count{{{labels}}} 6"),
            ]
        );
    }

    #[test]
    fn numbers_and_label_values_of_any_kind_are_written() {
        let number = |value| {
            let mut text = String::new();
            push_number(&mut text, value);
            text
        };
        let numbers = [1024.0, -0.5, 1e21, f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(number);
        assert_eq!(numbers, ["1024", "-0.5", "1000000000000000000000", "NaN", "+Inf", "-Inf"]);
        let escaped = |value: &str| {
            let mut text = String::new();
            push_escaped(&mut text, value);
            text
        };
        assert_eq!(escaped("a\\\"b\nc\0"), "a\\\\\\\"b\\nc\u{fffd}");
        assert_eq!(escaped("ü\r\t🦀=,{}"), "ü\r\t🦀=,{}");
        assert_eq!(escaped(&"x".repeat(253)), "x".repeat(253));
        assert_eq!(escaped("\\"), "\\\\");
    }
}
