//! DLLs without code, whose exports lead to other DLLs.

use object::LittleEndian as LE;
use object::read::pe::{ExportTarget, PeFile64};

/// An export of a DLL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Export {
    pub(super) ordinal: u32,
    pub(super) name: Option<String>,
    /// Where it leads: `DLL.NAME` or `DLL.#ORDINAL`.
    pub(super) target: String,
}

/// Marks DLLs that [`encode`] has made, in the place of a program for MS-DOS.
const MARK: &[u8] = b"OpenETW forwards these functions";
const MARK_OFFSET: usize = 0x40;

/// Offsets in a file, and of its section in memory.
const PE_OFFSET: u32 = 0x60;
const DATA_OFFSET: u32 = 0x200;
const DATA_ADDRESS: u32 = 0x1000;
/// Bytes of `IMAGE_OPTIONAL_HEADER64` and of `IMAGE_EXPORT_DIRECTORY`.
const OPTIONAL_HEADER: u16 = 240;
const DIRECTORY: u32 = 40;
/// Largest number of ordinals.
const MAX_ORDINALS: u32 = 0x1_0000;

/// Returns whether a file is one that [`encode`] has made.
pub(super) fn is_forwarder(bytes: &[u8]) -> bool {
    bytes.get(MARK_OFFSET..).is_some_and(|rest| rest.starts_with(MARK))
}

/// Returns the exports of a DLL, each leading to the export itself in a DLL named `to`.
///
/// # Errors
///
/// Fails with the reason if the file is no DLL for x86-64, or has no exports.
pub(super) fn exports_to(bytes: &[u8], to: &str) -> Result<Vec<Export>, String> {
    let file = PeFile64::parse(bytes).map_err(|error| error.to_string())?;
    if file.nt_headers().file_header.machine.get(LE) != object::pe::IMAGE_FILE_MACHINE_AMD64 {
        return Err("not a DLL for x86-64".into());
    }
    let table = file.export_table().map_err(|error| error.to_string())?.ok_or("no exports")?;
    let exports = table.exports().map_err(|error| error.to_string())?;
    let encode = |export: object::read::pe::Export<'_>| {
        let name = export.name.map(|name| String::from_utf8_lossy(name).into_owned());
        let target = match &name {
            Some(name) => format!("{to}.{name}"),
            None => format!("{to}.#{}", export.ordinal.0),
        };
        Export { ordinal: export.ordinal.0.into(), name, target }
    };
    // Ordinals between others that the DLL does not use have no address.
    let is_used = |export: &object::read::pe::Export<'_>| !matches!(export.target, ExportTarget::Address(0));
    Ok(exports.into_iter().filter(is_used).map(encode).collect())
}

/// Makes exports of these names lead to a DLL, and adds those that are missing.
pub(super) fn redirect(exports: &mut Vec<Export>, names: impl Iterator<Item = &'static str>, to: &str) {
    for name in names {
        let target = format!("{to}.{name}");
        match exports.iter_mut().find(|export| export.name.as_deref() == Some(name)) {
            Some(export) => export.target = target,
            None => {
                let ordinal = exports.iter().map(|export| export.ordinal).max().unwrap_or(0) + 1;
                exports.push(Export { ordinal, name: Some(name.to_owned()), target });
            }
        }
    }
}

/// Encodes a DLL for x86-64 with these exports.
///
/// # Errors
///
/// Fails with the reason if there are none, or their ordinals are too far apart.
pub(super) fn encode(dll: &str, exports: &[Export]) -> Result<Vec<u8>, String> {
    let ordinals = || exports.iter().map(|export| export.ordinal);
    let (Some(first), Some(last)) = (ordinals().min(), ordinals().max()) else {
        return Err("no exports".into());
    };
    let count = last - first + 1;
    if count > MAX_ORDINALS {
        return Err(format!("{count} ordinals"));
    }
    let mut named: Vec<(&str, u32)> =
        exports.iter().filter_map(|export| Some((export.name.as_deref()?, export.ordinal - first))).collect();
    named.sort_unstable();
    // The directory, the addresses of functions, the addresses of names, their ordinals, and the texts.
    let functions = DATA_ADDRESS + DIRECTORY;
    let names = functions + 4 * count;
    let name_ordinals = names + 4 * named.len() as u32;
    let texts = name_ordinals + 2 * named.len() as u32;
    let mut text = Texts { start: texts, bytes: Vec::new() };
    let dll_name = text.add(dll);
    let mut targets = vec![0; count as usize];
    for export in exports {
        if let Some(place) = targets.get_mut((export.ordinal - first) as usize) {
            *place = text.add(&export.target);
        }
    }
    let mut data = Vec::new();
    let directory = [0, 0, 0, dll_name, first, count, named.len() as u32, functions, names, name_ordinals];
    put(&mut data, &directory);
    put(&mut data, &targets);
    for (name, _) in &named {
        let address = text.add(name);
        put(&mut data, &[address]);
    }
    data.extend(named.iter().flat_map(|(_, ordinal)| (*ordinal as u16).to_le_bytes()));
    data.extend(text.bytes);
    Ok(image(&data))
}

/// Texts with a zero at their end, at the end of the section.
struct Texts {
    start: u32,
    bytes: Vec<u8>,
}

impl Texts {
    /// Returns the address of the text.
    fn add(&mut self, text: &str) -> u32 {
        let address = self.start + self.bytes.len() as u32;
        self.bytes.extend(text.bytes().chain([0]));
        address
    }
}

/// Returns a file with one section, which is the export directory.
fn image(data: &[u8]) -> Vec<u8> {
    let len = data.len() as u32;
    let raw = len.next_multiple_of(DATA_OFFSET);
    let mut out = b"MZ".to_vec();
    out.resize(0x3C, 0);
    put(&mut out, &[PE_OFFSET]);
    out.extend(MARK);
    out.resize(PE_OFFSET as usize, 0);
    // IMAGE_FILE_HEADER: x86-64, one section, a DLL.
    out.extend(b"PE\0\0");
    put_short(&mut out, &[0x8664, 1]);
    put(&mut out, &[0, 0, 0]);
    put_short(&mut out, &[OPTIONAL_HEADER, 0x2022]);
    // IMAGE_OPTIONAL_HEADER64: no code, a base that is free to move, alignments, versions, sizes, the console's
    // subsystem, and data that cannot be executed.
    put_short(&mut out, &[0x20B, 0]);
    put(&mut out, &[0, raw, 0, 0, 0, 0x8000_0000, 1, 0x1000, DATA_OFFSET, 4, 0, 4, 0]);
    put(&mut out, &[DATA_ADDRESS + len.next_multiple_of(0x1000), DATA_OFFSET, 0]);
    put_short(&mut out, &[3, 0x140]);
    put(&mut out, &[0x10_0000, 0, 0x1000, 0, 0x10_0000, 0, 0x1000, 0, 0, 16]);
    put(&mut out, &[DATA_ADDRESS, len]);
    put(&mut out, &[0; 30]);
    // IMAGE_SECTION_HEADER: initialised data that can be read.
    out.extend(b".edata\0\0");
    put(&mut out, &[len, DATA_ADDRESS, raw, DATA_OFFSET, 0, 0, 0, 0x4000_0040]);
    out.resize(DATA_OFFSET as usize, 0);
    out.extend(data);
    out.resize((DATA_OFFSET + raw) as usize, 0);
    out
}

fn put(out: &mut Vec<u8>, words: &[u32]) {
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

fn put_short(out: &mut Vec<u8>, words: &[u16]) {
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwarders_are_dlls_with_these_exports() {
        let export = |ordinal, name: Option<&str>, target: &str| Export {
            ordinal,
            name: name.map(str::to_owned),
            target: target.to_owned(),
        };
        let mut exports = vec![export(5, Some("Zero"), "a.Zero"), export(2, None, "a.#2")];
        redirect(&mut exports, ["One", "Zero"].into_iter(), "b");
        let bytes = encode("c.dll", &exports).unwrap();
        assert!(is_forwarder(&bytes) && !is_forwarder(b"MZ"));
        let file = PeFile64::parse(&*bytes).unwrap();
        let table = file.export_table().unwrap().unwrap();
        let mut found: Vec<_> = table
            .exports()
            .unwrap()
            .into_iter()
            .filter(|export| !matches!(export.target, ExportTarget::Address(0)))
            .map(|export| {
                let target = match export.target {
                    ExportTarget::ForwardByName(dll, name) => {
                        format!("{}.{}", String::from_utf8_lossy(dll), String::from_utf8_lossy(name))
                    }
                    ExportTarget::ForwardByOrdinal(dll, ordinal) => {
                        format!("{}.#{}", String::from_utf8_lossy(dll), ordinal.0)
                    }
                    ExportTarget::Address(address) => panic!("{address:#x}"),
                };
                (export.ordinal.0, export.name.map(|name| String::from_utf8(name.to_vec()).unwrap()), target)
            })
            .collect();
        found.sort();
        let wanted = [(2, None, "a.#2"), (5, Some("Zero"), "b.Zero"), (6, Some("One"), "b.One")];
        let wanted = wanted.map(|(ordinal, name, to)| (ordinal, name.map(str::to_owned), to.to_owned()));
        assert_eq!(found, wanted);
        let again = exports_to(&bytes, "d").unwrap();
        assert_eq!(again.iter().filter(|export| export.target == "d.One").count(), 1);
        assert_eq!(again.len(), 3);
    }

    #[test]
    fn what_is_no_dll_is_refused() {
        assert!(exports_to(b"MZ and no more", "a").is_err());
        assert!(exports_to(b"", "a").is_err());
        assert!(encode("c.dll", &[]).is_err());
        let far = |ordinal| Export { ordinal, name: None, target: String::new() };
        assert!(encode("c.dll", &[far(1), far(0x2_0000)]).is_err());
    }
}
