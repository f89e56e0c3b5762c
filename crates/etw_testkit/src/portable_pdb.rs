//! Portable PDB files, written by the format's specification: documents, and the lines of methods.

use etw_event::Guid;

/// The code of a method from one offset in its IL code on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IlPoint {
    /// Offset in IL code.
    pub offset: u32,
    /// The document, counted from 1.
    pub document: u32,
    /// The line, counted from 1; `None` for code that debuggers hide.
    pub line: Option<u32>,
}

/// Returns a portable PDB. Each method has the next row, from 1 on; those without points have no lines.
pub fn file(guid: Guid, documents: &[&str], methods: &[&[IlPoint]]) -> Vec<u8> {
    let mut blobs = vec![0];
    let mut add = |blob: &[u8]| {
        let at = blobs.len() as u16;
        blobs.extend(number(blob.len() as u32));
        blobs.extend(blob);
        at
    };
    let mut rows = Vec::new();
    for document in documents {
        let mut name = vec![b'/'];
        for part in document.split('/') {
            let part = if part.is_empty() { 0 } else { add(part.as_bytes()) };
            name.extend(number(part.into()));
        }
        rows.extend([add(&name), 0, 0, 0].map(u16::to_le_bytes).concat());
    }
    for points in methods {
        let points = if points.is_empty() { 0 } else { add(&points_blob(points)) };
        rows.extend([0, points].map(u16::to_le_bytes).concat());
    }
    let counts = [documents.len() as u32, methods.len() as u32].map(u32::to_le_bytes).concat();
    // The tables of documents and of methods are present.
    let present = [3_u64 << 0x30, 0].map(u64::to_le_bytes).concat();
    let tables = [&[0, 0, 0, 0, 2, 0, 0, 1][..], &present, &counts, &rows].concat();
    let id = [&guid.to_bytes()[..], &[7; 4], &[0; 12]].concat();
    let streams: [(&[u8], Vec<u8>); 3] =
        [(b"#Pdb\0\0\0\0", id), (b"#~\0\0", tables), (b"#Blob\0\0\0", blobs)];
    let version = b"PDB v1.0\0\0\0\0";
    let mut bytes = [b"BSJB", &[1, 0, 1, 0, 0, 0, 0, 0][..], &(version.len() as u32).to_le_bytes()].concat();
    bytes.extend(version);
    bytes.extend([0, 0, streams.len() as u8, 0]);
    let mut at = bytes.len() + streams.iter().map(|(name, _)| 8 + name.len()).sum::<usize>();
    for (name, data) in &streams {
        bytes.extend([at as u32, data.len() as u32].map(u32::to_le_bytes).concat());
        bytes.extend(*name);
        at += data.len();
    }
    streams.iter().for_each(|(_, data)| bytes.extend(data));
    bytes
}

/// Returns the points of a method without a document of its own.
fn points_blob(points: &[IlPoint]) -> Vec<u8> {
    let mut document = points.first().map_or(0, |point| point.document);
    let mut blob = [number(0), number(document)].concat();
    let (mut offset, mut last_line) = (0, None);
    for (index, point) in points.iter().enumerate() {
        if point.document != document {
            document = point.document;
            blob.extend([number(0), number(document)].concat());
        }
        assert!(index == 0 || point.offset > offset);
        blob.extend(number(point.offset - offset));
        offset = point.offset;
        let Some(line) = point.line else {
            blob.extend([0, 0]);
            continue;
        };
        // Within the line, ten columns.
        blob.extend([0, 10]);
        match last_line {
            None => blob.extend([number(line), number(1)].concat()),
            Some(last) => blob.extend([signed(line as i32 - last as i32), signed(0)].concat()),
        }
        last_line = Some(line);
    }
    blob
}

/// Returns a compressed number below 2^29.
fn number(value: u32) -> Vec<u8> {
    match value {
        0..0x80 => vec![value as u8],
        0x80..0x4000 => (0x8000 | value as u16).to_be_bytes().to_vec(),
        _ => (0xC000_0000 | value).to_be_bytes().to_vec(),
    }
}

/// Returns a compressed number with a sign, between -8192 and 8191.
fn signed(value: i32) -> Vec<u8> {
    let sign = u32::from(value < 0);
    match value {
        -64..64 => number(((value as u32) << 1 & 0x7F) | sign),
        _ => (0x8000 | ((value as u32) << 1 & 0x3FFF | sign) as u16).to_be_bytes().to_vec(),
    }
}
