//! Lines of a `mountinfo` file, as text only.

/// Whose mounts are those of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountsOf {
    /// The agent's: it runs on the host itself.
    Agent,
    /// Those of the host's process 1: the agent runs in a container, which has mounts of its own.
    HostInit,
}

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount<'a> {
    /// Number of the device, `MAJ:MIN`; anonymous (major 0) for file systems without one.
    pub number: &'a str,
    /// The directory of the file system that is mounted, `/` for the whole.
    pub root: String,
    /// Where it is mounted.
    pub point: String,
    /// The file system.
    pub fs_type: &'a str,
    /// What was mounted, as the mounting program named it.
    pub source: String,
    /// The super block's options.
    pub super_options: &'a str,
}

/// The mounts of a text, in mount order. Lines of any other form are skipped.
pub fn mounts(mountinfo: &str) -> impl Iterator<Item = Mount<'_>> {
    mountinfo.lines().filter_map(mount)
}

/// `id parent major:minor root point options [optional fields] - type source super-options`
fn mount(line: &str) -> Option<Mount<'_>> {
    // The number of optional fields varies; a lone `-` ends them (C061).
    let (before, after) = line.split_once(" - ")?;
    let mut fields = before.split_ascii_whitespace().skip(2);
    let (number, root, point) = (fields.next()?, fields.next()?, fields.next()?);
    // Not at any white space: an empty source is a field too.
    let mut fields = after.split(' ');
    let (fs_type, source) = (fields.next()?, fields.next()?);
    let super_options = fields.next().unwrap_or("");
    Some(Mount {
        number,
        root: unescape(root),
        point: unescape(point),
        fs_type,
        source: unescape(source),
        super_options,
    })
}

/// Undoes the kernel's `\ooo` escapes of blank, tab, line break and backslash.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 4).and_then(|octal| u8::from_str_radix(octal, 8).ok());
        match code {
            Some(byte) if byte.is_ascii() => {
                out.push(char::from(byte));
                rest = &rest[at + 4..];
            }
            _ => {
                out.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c061_optional_fields_may_be_none_or_many_and_escapes_are_undone() {
        let text = "36 35 98:0 /a\\040b /mnt\\0401 rw,noatime - ext4 /dev/vda1 rw,errors=continue\n\
                    37 35 0:21 / /x rw shared:1 master:2 - tmpfs  rw\n\
                    38 35 0:22 /\n\njunk - junk\n\
                    39 35 0:23 / /\\134 rw - tmpfs a\\x rw\n";
        let found: Vec<_> = mounts(text).collect();
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!((found[0].number, found[0].root.as_str()), ("98:0", "/a b"));
        assert_eq!((found[0].point.as_str(), found[0].source.as_str()), ("/mnt 1", "/dev/vda1"));
        assert_eq!((found[0].fs_type, found[0].super_options), ("ext4", "rw,errors=continue"));
        assert_eq!((found[1].source.as_str(), found[1].super_options), ("", "rw"));
        assert_eq!((found[2].point.as_str(), found[2].source.as_str()), ("/\\", "a\\x"));
    }
}
