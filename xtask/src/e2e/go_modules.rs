//! Builds commands of a Go module at a fixed version, without a checkout: in a module of our own that requires it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::command::{capture, run};

/// Go that reads the modules used here.
const GO: &str = "1.26.0";

/// A module at a version.
pub(super) struct Module {
    path: &'static str,
    version: String,
    linker_flags: String,
}

impl Module {
    /// A module whose own requirements are all that it needs.
    pub(super) fn plain(path: &'static str, version: &str) -> Self {
        Self { path, version: format!("v{version}"), linker_flags: "-s -w".to_owned() }
    }

    /// Kubernetes, whose programs tell the version that the linker was told, and are of no use to a client without.
    pub(super) fn kubernetes(version: &str) -> Self {
        let minor = version.split('.').nth(1).unwrap_or_default();
        let base = "k8s.io/component-base/version";
        let linker_flags =
            format!("-s -w -X {base}.gitVersion=v{version} -X {base}.gitMajor=1 -X {base}.gitMinor={minor}");
        Self { path: "k8s.io/kubernetes", version: format!("v{version}"), linker_flags }
    }

    /// Its import path.
    pub(super) fn path(&self) -> &'static str {
        self.path
    }

    /// With a `v` in front.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Builds `cmd/NAME` of it to `into/NAME`. `work` is a folder for go.mod files, kept for the next program.
    pub(super) fn build(&self, name: &str, flags: &[&str], work: &Path, into: &Path) -> Result<()> {
        let folder = work.join(self.path.replace('/', "_"));
        fs::create_dir_all(&folder)?;
        self.write_requirements(&folder)?;
        // Under another name until it is whole: what is there counts as built.
        let partial = into.join(format!(".{name}"));
        let mut go = Command::new("nice");
        go.args(["-n", "5", "go", "build", "-mod=mod", "-ldflags", &self.linker_flags]).args(flags);
        go.arg("-o").arg(&partial).arg(format!("{}/cmd/{name}", self.path));
        run(go.current_dir(&folder)).with_context(|| format!("building {name}"))?;
        Ok(fs::rename(&partial, into.join(name))?)
    }

    fn write_requirements(&self, folder: &Path) -> Result<()> {
        let file = folder.join("go.mod");
        if fs::read_to_string(&file).is_ok_and(|text| text.contains(&self.version)) {
            return Ok(());
        }
        own_file(&file, &format!("module programs\n\ngo {GO}\n"))?;
        let answer = go(folder, &["mod", "download", "-json", &format!("{}@{}", self.path, self.version)])?;
        let downloaded: Value = serde_json::from_str(&answer).context("the answer of go mod download")?;
        let its_file = downloaded["GoMod"].as_str().context("no go.mod of the module")?;
        let its: Value = serde_json::from_str(&go(folder, &["mod", "edit", "-json", its_file])?)?;
        own_file(&file, &requirements(self.path, &self.version, &its))
    }
}

/// go.mod of a module that requires `path`. What `its` go.mod replaces by folders of its repository, which no module
/// proxy serves with it, is served as modules of their own: of Kubernetes 1.X.Y as 0.X.Y.
fn requirements(path: &str, version: &str, its: &Value) -> String {
    let mut text = format!("module programs\n\ngo {GO}\n\nrequire {path} {version}\n");
    let beside = version.replacen("v1.", "v0.", 1);
    for replace in its["Replace"].as_array().into_iter().flatten() {
        let (Some(old), Some(new)) = (replace["Old"]["Path"].as_str(), replace["New"]["Path"].as_str())
        else {
            continue;
        };
        if new.starts_with("./staging/") {
            text.extend(["replace ", old, " => ", old, " ", &beside, "\n"]);
        }
    }
    text
}

fn go(folder: &Path, arguments: &[&str]) -> Result<String> {
    capture(Command::new("go").args(arguments).current_dir(folder))
}

fn own_file(path: &Path, text: &str) -> Result<()> {
    use std::io::Write as _;
    let mut file = fs::File::options().create(true).truncate(true).write(true).open(path)?;
    file.write_all(text.as_bytes()).with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_the_repository_become_modules_of_the_same_release() {
        let its = serde_json::json!({"Replace": [
            {"Old": {"Path": "k8s.io/api"}, "New": {"Path": "./staging/src/k8s.io/api"}},
            {"Old": {"Path": "example.test/fork"}, "New": {"Path": "example.test/mine", "Version": "v1.0.0"}},
        ]});
        let text = requirements("k8s.io/kubernetes", "v1.36.3", &its);
        assert!(text.contains("\nrequire k8s.io/kubernetes v1.36.3\n"), "{text}");
        assert!(text.ends_with("\nreplace k8s.io/api => k8s.io/api v0.36.3\n"), "{text}");
    }

    #[test]
    fn kubernetes_is_told_its_version() {
        let module = Module::kubernetes("1.36.3");
        assert!(module.linker_flags.ends_with("gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"));
        assert!(module.linker_flags.contains("gitVersion=v1.36.3 "));
    }
}
