//! Detection of schema sources by their content.

/// The kind of a schema source file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SchemaFileKind {
    /// An instrumentation manifest.
    Manifest,
    /// A PE file, `.res` file or bare resource with compiled manifests.
    CompiledManifest,
    /// A MOF text.
    Mof,
    /// A TMF text.
    Tmf,
    /// A symbol file with trace formats.
    Pdb,
}

impl SchemaFileKind {
    /// Returns the kind's name for display.
    pub const fn name(self) -> &'static str {
        match self {
            SchemaFileKind::Manifest => "manifest",
            SchemaFileKind::CompiledManifest => "compiled manifest",
            SchemaFileKind::Mof => "MOF",
            SchemaFileKind::Tmf => "TMF",
            SchemaFileKind::Pdb => "PDB",
        }
    }

    /// Returns the kind of a file that starts with `head`, or `None` if it is not a schema source.
    pub fn from_bytes(head: &[u8]) -> Option<SchemaFileKind> {
        const RES: [u8; 12] = [0, 0, 0, 0, 0x20, 0, 0, 0, 0xFF, 0xFF, 0, 0];
        if head.starts_with(b"MZ") || head.starts_with(b"CRIM") || head.starts_with(&RES) {
            return Some(SchemaFileKind::CompiledManifest);
        }
        if head.starts_with(b"Microsoft C/C++ ") {
            return Some(SchemaFileKind::Pdb);
        }
        // The byte order mark decides the encoding; the default is UTF-8.
        let (text, ..) = encoding_rs::UTF_8.decode(head);
        let text = text.trim_start();
        let has = |part: &str| text.contains(part);
        if text.starts_with('<') {
            Some(SchemaFileKind::Manifest)
        } else if has("#typev ") || has("#type ") || (text.starts_with("// PDB:") && has("// SRC=")) {
            Some(SchemaFileKind::Tmf)
        } else if has("class ") && (has("EventType") || has("EventTrace") || has("Guid(")) && has("[") {
            Some(SchemaFileKind::Mof)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_by_content() {
        let check = |head: &[u8], kind| assert_eq!(SchemaFileKind::from_bytes(head), kind);
        check(b"\xEF\xBB\xBF <?xml version", Some(SchemaFileKind::Manifest));
        check(b"\xFF\xFE<\0?\0", Some(SchemaFileKind::Manifest));
        check(b"MZ\x90", Some(SchemaFileKind::CompiledManifest));
        check(b"// PDB: x\n1234 Dir // SRC=a.c MJ= MN=\n#typev a_c1 10 \"%0\"", Some(SchemaFileKind::Tmf));
        check(b"[Guid(\"{x}\")] class A : EventTrace {};", Some(SchemaFileKind::Mof));
        check(b"Microsoft C/C++ MSF 7.00\r\n\x1aDS", Some(SchemaFileKind::Pdb));
        check(b"just text", None);
        check(b"", None);
    }
}
