//! Packages from Debian, installed only where they are missing.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::command::{capture, find_program, run};

/// Those of `packages` that are not installed.
pub(crate) fn missing<'a>(packages: &[&'a str]) -> Vec<&'a str> {
    packages.iter().copied().filter(|package| !is_installed(package)).collect()
}

/// Installs what is missing, saying so. Quick when there is nothing to do.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    let wanted = missing(packages);
    if wanted.is_empty() {
        return Ok(());
    }
    let list = wanted.join(" ");
    if find_program("apt-get").is_none() {
        bail!(
            "this needs the programs of Debian's packages {list}, and there is no apt-get to install them with"
        );
    }
    println!("installing from Debian: {list}");
    // An old or empty package list is the usual reason for a failure, so a refresh comes after one.
    if apt_install(&wanted).is_ok() {
        return Ok(());
    }
    capture(Command::new("apt-get").args(["-qq", "update"])).context("refreshing Debian's package list")?;
    apt_install(&wanted).with_context(|| format!("installing {list} (as root?)"))
}

/// Downloads a package and unpacks it into the folder `into`, which is not there yet or was made by this; nothing is
/// installed, and nothing that it holds is started.
pub(crate) fn unpack(package: &str, into: &Path) -> Result<()> {
    if into.exists() {
        return Ok(());
    }
    // What an interrupted run left behind may be half a file.
    let (packages, partial) = (into.with_extension("packages"), into.with_extension("partial"));
    for left in [&packages, &partial] {
        if left.exists() {
            fs::remove_dir_all(left)?;
        }
    }
    fs::create_dir_all(&packages)?;
    download(package, &packages)?;
    let file =
        fs::read_dir(&packages)?.flatten().map(|entry| entry.path()).next().context("no package came")?;
    capture(Command::new("dpkg").arg("-x").args([&file, &partial]))
        .with_context(|| format!("unpacking {package}"))?;
    fs::remove_dir_all(&packages)?;
    fs::rename(&partial, into).with_context(|| format!("making {}", into.display()))
}

fn download(package: &str, into: &Path) -> Result<()> {
    println!("downloading from Debian: {package}");
    let mut fetch = Command::new("apt-get");
    fetch.args(["-qq", "download", package]).current_dir(into);
    if capture(&mut fetch).is_ok() {
        return Ok(());
    }
    run(Command::new("apt-get").args(["-qq", "update"])).context("refreshing Debian's package list")?;
    capture(&mut fetch).map(drop)
}

fn apt_install(packages: &[&str]) -> Result<()> {
    let mut command = Command::new("apt-get");
    command.args(["-qq", "install", "-y", "--no-install-recommends"]).args(packages);
    capture(command.env("DEBIAN_FRONTEND", "noninteractive")).map(drop)
}

fn is_installed(package: &str) -> bool {
    let mut query = Command::new("dpkg-query");
    query.args(["-W", "-f=${db:Status-Status}", package]);
    capture(&mut query).is_ok_and(|status| status == "installed")
}
