//! Images of Windows: their identity, and names of addresses from PDB and PE files.

pub(crate) mod pdb;
pub(crate) mod pe;
pub(crate) mod portable;

use std::fmt;

use etw_event::Guid;

use crate::file_bytes::FileBytes;

/// Maximum length in bytes of the name of a PDB.
const MAX_NAME_LEN_BYTES: usize = 255;

/// Identity of an image of Windows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct WindowsImage {
    /// `TimeDateStamp` of the PE header; 0 if unknown.
    pub time_stamp: u32,
    /// `SizeOfImage` of the PE header; 0 if unknown.
    pub len_bytes: u32,
    /// The PDB that the linker wrote, if the trace or the PE file says so.
    pub pdb: Option<PdbId>,
}

impl WindowsImage {
    /// Returns the name of the image's directory in a symbol store: time stamp and size. `None` if one is unknown.
    pub fn key(&self) -> Option<String> {
        let is_known = self.time_stamp != 0 && self.len_bytes != 0;
        is_known.then(|| format!("{:08X}{:x}", self.time_stamp, self.len_bytes))
    }
}

/// Identity of a PDB file. Displayed as `ntdll.pdb 1EB9FACB04EA273BB24BA52C8B1E1C3A1`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PdbId {
    name: String,
    /// GUID of the build.
    pub guid: Guid,
    /// How often the linker changed the file; [`PdbId::PORTABLE`] for a portable PDB.
    pub age: u32,
}

/// Returns the GUID and age by which symbol stores know a PDB of any format.
///
/// # Errors
///
/// Returns the reason if the file is not a PDB, or is damaged.
pub(crate) fn pdb_identity(bytes: &FileBytes) -> Result<(Guid, u32), String> {
    match portable::is_portable(bytes) {
        true => Ok((portable::id(bytes)?, PdbId::PORTABLE)),
        false => pdb::id(bytes),
    }
}

impl PdbId {
    /// The age of portable PDBs in symbol stores. Images and traces have 1.
    pub const PORTABLE: u32 = u32::MAX;

    /// Returns the identity of a portable PDB with the same name and GUID.
    #[must_use]
    pub fn portable(&self) -> PdbId {
        PdbId { age: PdbId::PORTABLE, ..self.clone() }
    }

    /// Returns the identity of a PDB, of whose path only the file name counts. `None` if that is not the name of a file.
    pub fn new(path: &str, guid: Guid, age: u32) -> Option<PdbId> {
        let name = path.rsplit(['/', '\\']).next()?;
        PdbId::is_name(name).then(|| PdbId { name: name.to_owned(), guid, age })
    }

    /// Returns whether a text is the name of a file, and of nothing else.
    pub(crate) fn is_name(text: &str) -> bool {
        !matches!(text, "" | "." | "..")
            && text.len() <= MAX_NAME_LEN_BYTES
            && !text.contains(|c: char| c.is_control() || matches!(c, ':' | '/' | '\\'))
    }

    /// Returns the name of the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of the file's directory in a symbol store: GUID and age.
    pub fn key(&self) -> String {
        format!("{:032X}{:x}", self.guid.to_u128(), self.age)
    }
}

impl fmt::Display for PdbId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_symbol_stores() {
        // The example of Microsoft's documentation of symbol stores, and the name of a PE file in one.
        let guid = Guid::from_u128(0x3844DBB9_2017_4967_BE7A_A4A2C20430FA);
        let id = PdbId::new(r"D:\build\ntdll.pdb", guid, 2).unwrap();
        assert_eq!(id.to_string(), "ntdll.pdb 3844DBB920174967BE7AA4A2C20430FA2");
        assert_eq!(PdbId::new("a.pdb", guid, 0x1F).unwrap().key(), "3844DBB920174967BE7AA4A2C20430FA1f");
        let image = WindowsImage { time_stamp: 0x0045_EBD1, len_bytes: 0x1F_0000, pdb: None };
        assert_eq!(image.key().as_deref(), Some("0045EBD11f0000"));
        assert_eq!(WindowsImage { len_bytes: 0, ..image }.key(), None);
    }

    #[test]
    fn only_names_of_files_are_names() {
        let is_name = |path: &str| PdbId::new(path, Guid::default(), 1).is_some();
        for path in ["", "a/", r"c:\", "..", "x/..", r"..\.", "a\0.pdb", "a\nb", "c:x.pdb", &"x".repeat(300)]
        {
            assert!(!is_name(path), "{path:?}");
        }
        for path in ["a", "a b.pdb", r"..\..\a.pdb", "/etc/passwd", "ä.pdb"] {
            assert!(is_name(path), "{path:?}");
        }
    }
}
