//! What the first word of a record tells: how long it is, whether it is committed, and where its time stands.

/// The first word of a record, in the three states of its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstWord {
    /// Nothing was stored yet: no record, or one that was reserved an instant ago.
    Blank,
    /// Reserved; so many bytes long.
    Reserved(usize),
    /// Committed.
    Record {
        /// Bytes of the record, without the padding to 8.
        len_bytes: usize,
        /// The word of its time.
        time_word: usize,
        /// Whether the process id stands in the high half of word 1.
        has_process: bool,
    },
    /// Nothing that a writer of this project stores.
    Malformed,
}

impl FirstWord {
    #[inline(always)]
    pub(crate) fn of(word: u64) -> FirstWord {
        // EVENT_HEADER, which nearly all records have.
        if word & 0xFFFE_0000 == 0xC012_0000 {
            let len_bytes = (word & 0xFFFF) as usize;
            return FirstWord::Record { len_bytes, time_word: 2, has_process: true };
        }
        FirstWord::of_other(word)
    }

    fn of_other(word: u64) -> FirstWord {
        let (front, behind) = ((word & 0xFFFF) as usize, (word >> 32 & 0xFFFF) as usize);
        match word as u32 >> 16 {
            0 if word == 0 => FirstWord::Blank,
            0 if word < 0x1_0000 => FirstWord::Reserved(front),
            // Classic events: EVENT_TRACE_HEADER and EVENT_INSTANCE_GUID_HEADER.
            0xC00A | 0xC014 | 0xC00B | 0xC015 => {
                FirstWord::Record { len_bytes: front, time_word: 2, has_process: true }
            }
            // Kernel events: SYSTEM_TRACE_HEADER, COMPACT and PERFINFO.
            0xC001..=0xC004 => FirstWord::Record { len_bytes: behind, time_word: 2, has_process: true },
            0xC010 | 0xC011 => FirstWord::Record { len_bytes: behind, time_word: 1, has_process: false },
            _ => FirstWord::Malformed,
        }
    }
}

/// The word that marks room of so many bytes as reserved.
#[inline(always)]
pub(crate) const fn reserved(len_bytes: u32) -> u64 {
    len_bytes as u64
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn first_words() {
        let check = |word, expected| assert_eq!(FirstWord::of(word), expected, "{word:#x}");
        let record =
            |len_bytes, time_word, has_process| FirstWord::Record { len_bytes, time_word, has_process };
        check(0, FirstWord::Blank);
        check(reserved(0x60), FirstWord::Reserved(0x60));
        check(0x0000_0000_C013_0060, record(0x60, 2, true));
        check(0x0001_0240_C012_0058, record(0x58, 2, true));
        check(0x0002_0501_C014_0034, record(0x34, 2, true));
        check(0x0524_0038_C002_0004, record(0x38, 2, true));
        check(0x0F2E_0020_C011_0002, record(0x20, 1, false));
        check(0x0000_0001_0000_0000, FirstWord::Malformed);
        check(0x0000_0060_9000_0060, FirstWord::Malformed);
        check(u64::MAX, FirstWord::Malformed);
    }
}
