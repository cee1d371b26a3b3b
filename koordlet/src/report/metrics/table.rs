//! The reference page of all families, `deploy/metrics.md`, made from their table.

use std::fmt::Write as _;

use super::families::{Descriptor, Family, Kind, Origin};

/// Text above the table.
const HEAD: &str = "\
# Metrics

Made by `cargo xtask metrics` from the table in `koordlet/src/report/metrics/families.rs`; do not edit.

`/internal-metrics` shows the health and the actions of the agent, `/external-metrics` resources, `/metrics` both.
Each answers in the classic text format, or in OpenMetrics 1.0.0 if the `Accept` header asks for it. A series has the
same name in both: counters of the reference whose name lacks `_total` are of type `unknown` in OpenMetrics, which
knows no such counters.

Names, types and labels of origin `reference` are those of Koordinator's node agent. Own names have the prefix
`koordlet_`, then the part of the agent, what is counted, and the base unit; counters end in `_total`, and nothing else
does. A family is shown once it has a value: parts that are off or have nothing to tell show no zeros. Series of pods
and containers end with their pod, and figures whose source has been silent for three of its rounds are not shown.

| name | type | labels | unit | page | origin | |
| --- | --- | --- | --- | --- | --- | --- |
";

/// The page, in Markdown.
pub fn markdown() -> String {
    let mut families: Vec<&Descriptor> = Family::ALL.iter().map(|family| family.descriptor()).collect();
    families.sort_by_key(|family| (family.origin != Origin::Reference, family.name));
    families.into_iter().fold(HEAD.to_owned(), |mut page, family| {
        let Descriptor { name, kind, page: shown, origin, unit, labels, help } = *family;
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let bounds = if kind == Kind::Histogram { " and `le`" } else { "" };
        let (kind, labels, shown, origin) = (kind.name(), labels.join(", "), shown.name(), origin.name());
        let line =
            format_args!("| `{name}` | {kind} | {labels}{bounds} | {unit} | {shown} | {origin} | {help} |");
        // A String takes everything.
        writeln!(page, "{line}").unwrap_or_default();
        page
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_reference_page_is_up_to_date() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/metrics.md");
        let written = fs::read_to_string(&file).unwrap_or_default();
        assert!(written == markdown(), "{} is stale: run cargo xtask metrics", file.display());
    }

    #[test]
    fn each_family_has_a_line() {
        let page = markdown();
        for family in Family::ALL {
            let start = format!("| `{}` |", family.descriptor().name);
            assert_eq!(page.lines().filter(|line| line.starts_with(&start)).count(), 1, "{start}");
        }
    }
}
