use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use super::*;

/// Far longer than anything here takes: a test that needs it is broken, not slow.
const DEADLINE: Duration = Duration::from_secs(20);

fn pod(name: &str) -> String {
    format!("kind: Pod\nmetadata: {{name: {name}, uid: u-{name}}}\nspec: {{nodeName: n1}}\n")
}

#[expect(clippy::disallowed_methods, reason = "test files are made with plain writes, as editors do")]
fn put(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
}

fn follow(directory: &Path) -> ManifestDirectory {
    ManifestDirectory::follow(directory.to_owned(), "n1".to_owned()).unwrap()
}

fn pods(update: &ManifestUpdate) -> Vec<String> {
    update.objects.pods.values().map(|pod| pod.metadata.name.clone()).collect()
}

/// Waits until the state satisfies `wanted`.
fn wait_for(directory: &ManifestDirectory, what: &str, wanted: impl Fn(&ManifestUpdate) -> bool) {
    let mut updates = directory.updates();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let seen = runtime.block_on(async {
        let seen = updates.wait_for(|update| update.as_deref().is_some_and(&wanted));
        tokio::time::timeout(DEADLINE, seen).await.is_ok_and(|seen| seen.is_ok())
    });
    assert!(seen, "{what}: {:?}", directory.updates().borrow());
}

fn wait_for_pods(directory: &ManifestDirectory, names: &[&str]) {
    wait_for(directory, &format!("{names:?}"), |update| pods(update) == names);
}

#[test]
fn files_are_followed_from_birth_to_removal() {
    let dir = TempDir::new().unwrap();
    put(&dir.path().join("a.yaml"), &pod("a"));
    let followed = follow(dir.path());
    wait_for_pods(&followed, &["a"]);
    put(&dir.path().join("b.yml"), &pod("b"));
    wait_for_pods(&followed, &["a", "b"]);
    put(&dir.path().join("a.yaml"), &pod("c"));
    wait_for_pods(&followed, &["b", "c"]);
    fs::remove_file(dir.path().join("b.yml")).unwrap();
    wait_for_pods(&followed, &["c"]);
    put(&dir.path().join("notes.txt"), &pod("x"));
    put(&dir.path().join(".a.yaml.swp"), &pod("x"));
    put(&dir.path().join(".hidden.yaml"), &pod("x"));
    put(&dir.path().join("d.json"), "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"d\",\"uid\":\"u-d\"}}");
    wait_for_pods(&followed, &["c", "d"]);
}

#[test]
fn a_file_that_turns_bad_keeps_its_objects_until_it_is_good_again() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("a.yaml");
    put(&file, &pod("a"));
    let followed = follow(dir.path());
    wait_for_pods(&followed, &["a"]);
    put(&file, "kind: Pod\nmetadata: [");
    wait_for(&followed, "a bad file", |update| update.bad_files == 1);
    wait_for_pods(&followed, &["a"]);
    put(&file, &pod("b"));
    wait_for_pods(&followed, &["b"]);
    assert_eq!(followed.updates().borrow().as_ref().unwrap().bad_files, 0);
}

#[test]
fn renames_and_link_swaps_are_seen() {
    let dir = TempDir::new().unwrap();
    let at = |name: &str| dir.path().join(name);
    for (version, name) in [("..v1", "a"), ("..v2", "b"), ("..v3", "c")] {
        fs::create_dir(at(version)).unwrap();
        put(&at(version).join("pods.yaml"), &pod(name));
    }
    symlink("..v1", at("..data")).unwrap();
    symlink("..data/pods.yaml", at("pods.yaml")).unwrap();
    let followed = follow(dir.path());
    wait_for_pods(&followed, &["a"]);
    for (version, name) in [("..v2", "b"), ("..v3", "c"), ("..v1", "a")] {
        symlink(version, at("..data_tmp")).unwrap();
        fs::rename(at("..data_tmp"), at("..data")).unwrap();
        wait_for_pods(&followed, &[name]);
    }
    put(&at("new.tmp"), &pod("z"));
    fs::rename(at("new.tmp"), at("z.yaml")).unwrap();
    wait_for_pods(&followed, &["a", "z"]);
    fs::rename(at("z.yaml"), at("z.old")).unwrap();
    wait_for_pods(&followed, &["a"]);
    fs::hard_link(at("z.old"), at("y.yaml")).unwrap();
    wait_for_pods(&followed, &["a", "z"]);
}

#[test]
fn a_file_behind_a_link_out_of_the_directory_is_followed() {
    let (dir, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let target = elsewhere.path().join("real.yaml");
    put(&target, &pod("a"));
    symlink(&target, dir.path().join("a.yaml")).unwrap();
    let followed = follow(dir.path());
    wait_for_pods(&followed, &["a"]);
    put(&target, &pod("longer-name"));
    wait_for_pods(&followed, &["longer-name"]);
}

#[test]
fn a_directory_may_come_later_go_and_come_back() {
    let dir = TempDir::new().unwrap();
    let inner = dir.path().join("manifests");
    let followed = follow(&inner);
    fs::create_dir(&inner).unwrap();
    put(&inner.join("a.yaml"), &pod("a"));
    wait_for_pods(&followed, &["a"]);
    fs::rename(&inner, dir.path().join("aside")).unwrap();
    fs::create_dir(&inner).unwrap();
    put(&inner.join("b.yaml"), &pod("b"));
    wait_for_pods(&followed, &["b"]);
}

#[test]
fn an_empty_directory_is_an_answer() {
    let dir = TempDir::new().unwrap();
    let followed = follow(dir.path());
    wait_for(&followed, "nothing", |update| update.objects == crate::manifests::Objects::default());
}

#[test]
fn what_is_no_file_is_left_alone() {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("dir.yaml")).unwrap();
    nix::unistd::mkfifo(&dir.path().join("fifo.yaml"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    symlink("nowhere", dir.path().join("dangling.yaml")).unwrap();
    symlink("/dev/zero", dir.path().join("zero.yaml")).unwrap();
    put(&dir.path().join("a.yaml"), &pod("a"));
    wait_for_pods(&follow(dir.path()), &["a"]);
}

#[test]
fn a_file_half_written_is_not_read() {
    use std::io::Write;

    let dir = TempDir::new().unwrap();
    let file = dir.path().join("a.yaml");
    put(&file, &(pod("a") + "---\n" + &pod("b")));
    let followed = follow(dir.path());
    wait_for_pods(&followed, &["a", "b"]);
    let mut writer = fs::OpenOptions::new().write(true).truncate(true).open(&file).unwrap();
    for part in [pod("a"), "---\n".to_owned(), pod("b"), "---\n".to_owned(), pod("c")] {
        // Another file changes meanwhile, which makes the directory be looked at.
        put(&dir.path().join("other.yaml"), &part);
        writer.write_all(part.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(10));
        let state = pods(followed.updates().borrow().as_ref().unwrap());
        assert!(state.len() >= 2, "{state:?}");
    }
    drop(writer);
    wait_for_pods(&followed, &["a", "b", "c"]);
}

#[test]
fn without_inotify_a_file_is_read_when_two_looks_agree() {
    let dir = TempDir::new().unwrap();
    put(&dir.path().join("a.yaml"), &pod("a"));
    let mut scanner = Scanner::new(dir.path().to_owned(), "n1".to_owned());
    let nothing = Force::Names(std::collections::BTreeSet::new());
    let mut look = || {
        let look = scanner.look(&nothing, |_| false, true).unwrap();
        (look.again, pods(&scanner.update()).len())
    };
    assert_eq!(look(), (true, 0));
    assert_eq!(look(), (false, 1));
    put(&dir.path().join("a.yaml"), &(pod("a") + "---\n" + &pod("b")));
    assert_eq!(look(), (true, 1));
    assert_eq!(look(), (false, 2));
    assert_eq!(look(), (false, 2));
}
