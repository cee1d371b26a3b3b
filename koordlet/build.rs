//! Embeds the eBPF object that `cargo xtask build-ebpf` left at `<target>/bpf/koordlet.bpf.o`, or the one that
//! `KOORDLET_BPF_OBJECT` names. Without one the agent is built all the same, and reads files instead.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

const OVERRIDE: &str = "KOORDLET_BPF_OBJECT";
const OBJECT: &str = "koordlet.bpf.o";

fn main() -> io::Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed={OVERRIDE}");
    let (object, watched) = if let Some(path) = env::var_os(OVERRIDE).map(PathBuf::from) {
        (path.clone(), path)
    } else {
        // The folder is made so that it can be watched: a missing path would rebuild the crate each time.
        let folder = target_root(&out).join("bpf");
        fs::create_dir_all(&folder)?;
        (folder.join(OBJECT), folder)
    };
    println!("cargo:rerun-if-changed={}", watched.display());

    let embedded = if object.is_file() {
        fs::copy(&object, out.join(OBJECT))?;
        format!("Some(aya::include_bytes_aligned!(concat!(env!(\"OUT_DIR\"), \"/{OBJECT}\")))")
    } else {
        println!(
            "cargo:warning=built without eBPF: no {}; run `cargo xtask build-ebpf` first",
            object.display()
        );
        "None".to_owned()
    };
    let text = format!(
        "/// The eBPF object, if one was there when the agent was compiled.\n\
         pub const EMBEDDED: Option<&[u8]> = {embedded};\n"
    );
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).open(out.join("embedded.rs"))?;
    io::Write::write_all(&mut file, text.as_bytes())
}

/// The target folder: `CARGO_TARGET_DIR`, else the outermost folder above `OUT_DIR` that cargo has marked.
fn target_root(out: &Path) -> PathBuf {
    if let Some(folder) = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from).filter(|path| path.is_absolute())
    {
        return folder;
    }
    let marked = out.ancestors().filter(|folder| folder.join("CACHEDIR.TAG").is_file()).last();
    marked.unwrap_or(out).to_owned()
}
