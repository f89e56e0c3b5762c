//! The kernel and its modules as images.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use etw_kernel_events::classes::{BuildId, Image, ImageDebugId};

use super::{Out, Phase, text_of};
use crate::images::elf;
use crate::proc::PROC;

/// The kernel or a module of it.
pub(super) struct KernelImage {
    pub(super) base: u64,
    len_bytes: u64,
    build_id: Option<BuildId>,
    name: Vec<u8>,
}

impl KernelImage {
    pub(super) fn put(&self, phase: Phase, out: &mut Out<'_>) {
        let KernelImage { base, len_bytes, build_id, .. } = *self;
        let (process_id, file_name) = (0, &self.name[..]);
        out.put(&Image { event: phase.of_image(), base, len_bytes, process_id, build_id, file_name });
        if let Some(build_id) = build_id {
            out.put(&ImageDebugId { base, process_id, build_id, file_name });
        }
    }
}

/// Returns the kernel itself, from `_text` to `_etext`; `None` if its address is hidden.
///
/// Its name is `vmlinux-` and the release.
pub(super) fn image(proc: &Path, sys: &Path) -> Option<KernelImage> {
    let text = text(proc)?;
    let release = text_of(&proc.join("sys/kernel/osrelease"));
    Some(KernelImage {
        base: text.start,
        len_bytes: text.end.checked_sub(text.start)?,
        build_id: elf::build_id_of_notes(&std::fs::read(sys.join("kernel/notes")).unwrap_or_default()),
        name: [b"vmlinux-", &release[..]].concat(),
    })
}

/// Returns the addresses of the kernel's code. The symbols of the running kernel are read once, which takes tens of
/// milliseconds.
fn text(proc: &Path) -> Option<Range<u64>> {
    static KNOWN: OnceLock<Range<u64>> = OnceLock::new();
    if proc != Path::new(PROC) {
        return text_of_symbols(&proc.join("kallsyms"));
    }
    if KNOWN.get().is_none() {
        let _ = KNOWN.set(text_of_symbols(&proc.join("kallsyms"))?);
    }
    KNOWN.get().cloned()
}

fn text_of_symbols(path: &Path) -> Option<Range<u64>> {
    let (mut base, mut end) = (None, None);
    let mut symbols = BufReader::with_capacity(64 * 1024, File::open(path).ok()?);
    let mut line = Vec::new();
    while base.is_none() || end.is_none() {
        line.clear();
        if symbols.read_until(b'\n', &mut line).ok()? == 0 {
            break;
        }
        // Symbols of modules have their module after the name.
        let mut fields = line.trim_ascii_end().splitn(3, |byte| *byte == b' ');
        let (address, _kind, name) = (fields.next(), fields.next(), fields.next());
        let place = match name {
            Some(b"_text") => &mut base,
            Some(b"_etext") => &mut end,
            _ => continue,
        };
        *place = address.and_then(hex);
        // Hidden addresses are all zero.
        if *place == Some(0) {
            return None;
        }
    }
    Some(base?..end?)
}

/// Passes each module to `each`, `None` for one whose address is hidden. The name is that of the module's file without
/// the directory.
pub(super) fn for_each_module(proc: &Path, sys: &Path, mut each: impl FnMut(Option<&KernelImage>)) {
    // A kernel that cannot load modules has no such file.
    let Ok(modules) = File::open(proc.join("modules")) else { return };
    for line in BufReader::new(modules).split(b'\n') {
        let Ok(line) = line else { return };
        // Name, size, references, users, state, address.
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let (Some(name), Some(size), Some(address)) = (fields.first(), fields.get(1), fields.get(5)) else {
            continue;
        };
        let size = str::from_utf8(size).ok().and_then(|size| size.parse().ok());
        let address = address.strip_prefix(b"0x").and_then(hex).filter(|address| *address != 0);
        let (Some(base), Some(len_bytes)) = (address, size) else {
            each(None);
            continue;
        };
        let name_text = String::from_utf8_lossy(name);
        let notes = sys.join("module").join(&*name_text).join("notes/.note.gnu.build-id");
        each(Some(&KernelImage {
            base,
            len_bytes,
            build_id: elf::build_id_of_notes(&std::fs::read(notes).unwrap_or_default()),
            name: [name, &b".ko"[..]].concat(),
        }));
    }
}

fn hex(digits: &[u8]) -> Option<u64> {
    u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}
