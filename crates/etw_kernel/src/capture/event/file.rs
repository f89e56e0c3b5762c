//! Files: their keys and names.

use super::Fields;

/// What happens to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum File<'a> {
    /// The name of a file, which is told before its key is used.
    Name(FileName<'a>),
}

/// The name of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileName<'a> {
    /// Stands for the file, as long as the system keeps it in memory; another file may get the key later, and is told
    /// then.
    pub key: u64,
    path: PathParts<'a>,
}

impl FileName<'_> {
    /// Puts the whole path.
    pub fn put_path(&self, to: &mut Vec<u8>) {
        self.path.put(to);
    }
}

/// A path as the kernel keeps it: parts, the last one first, each with its NUL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PathParts<'a> {
    parts: &'a [u8],
    /// Whether the begin of the path is missing.
    is_cut: bool,
}

impl PathParts<'_> {
    fn put(self, to: &mut Vec<u8>) {
        let before = to.len();
        if self.is_cut {
            to.extend_from_slice("/…".as_bytes());
        }
        let parts = self.parts.strip_suffix(&[0]).unwrap_or(self.parts);
        // The top of a file system that is not mounted is called `/`.
        for part in parts.rsplit(|byte| *byte == 0).filter(|part| !matches!(*part, [] | [b'/'])) {
            to.push(b'/');
            to.extend_from_slice(part);
        }
        if to.len() == before {
            to.push(b'/');
        }
    }
}

pub(super) fn name<'a>(is_cut: bool, fields: Fields<'a>) -> Option<File<'a>> {
    let parts = fields.bytes(16, usize::try_from(fields.u64(8)?).ok()?)?;
    Some(File::Name(FileName { key: fields.u64(0)?, path: PathParts { parts, is_cut } }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_put_together() {
        let check = |parts: &[u8], is_cut: bool, expected: &str| {
            let mut bytes = [7_u64, parts.len() as u64].map(u64::to_ne_bytes).concat();
            bytes.extend_from_slice(parts);
            let Some(File::Name(name)) = name(is_cut, Fields(&bytes)) else { panic!("{expected}") };
            let mut path = Vec::new();
            name.put_path(&mut path);
            assert_eq!((name.key, str::from_utf8(&path).unwrap()), (7, expected));
            assert_eq!(super::name(is_cut, Fields(&bytes[..bytes.len() - 1])), None);
        };
        check(b"", false, "/");
        check(b"c\0b\0a\0", false, "/a/b/c");
        check(b"memfd:x\0", false, "/memfd:x");
        check(b"b\0/\0", false, "/b");
        check(b"c\0b\0", true, "/…/b/c");
        check(b"", true, "/…");
    }
}
