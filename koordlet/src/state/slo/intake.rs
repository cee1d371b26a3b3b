//! The NodeSLO of the manifests into the policy, with file and line in every notice.

use super::merge::SloMerger;
use crate::manifests::{Object, Objects};

/// Takes the NodeSLO in force; without one the last spec stays (design.md 5). `None` when nothing changed,
/// else one line for each field that was refused.
pub fn take_node_slo(merger: &mut SloMerger, objects: &Objects) -> Option<Vec<String>> {
    let Some(found) = &objects.node_slo else {
        let first = !merger.slo().synced;
        merger.absent();
        return first.then(Vec::new);
    };
    let Object::NodeSlo(slo) = &found.object else { return None };
    let notices = merger.apply(&slo.spec)?;
    let file = found.file.display();
    Some(notices.iter().map(|notice| format!("{file}:{}: {notice}", found.line_of(&notice.field))).collect())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::manifests::merge::FileSet;
    use crate::manifests::parse::parse_file;

    fn objects(text: &str) -> Objects {
        let mut files = FileSet::default();
        files.put("slo.yaml", parse_file(Path::new("slo.yaml"), text.as_bytes(), "n1"));
        files.join().0.objects
    }

    #[test]
    fn a_refused_field_is_named_with_file_and_line() {
        let mut merger = SloMerger::default();
        let head = "# policy\nkind: NodeSLO\nmetadata: {name: n1}\nspec:\n  resourceUsedThresholdWithBE:\n    enable: true\n";
        assert_eq!(take_node_slo(&mut merger, &objects(head)), Some(vec![]));
        assert_eq!(take_node_slo(&mut merger, &objects(head)), None);
        let bad = format!("{head}    cpuSuppressThresholdPercent: 150\n");
        let lines = take_node_slo(&mut merger, &objects(&bad)).unwrap();
        assert_eq!(lines.len(), 1);
        let start = "slo.yaml:7: spec.resourceUsedThresholdWithBE.cpuSuppressThresholdPercent: 150 ";
        assert!(lines[0].starts_with(start), "{lines:?}");
        assert!(merger.slo().suppress.enable);
    }

    #[test]
    fn a_removed_nodeslo_leaves_the_last_spec_in_force() {
        let mut merger = SloMerger::default();
        assert_eq!(take_node_slo(&mut merger, &Objects::default()), Some(vec![]));
        assert_eq!(take_node_slo(&mut merger, &Objects::default()), None);
        let on = "kind: NodeSLO\nmetadata: {name: n1}\nspec: {resourceUsedThresholdWithBE: {enable: true}}";
        take_node_slo(&mut merger, &objects(on));
        assert_eq!(take_node_slo(&mut merger, &Objects::default()), None);
        assert!(merger.slo().suppress.enable);
    }
}
