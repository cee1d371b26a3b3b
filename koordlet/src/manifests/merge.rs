//! The files of the directory joined: last good objects of a file that turned bad, one object of each
//! identity, the same result for the same files in whatever order they changed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use super::objects::{Identity, Located, Object};
use super::parse::ParsedFile;
use crate::api::node::Node;
use crate::api::pod::Pod;
use crate::api::topology::NodeResourceTopology;

/// All objects in force.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {
    /// This node.
    pub node: Option<Arc<Node>>,
    /// Pods by UID.
    pub pods: BTreeMap<String, Arc<Pod>>,
    /// The policy with its place, a [`Object::NodeSlo`].
    pub node_slo: Option<Located>,
    /// The topology object.
    pub topology: Option<Arc<NodeResourceTopology>>,
}

/// What changed hands after a change of the directory: always the whole, so that nothing can be missed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ManifestUpdate {
    /// All objects in force.
    pub objects: Objects,
    /// Errors since the start.
    pub errors: u64,
    /// Files that are bad at present.
    pub bad_files: usize,
}

/// The objects of each file.
#[derive(Debug, Default)]
pub struct FileSet {
    files: BTreeMap<OsString, FileObjects>,
    errors: u64,
}

#[derive(Debug, Default)]
struct FileObjects {
    objects: Vec<Located>,
    is_bad: bool,
}

impl FileSet {
    /// Takes a new version of a file. If it has errors, objects of the last version that the new one does
    /// not hold stay in force; returned is how many.
    pub fn put(&mut self, name: impl AsRef<OsStr>, parsed: ParsedFile) -> usize {
        let is_bad = !parsed.errors.is_empty();
        self.errors += parsed.errors.len() as u64;
        let file = self.files.entry(name.as_ref().to_owned()).or_default();
        let last = std::mem::replace(&mut file.objects, parsed.objects);
        file.is_bad = is_bad;
        share_equal(&last, &mut file.objects);
        if !is_bad {
            return 0;
        }
        let new: BTreeSet<Identity> = file.objects.iter().map(|found| found.object.identity()).collect();
        let before = file.objects.len();
        file.objects.extend(last.into_iter().filter(|found| !new.contains(&found.object.identity())));
        file.objects.len() - before
    }

    /// Forgets a file that was removed.
    pub fn remove(&mut self, name: impl AsRef<OsStr>) {
        self.files.remove(name.as_ref());
    }

    /// Joins all files; of objects with one identity the last by file name and place counts. The second
    /// result has a line for each object that lost.
    pub fn join(&self) -> (ManifestUpdate, Vec<String>) {
        let mut winners: BTreeMap<Identity, &Located> = BTreeMap::new();
        let mut lost = Vec::new();
        for found in self.files.values().flat_map(|file| &file.objects) {
            if let Some(loser) = winners.insert(found.object.identity(), found) {
                let (object, file, line) = (&loser.object, loser.file.display(), loser.line);
                let by = (found.file.display(), found.line);
                lost.push(format!("{object} of {file}:{line} is replaced by the one of {}:{}", by.0, by.1));
            }
        }
        let mut objects = Objects::default();
        for found in winners.into_values() {
            match &found.object {
                Object::Node(node) => objects.node = Some(Arc::clone(node)),
                Object::Pod(pod) => {
                    objects.pods.insert(pod.metadata.uid.clone(), Arc::clone(pod));
                }
                Object::NodeSlo(_) => objects.node_slo = Some(found.clone()),
                Object::Topology(topology) => objects.topology = Some(Arc::clone(topology)),
            }
        }
        let bad_files = self.files.values().filter(|file| file.is_bad).count();
        (ManifestUpdate { objects, errors: self.errors, bad_files }, lost)
    }
}

/// Takes over the former object where the new one is equal: what is unchanged stays where it is in memory.
fn share_equal(last: &[Located], new: &mut [Located]) {
    let last: BTreeMap<Identity, &Object> =
        last.iter().map(|found| (found.object.identity(), &found.object)).collect();
    for found in new {
        if let Some(former) = last.get(&found.object.identity()).filter(|former| ***former == found.object) {
            found.object = (*former).clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::manifests::parse::parse_file;

    fn pod(name: &str, uid: &str) -> String {
        format!("kind: Pod\nmetadata: {{name: {name}, uid: {uid}}}\n---\n")
    }

    fn put(files: &mut FileSet, name: &str, text: &str) -> usize {
        files.put(name, parse_file(Path::new(name), text.as_bytes(), "n1"))
    }

    fn names(files: &FileSet) -> Vec<String> {
        files.join().0.objects.pods.values().map(|pod| pod.metadata.name.clone()).collect()
    }

    #[test]
    fn a_file_that_turns_bad_keeps_its_last_good_objects() {
        let mut files = FileSet::default();
        put(&mut files, "a.yaml", &(pod("one", "u1") + &pod("two", "u2")));
        assert_eq!(put(&mut files, "a.yaml", "kind: Pod\nmetadata: ["), 2);
        assert_eq!(names(&files), ["one", "two"]);
        assert_eq!(put(&mut files, "a.yaml", &(pod("uno", "u1") + "kind: []\n")), 1);
        assert_eq!(names(&files), ["uno", "two"]);
        let update = files.join().0;
        assert_eq!((update.errors, update.bad_files), (2, 1));
        assert_eq!(put(&mut files, "a.yaml", &pod("uno", "u1")), 0);
        assert_eq!(names(&files), ["uno"]);
        files.remove("a.yaml");
        assert_eq!(files.join().0, ManifestUpdate { errors: 2, ..ManifestUpdate::default() });
    }

    #[test]
    fn unchanged_objects_are_shared_with_the_last_version() {
        let mut files = FileSet::default();
        put(&mut files, "a.yaml", &(pod("one", "u1") + &pod("two", "u2")));
        let before = files.join().0.objects;
        put(&mut files, "a.yaml", &(pod("uno", "u1") + &pod("two", "u2")));
        let after = files.join().0.objects;
        assert!(!Arc::ptr_eq(&before.pods["u1"], &after.pods["u1"]));
        assert!(Arc::ptr_eq(&before.pods["u2"], &after.pods["u2"]));
    }

    #[test]
    fn file_names_that_are_no_text_are_told_apart() {
        use std::os::unix::ffi::OsStrExt as _;
        let mut files = FileSet::default();
        for (name, uid) in [(b"\xfe.yaml", "u1"), (b"\xff.yaml", "u2")] {
            let name = OsStr::from_bytes(name);
            files.put(name, parse_file(Path::new(name), pod(uid, uid).as_bytes(), "n1"));
        }
        assert_eq!(names(&files), ["u1", "u2"]);
    }

    #[test]
    fn of_two_pods_with_one_uid_the_last_by_file_name_counts() {
        for order in [["a.yaml", "b.yaml"], ["b.yaml", "a.yaml"]] {
            let mut files = FileSet::default();
            for name in order {
                put(&mut files, name, &pod(&name[..1], "u1"));
            }
            assert_eq!(names(&files), ["b"]);
            let lost = files.join().1;
            assert_eq!(lost, ["Pod default/a of a.yaml:1 is replaced by the one of b.yaml:1"]);
        }
    }
}
