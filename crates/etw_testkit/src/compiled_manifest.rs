//! A compiled manifest (`WEVT_TEMPLATE`) with every feature, including those that no published file uses: structs,
//! counts from another item, bit maps, opcodes of one task.

use etw_event::Guid;

/// GUID of the provider in [`compiled_manifest`].
pub const PROVIDER: Guid = Guid::from_u128(0x1f3a2c5e_7d41_4b8e_9a60_52c7d0e1f234);

/// Sequence of blocks; tables follow the blocks that they refer to.
struct Blocks(Vec<u8>);

impl Blocks {
    fn here(&self) -> u32 {
        self.0.len() as u32
    }

    /// Appends 32-bit numbers; returns their offset.
    fn words(&mut self, words: &[u32]) -> u32 {
        let at = self.here();
        self.0.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        at
    }

    fn text(&mut self, text: &str) {
        self.0.extend(text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
    }

    /// Appends a name: its size, then UTF-16.
    fn name(&mut self, name: &str) -> u32 {
        let at = self.words(&[4 + 2 * (name.len() as u32 + 1)]);
        self.text(name);
        at
    }

    /// Appends the signature and size of a block with `len` bytes of contents.
    fn block(&mut self, signature: &[u8; 4], len: usize) -> u32 {
        let at = self.here();
        self.0.extend(signature);
        self.words(&[8 + len as u32]);
        at
    }

    fn patch(&mut self, at: usize, words: &[u32]) {
        for (place, byte) in self.0.iter_mut().skip(at).zip(words.iter().flat_map(|word| word.to_le_bytes()))
        {
            *place = byte;
        }
    }
}

const MAX_ELEMENTS: usize = 9;
const WEVT_AT: usize = 36;
const NO_MESSAGE: u32 = u32::MAX;

/// Returns the bytes of a compiled manifest: one provider with two events of version 1.
///
/// Event 5 has a count, an array of structs with that count, a map, and a binary with its own length; event 6 has no
/// template.
pub fn compiled_manifest() -> Vec<u8> {
    compiled_manifest_of(PROVIDER, Some("Made"))
}

/// Returns the same for another provider. Without a name, it is like those before Windows 10, whose names are only in
/// the registry.
pub fn compiled_manifest_of(provider: Guid, provider_name: Option<&str>) -> Vec<u8> {
    let mut b = Blocks(vec![0; WEVT_AT + 16 + 8 * MAX_ELEMENTS]);
    let [channel, level, task, start, own] =
        ["Made/Operational", "win:Warning", "Work", "win:Start", "Own"].map(|name| b.name(name));
    let [keyword, map_name] = ["Slow", "Bits"].map(|name| b.name(name));

    let chan = b.block(b"CHAN", 4 + 16);
    b.words(&[1, 0, channel, 16, NO_MESSAGE]);
    let levl = b.block(b"LEVL", 4 + 12);
    b.words(&[1, 3, NO_MESSAGE, level]);
    let tasks = b.block(b"TASK", 4 + 28);
    b.words(&[1, 9, NO_MESSAGE, 0, 0, 0, 0, task]);
    let opco = b.block(b"OPCO", 4 + 24);
    b.words(&[2, 1 << 16, NO_MESSAGE, start, 11 << 16 | 9, NO_MESSAGE, own]);
    let keyw = b.block(b"KEYW", 4 + 16);
    b.words(&[1, 0x10, 0, NO_MESSAGE, keyword]);
    let map = b.block(b"BMAP", 12 + 16);
    b.words(&[map_name, 0, 2, 1, 0xD000_0001, 4, 0xD000_0002]);
    let maps = b.block(b"MAPS", 4 + 4);
    b.words(&[1, map]);

    let names = ["Count", "Items", "Length", "Data", "Id", "Flags"].map(|name| b.name(name));
    // In-type and out-type; for a struct, the first member and the number of members.
    let types = |in_type: u32, out_type: u32| in_type | out_type << 8;
    let [plain, count_of_item, length_of_item, is_struct] = [0, 0x10, 4, 1];
    let (no_map, one) = (0, 1);
    let items = [
        [plain, types(6, 6), no_map, one, names[0]],
        [is_struct | count_of_item, 4 | 2 << 16, no_map, 0, names[1]],
        [plain, types(8, 8), no_map, one, names[2]],
        [length_of_item, types(14, 15), no_map, one | 2 << 16, names[3]],
        [plain, types(10, 10), no_map, one, names[4]],
        [plain, types(8, 8), map, one, names[5]],
    ];
    let ttbl = b.block(b"TTBL", 4 + 40 + 120);
    b.words(&[1]);
    let template = b.block(b"TEMP", 32 + 120);
    let items_at = template + 40;
    b.words(&[4, 6, items_at, 1, 0, 0, 0, 0]);
    for item in items {
        b.words(&item);
    }

    let prva = provider_name.map(|name| {
        let prva = b.block(b"PRVA", 4 + 8 + 2 * (name.len() + 1));
        let text_at = b.here() + 12;
        b.words(&[1, 0x1000_0001, text_at]);
        b.text(name);
        b.0.resize(b.0.len().next_multiple_of(4), 0);
        prva
    });

    let evnt = b.block(b"EVNT", 8 + 2 * 48 + 4);
    let keywords_at = evnt + 16 + 2 * 48;
    let (first_entry, second_opcode) = (12, 24);
    b.words(&[2, 0]);
    for (id, opcode, template, opcode_entry) in
        [(5, 1, template, opco + first_entry), (6, 11, 0, opco + second_opcode)]
    {
        b.words(&[id | 1 << 16 | 16 << 24, 3 | opcode << 8 | 9 << 16, 0x10, 0x8000_0000, 0xB000_0000 | id]);
        b.words(&[template, opcode_entry, levl + first_entry, tasks + first_entry]);
        b.words(&[1, keywords_at, chan + first_entry]);
    }
    b.words(&[keyw + first_entry]);

    let size = b.here();
    b.patch(0, &[u32::from_le_bytes(*b"CRIM"), size, 5 | 1 << 16, 1]);
    for (place, byte) in b.0.iter_mut().skip(16).zip(provider.to_bytes()) {
        *place = byte;
    }
    b.patch(32, &[WEVT_AT as u32, u32::from_le_bytes(*b"WEVT"), size - WEVT_AT as u32, NO_MESSAGE]);
    let tables = [(5, chan), (0, levl), (1, tasks), (2, opco), (3, keyw), (6, maps), (7, ttbl)];
    let elements = tables.into_iter().chain(prva.map(|prva| (13, prva))).chain([(4, evnt)]);
    let elements: Vec<u32> = elements.flat_map(|(kind, at)| [kind, at]).collect();
    b.patch(WEVT_AT + 12, &[elements.len() as u32 / 2]);
    b.patch(WEVT_AT + 16, &elements);
    b.0
}

/// Returns a message table with the texts of [`compiled_manifest`].
pub fn message_table() -> Vec<u8> {
    message_table_of("%1 items")
}

/// Returns the same with another message of event 5.
pub fn message_table_of(message: &str) -> Vec<u8> {
    let message = format!("{message}\r\n");
    let texts = [(0xB000_0005u32, &*message), (0xD000_0001, "one\r\n"), (0xD000_0002, "four\r\n")];
    let mut b = Blocks(vec![0; 4 + 12 * texts.len()]);
    for (index, (id, text)) in texts.iter().enumerate() {
        let at = b.here();
        b.patch(4 + 12 * index, &[*id, *id, at]);
        b.words(&[(4 + 2 * (text.len() as u32 + 1)) | (1 << 16)]);
        b.text(text);
    }
    b.patch(0, &[texts.len() as u32]);
    b.0
}

/// Returns a `.res` file with the manifest and the message table.
pub fn res_file() -> Vec<u8> {
    let mut b = Blocks(Vec::new());
    b.words(&[0, 0x20, 0xFFFF, 0xFFFF, 0, 0, 0, 0]);
    let mut name = Blocks(Vec::new());
    name.text("WEVT_TEMPLATE");
    for (kind, data) in [(&name.0[..], compiled_manifest()), (&[0xFF, 0xFF, 11, 0], message_table())] {
        b.words(&[data.len() as u32, 8 + kind.len() as u32 + 4 + 16]);
        b.0.extend(kind);
        // The name is the number 1; the language, the third-last field of the header, is English.
        b.words(&[0x0001_FFFF, 0, 0x0409 << 16, 0, 0]);
        b.0.extend(data);
        b.0.resize(b.0.len().next_multiple_of(4), 0);
    }
    b.0
}
