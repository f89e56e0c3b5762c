//! Mappings as listed in `/proc/PID/maps`.

use std::io::{self, BufRead};
use std::ops::Range;

/// Related mappings of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mapped<'a> {
    /// Lowest address.
    pub(super) start: u64,
    /// End of the highest address range.
    pub(super) end: u64,
    /// End of the first mapping.
    pub(super) first_end: u64,
    /// Addresses of the first executable mapping.
    pub(super) code: Range<u64>,
    /// Device: major and minor number.
    pub(super) device: (u32, u32),
    pub(super) inode: u64,
    /// Path in the process's view.
    pub(super) path: &'a [u8],
}

/// The mappings collected so far.
#[derive(Default)]
struct Group {
    start: u64,
    end: u64,
    first_end: u64,
    last_offset: u64,
    device: (u32, u32),
    inode: u64,
    path: Vec<u8>,
    code: Option<Range<u64>>,
}

impl Group {
    fn end(&mut self, each: &mut impl FnMut(&Mapped<'_>)) {
        if let Some(code) = self.code.take() {
            let Group { start, end, first_end, device, inode, .. } = *self;
            each(&Mapped { start, end, first_end, code, device, inode, path: &self.path });
        }
        self.path.clear();
    }
}

/// Passes the images in the lines of `maps` to `each`: mappings of one file with increasing offsets, one of them
/// executable.
///
/// Memory without a file may lie between them. A file that is mapped again is another image.
///
/// # Errors
///
/// Returns the error of reading the lines.
pub(super) fn of_maps(mut maps: impl BufRead, mut each: impl FnMut(&Mapped<'_>)) -> io::Result<()> {
    let mut group = Group::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        if maps.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let Some(mapping) = Line::parse(&line) else { continue };
        let is_image = mapping.path.first() == Some(&b'/') || mapping.path == b"[vdso]";
        if !is_image {
            continue;
        }
        let goes_on = !group.path.is_empty()
            && (group.device, group.inode) == (mapping.device, mapping.inode)
            && group.last_offset <= mapping.offset
            && group.path == mapping.path;
        if !goes_on {
            group.end(&mut each);
            (group.start, group.first_end) = (mapping.start, mapping.end);
            (group.device, group.inode) = (mapping.device, mapping.inode);
            group.path.extend_from_slice(mapping.path);
        }
        (group.end, group.last_offset) = (mapping.end, mapping.offset);
        if mapping.is_executable && group.code.is_none() {
            group.code = Some(mapping.start..mapping.end);
        }
    }
    group.end(&mut each);
    Ok(())
}

/// A line of `maps`: `start-end rwxp offset major:minor inode path`.
struct Line<'a> {
    start: u64,
    end: u64,
    is_executable: bool,
    offset: u64,
    device: (u32, u32),
    inode: u64,
    path: &'a [u8],
}

impl<'a> Line<'a> {
    fn parse(line: &'a [u8]) -> Option<Line<'a>> {
        let mut fields = line.trim_ascii_end().splitn(6, |byte| *byte == b' ');
        let mut field = || str::from_utf8(fields.next()?).ok();
        let (start, end) = field()?.split_once('-')?;
        let rights = field()?;
        let offset = field()?;
        let (major, minor) = field()?.split_once(':')?;
        let inode = field()?;
        let hex = |digits| u64::from_str_radix(digits, 16).ok();
        Some(Line {
            start: hex(start)?,
            end: hex(end)?,
            is_executable: rights.as_bytes().get(2) == Some(&b'x'),
            offset: hex(offset)?,
            device: (hex(major)? as u32, hex(minor)? as u32),
            inode: inode.parse().ok()?,
            path: fields.next().unwrap_or_default().trim_ascii_start(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_a_file_are_one_image() {
        let maps = b"\
5000-6000 r--p 00000000 fe:00 7                          /usr/bin/a b\n\
6000-8000 r-xp 00001000 fe:00 7                          /usr/bin/a b\n\
8000-9000 rw-p 00003000 fe:00 7                          /usr/bin/a b\n\
9000-a000 rw-p 00000000 00:00 0 \n\
a000-b000 rw-p 00000000 00:00 0                          [heap]\n\
10000-11000 r--p 00000000 fe:00 8                        /usr/lib/locale\n\
20000-21000 r--p 00000000 fe:00 9                        /usr/lib/x.so\n\
21000-22000 r-xp 00001000 fe:00 9                        /usr/lib/x.so\n\
22000-24000 ---p 00000000 00:00 0 \n\
24000-25000 rw-p 00002000 fe:00 9                        /usr/lib/x.so\n\
25000-26000 r--p 00000000 fe:00 9                        /usr/lib/x.so\n\
26000-27000 r-xp 00001000 fe:00 9                        /usr/lib/x.so\n\
garbage\n\
30000-31000 r-xp 00000000 00:00 0                        [vdso]\n\
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0  [vsyscall]\n";
        let mut found = Vec::new();
        of_maps(&maps[..], |image| {
            let path = String::from_utf8(image.path.to_vec()).unwrap();
            found.push((image.start, image.end, image.first_end, image.code.start, image.inode, path));
        })
        .unwrap();
        assert_eq!(
            found,
            [
                (0x5000, 0x9000, 0x6000, 0x6000, 7, "/usr/bin/a b".to_owned()),
                (0x20000, 0x25000, 0x21000, 0x21000, 9, "/usr/lib/x.so".to_owned()),
                (0x25000, 0x27000, 0x26000, 0x26000, 9, "/usr/lib/x.so".to_owned()),
                (0x30000, 0x31000, 0x31000, 0x30000, 0, "[vdso]".to_owned()),
            ]
        );
    }
}
