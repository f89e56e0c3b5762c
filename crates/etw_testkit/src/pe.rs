//! PE files that have nothing but resources, like the language files of Windows.

/// The type of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceType {
    /// A type with a name, such as `WEVT_TEMPLATE`. Names come before numbers.
    Name(&'static str),
    /// A type with a number; 11 is a message table.
    Id(u16),
}

/// Offset and address of the only section, and its alignment.
const SECTION_AT: usize = 0x200;
const SECTION_ADDRESS: u32 = 0x1000;
const TABLE_BYTES: usize = 16;
const ENTRY_BYTES: usize = 8;
const IS_TABLE_OR_NAME: u32 = 1 << 31;

/// Returns a 64-bit PE file with one resource of each type, all in one language. Types with names come first.
pub fn file(language: u16, resources: &[(ResourceType, &[u8])]) -> Vec<u8> {
    let section = resource_section(language, resources);
    let mut bytes = vec![0; SECTION_AT];
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    put(0, b"MZ");
    // The offset of the relocations of a DOS program, then that of the PE header.
    put(0x18, &[0x40, 0]);
    put(0x3C, &[0x40, 0]);
    put(0x40, b"PE\0\0");
    // Machine, number of sections, …, size of the optional header, flags.
    put(0x44, &[0x64, 0x86, 1, 0]);
    put(0x54, &[240, 0, 0x22, 0x20]);
    let optional = 0x58;
    put(optional, &[0x0B, 0x02]);
    put(optional + 108, &[16]);
    let size = section.len() as u32;
    let resources = optional + 112 + 2 * 8;
    put(resources, &[SECTION_ADDRESS.to_le_bytes(), size.to_le_bytes()].concat());
    let header = optional + 240;
    put(header, b".rsrc");
    let at = SECTION_AT as u32;
    put(header + 8, &[size, SECTION_ADDRESS, size, at].map(u32::to_le_bytes).concat());
    bytes.extend(section);
    bytes
}

/// Tables of types, names and languages, then the data entries, the names of types, and the data.
fn resource_section(language: u16, resources: &[(ResourceType, &[u8])]) -> Vec<u8> {
    let tables = TABLE_BYTES + ENTRY_BYTES * resources.len();
    let entries = tables + 2 * (TABLE_BYTES + ENTRY_BYTES) * resources.len();
    let mut rest_at = entries + 16 * resources.len();
    let (mut types, mut below, mut data_entries, mut rest) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let names = resources.iter().filter(|(kind, _)| matches!(kind, ResourceType::Name(_))).count();
    table(&mut types, names, resources.len() - names);
    for (index, (kind, data)) in resources.iter().enumerate() {
        let kind = match kind {
            ResourceType::Id(id) => u32::from(*id),
            ResourceType::Name(name) => {
                let at = rest_at as u32;
                let mut text = (name.len() as u16).to_le_bytes().to_vec();
                text.extend(name.encode_utf16().flat_map(u16::to_le_bytes));
                text.resize(text.len().next_multiple_of(4), 0);
                rest_at += text.len();
                rest.extend(text);
                at | IS_TABLE_OR_NAME
            }
        };
        let name_table = (tables + below.len()) as u32;
        words(&mut types, &[kind, name_table | IS_TABLE_OR_NAME]);
        table(&mut below, 0, 1);
        words(&mut below, &[1, (name_table + 24) | IS_TABLE_OR_NAME]);
        table(&mut below, 0, 1);
        words(&mut below, &[language.into(), (entries + 16 * index) as u32]);
        words(&mut data_entries, &[SECTION_ADDRESS + rest_at as u32, data.len() as u32, 0, 0]);
        let padded = data.len().next_multiple_of(4);
        rest.extend(*data);
        rest.resize(rest.len() + padded - data.len(), 0);
        rest_at += padded;
    }
    [types, below, data_entries, rest].concat()
}

fn table(out: &mut Vec<u8>, names: usize, ids: usize) {
    words(out, &[0, 0, 0, names as u32 | (ids as u32) << 16]);
}

fn words(out: &mut Vec<u8>, words: &[u32]) {
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}
