//! The names of the sections of a 64-bit little-endian ELF file: enough to see what a linker has left out.

/// Section names, or `None` when the bytes are no such file.
pub(crate) fn section_names(file: &[u8]) -> Option<Vec<String>> {
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let table = usize::try_from(number(file, 0x28, 8)?).ok()?;
    let (size, count, names) = (half(file, 0x3a)?, half(file, 0x3c)?, half(file, 0x3e)?);
    let header = |index: usize| table.checked_add(index.checked_mul(size)?);
    let text = usize::try_from(number(file, header(names)?.checked_add(0x18)?, 8)?).ok()?;
    (0..count)
        .map(|index| name(file, text.checked_add(usize::try_from(number(file, header(index)?, 4)?).ok()?)?))
        .collect()
}

fn name(file: &[u8], start: usize) -> Option<String> {
    let bytes = file.get(start..)?.split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(bytes).into_owned())
}

fn half(file: &[u8], offset: usize) -> Option<usize> {
    usize::try_from(number(file, offset, 2)?).ok()
}

fn number(file: &[u8], offset: usize, size: usize) -> Option<u64> {
    let bytes = file.get(offset..offset.checked_add(size)?)?;
    Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_programs_own_sections_are_found() {
        let this = std::fs::read(std::env::current_exe().expect("a path")).expect("readable");
        let names = section_names(&this).expect("an ELF file");
        assert!(names.iter().any(|name| name == ".text"), "{names:?}");
    }

    #[test]
    fn anything_else_is_none() {
        assert_eq!(section_names(b"not an object"), None);
        assert_eq!(section_names(b"\x7fELF\x02\x01"), None);
    }
}
