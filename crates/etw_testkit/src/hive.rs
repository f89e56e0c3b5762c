//! Registry hives with a list of publishers, as in `System32\config\SOFTWARE`.

use etw_event::Guid;

/// A publisher in the list; texts may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publisher {
    /// The provider's GUID.
    pub guid: Guid,
    /// Its name.
    pub name: String,
    /// `ResourceFileName`.
    pub resource_file: String,
    /// `MessageFileName`.
    pub message_file: String,
}

/// The most keys in one list, fewer than in Windows; beyond it, a list of lists is written.
pub const MAX_LIST: usize = 16;

const BASE_BLOCK_BYTES: usize = 4096;
const NONE: u32 = u32::MAX;
const PATH: [&str; 5] = ["Microsoft", "Windows", "CurrentVersion", "WINEVT", "Publishers"];

/// Returns the bytes of a hive with these publishers.
pub fn software(publishers: &[Publisher]) -> Vec<u8> {
    let list = publishers.iter().map(|publisher| {
        let texts = [
            ("", &publisher.name),
            ("ResourceFileName", &publisher.resource_file),
            ("MessageFileName", &publisher.message_file),
        ];
        let values = texts.into_iter().filter(|(_, text)| !text.is_empty());
        Key {
            name: publisher.guid.to_string(),
            values: values.map(|(name, text)| (name, text.clone())).collect(),
            below: Vec::new(),
        }
    });
    let mut below: Vec<Key> = list.collect();
    for name in PATH.into_iter().rev() {
        below.sort_by_key(|key| key.name.to_uppercase());
        below = vec![Key { name: name.to_owned(), values: Vec::new(), below }];
    }
    hive(&Key { name: "ROOT".to_owned(), values: Vec::new(), below })
}

/// A key, with texts as values, and its subkeys sorted by name.
struct Key {
    name: String,
    values: Vec<(&'static str, String)>,
    below: Vec<Key>,
}

/// The cells of a hive, in one bin.
struct Cells {
    bytes: Vec<u8>,
    security: u32,
    keys: u32,
}

fn hive(root: &Key) -> Vec<u8> {
    let mut cells = Cells { bytes: vec![0; 32], security: 0, keys: 0 };
    // Security: signature, links to the next and the previous (itself), count of keys, size, a descriptor.
    let mut security = b"sk\0\0".to_vec();
    security.extend([32u32, 32, 0, 20].into_iter().flat_map(u32::to_le_bytes));
    security.extend([1, 0, 0, 0x80]);
    security.resize(security.len() + 16, 0);
    cells.security = cells.add(&security);
    let root = cells.key(root, 0, true);
    cells.patch(cells.security + 12, cells.keys);

    // A free cell fills the bin.
    let used = cells.bytes.len();
    let size = (used + 8).next_multiple_of(4096);
    cells.bytes.extend(((size - used) as u32).to_le_bytes());
    cells.bytes.resize(size, 0);
    cells.bytes[..12].copy_from_slice(&[b"hbin", &[0; 4], &(size as u32).to_le_bytes()[..]].concat());

    let mut base = vec![0; BASE_BLOCK_BYTES];
    base[..4].copy_from_slice(b"regf");
    // Two sequence numbers, time, version 1.5, kind of file, format, root, size of the bins, clusters.
    let fields = [1, 1, 0, 0, 1, 5, 0, 1, root, size as u32, 1];
    base[4..48].copy_from_slice(&fields.map(u32::to_le_bytes).concat());
    let words = base[..508].as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
    let checksum = words.fold(0, |sum, word| sum ^ word);
    base[508..512].copy_from_slice(&checksum.to_le_bytes());
    [base, cells.bytes].concat()
}

impl Cells {
    /// Appends a cell in use; returns its offset.
    fn add(&mut self, data: &[u8]) -> u32 {
        let at = self.bytes.len();
        let size = (4 + data.len()).next_multiple_of(8);
        self.bytes.extend((-(size as i32)).to_le_bytes());
        self.bytes.extend(data);
        self.bytes.resize(at + size, 0);
        at as u32
    }

    /// Overwrites a number in the data of a cell.
    fn patch(&mut self, at: u32, word: u32) {
        let at = at as usize + 4;
        self.bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }

    fn key(&mut self, key: &Key, parent: u32, is_root: bool) -> u32 {
        self.keys += 1;
        // Signature, flags (8-bit name; root), time, access, parent.
        let flags: u16 = if is_root { 0x2C } else { 0x20 };
        let mut cell = [b"nk", &flags.to_le_bytes()[..], &[0; 12], &parent.to_le_bytes()].concat();
        let counts =
            [key.below.len() as u32, 0, NONE, NONE, key.values.len() as u32, NONE, self.security, NONE];
        let lengths = [0, 0, 0, 0, 0, key.name.len() as u32];
        cell.extend(counts.into_iter().chain(lengths).flat_map(u32::to_le_bytes));
        cell.extend(key.name.bytes());
        let at = self.add(&cell);
        if !key.values.is_empty() {
            let values: Vec<u8> =
                key.values.iter().flat_map(|(name, text)| self.value(name, text).to_le_bytes()).collect();
            let list = self.add(&values);
            self.patch(at + 40, list);
        }
        if !key.below.is_empty() {
            let below: Vec<(u32, &Key)> =
                key.below.iter().map(|key| (self.key(key, at, false), key)).collect();
            let lists: Vec<u32> = below.chunks(MAX_LIST).map(|keys| self.list(keys)).collect();
            let list = match &lists[..] {
                [list] => *list,
                _ => {
                    let mut cell = [&b"ri"[..], &(lists.len() as u16).to_le_bytes()].concat();
                    cell.extend(lists.iter().flat_map(|list| list.to_le_bytes()));
                    self.add(&cell)
                }
            };
            self.patch(at + 28, list);
        }
        at
    }

    /// Appends a list of keys with the hashes of their names.
    fn list(&mut self, keys: &[(u32, &Key)]) -> u32 {
        let mut cell = [&b"lh"[..], &(keys.len() as u16).to_le_bytes()].concat();
        for (at, key) in keys {
            let hash = key
                .name
                .to_uppercase()
                .bytes()
                .fold(0u32, |hash, byte| hash.wrapping_mul(37).wrapping_add(byte.into()));
            cell.extend([*at, hash].into_iter().flat_map(u32::to_le_bytes));
        }
        self.add(&cell)
    }

    /// Appends a text value; a path with a variable is expandable.
    fn value(&mut self, name: &str, text: &str) -> u32 {
        let data: Vec<u8> = text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
        let kind = if text.contains('%') { 2 } else { 1 };
        let data_at = self.add(&data);
        let mut cell = [&b"vk"[..], &(name.len() as u16).to_le_bytes()].concat();
        cell.extend([data.len() as u32, data_at, kind].into_iter().flat_map(u32::to_le_bytes));
        // The default value has no name, of either kind.
        cell.extend([u8::from(!name.is_empty()), 0, 0, 0]);
        cell.extend(name.bytes());
        self.add(&cell)
    }
}
