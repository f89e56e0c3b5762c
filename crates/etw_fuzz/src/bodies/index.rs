//! Fuzz body for index files of columns.

use std::hint::black_box;

use etw_columns::{Aggregate, ColumnsError, Index, Pivot};

/// Most rows of a table that are read; a directory may claim far more than a fuzzer has time for.
const MAX_ROWS: u64 = 1 << 18;

/// Opens an index, as it is and with right checksums of its header and directory, and reads everything in it.
pub fn column_index(bytes: &[u8]) {
    let mut forged = bytes.to_vec();
    let directory = forged.get(16..24).and_then(|offset| offset.try_into().ok()).map(u64::from_le_bytes);
    if let Some(part) = directory.and_then(|offset| bytes.get(usize::try_from(offset).ok()?..)) {
        if let Some(checksum) = forged.get_mut(40..44) {
            checksum.copy_from_slice(&crc32fast::hash(part).to_le_bytes());
        }
        if let Some((header, rest)) = forged.split_at_mut_checked(44)
            && let Some(checksum) = rest.get_mut(..4)
        {
            checksum.copy_from_slice(&crc32fast::hash(header).to_le_bytes());
        }
    }
    for bytes in [bytes.to_vec(), forged] {
        if let Err(error) = Index::from_bytes(bytes, b"").and_then(|index| read(&index)) {
            black_box(error.to_string());
        }
    }
}

fn read(index: &Index) -> Result<(), ColumnsError> {
    for table in index.tables().filter(|table| table.rows() <= MAX_ROWS).take(16) {
        let columns: Vec<usize> = (0..table.schema().columns.len().min(16)).collect();
        for column in &columns {
            black_box((table.column(*column)?.statistics(0), table.value(0, *column).is_ok()));
        }
        let aggregates = [Aggregate::Max, Aggregate::Unique, Aggregate::Count];
        let aggregates: Vec<_> =
            columns.iter().flat_map(|column| aggregates.map(|aggregate| aggregate(*column))).collect();
        black_box(Pivot { levels: columns.len(), ..Pivot::new(columns, aggregates) }.run(table, 1)).ok();
    }
    let (texts, guids, stacks) = (index.texts()?, index.guids()?, index.stacks()?);
    black_box((texts.iter().map(str::len).sum::<usize>(), guids.get(0)));
    for code in (0..stacks.len() as u32).take(256) {
        black_box(stacks.frames(code).count());
    }
    Ok(())
}
