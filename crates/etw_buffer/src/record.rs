//! The first word of a record: its length, whether it is committed, and the position of its time.

/// The first word of a record, by its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstWord {
    /// Nothing stored yet: no record, or one that was just reserved.
    Blank,
    /// Reserved, with this length in bytes.
    Reserved(usize),
    /// Committed.
    Record {
        /// Length in bytes, without the padding to 8.
        len_bytes: usize,
        /// Index of the word with its time.
        time_word: usize,
        /// Index of the word whose high half is the process id; 0 if there is none.
        process_word: usize,
    },
    /// A value that no writer of this project stores.
    Malformed,
}

impl FirstWord {
    #[inline(always)]
    pub(crate) fn from_word(word: u64) -> FirstWord {
        // EVENT_HEADER, which nearly all records have.
        let len_bytes = (word & 0xFFFF) as usize;
        if word & 0xFFFE_0000 == 0xC012_0000 && len_bytes >= 80 {
            return FirstWord::Record { len_bytes, time_word: 2, process_word: 1 };
        }
        FirstWord::of_other(word)
    }

    fn of_other(word: u64) -> FirstWord {
        let (front, behind) = ((word & 0xFFFF) as usize, (word >> 32 & 0xFFFF) as usize);
        // The size of the header: a shorter record would hide the start of the next one from readers of the file.
        let (len_bytes, header, time_word, process_word) = match word >> 16 & 0xFFFF {
            0 if word == 0 => return FirstWord::Blank,
            0 if word < 0x1_0000 => return FirstWord::Reserved(front),
            // Classic events: EVENT_TRACE_HEADER and EVENT_INSTANCE_GUID_HEADER.
            0xC00A | 0xC014 => (front, 48, 2, 1),
            0xC00B | 0xC015 => (front, 72, 2, 1),
            // Kernel events: SYSTEM_TRACE_HEADER, COMPACT and PERFINFO.
            0xC001 | 0xC002 => (behind, 32, 2, 1),
            0xC003 | 0xC004 => (behind, 24, 2, 1),
            0xC010 | 0xC011 => (behind, 16, 1, 0),
            // WPP messages: a GUID or none, the time, and thread and process or none.
            0x9000 => {
                let flags = (word >> 48) as usize;
                if flags & (MESSAGE_OTHERS | MESSAGE_TIME) != MESSAGE_TIME {
                    return FirstWord::Malformed;
                }
                let time_word = if flags & MESSAGE_GUID != 0 { 3 } else { 1 };
                let process_word = if flags & MESSAGE_IDS != 0 { time_word + 1 } else { 0 };
                (front, 8 * (time_word.max(process_word) + 1), time_word, process_word)
            }
            _ => return FirstWord::Malformed,
        };
        match len_bytes >= header {
            true => FirstWord::Record { len_bytes, time_word, process_word },
            false => FirstWord::Malformed,
        }
    }
}

/// `TRACE_MESSAGE_*` (`evntrace.h`): the parts of a message's header. The others would move the time to half a word.
const MESSAGE_OTHERS: usize = 0x1 | 0x4;
const MESSAGE_GUID: usize = 0x2;
const MESSAGE_TIME: usize = 0x8;
const MESSAGE_IDS: usize = 0x20;

/// Returns the word that marks room for this many bytes as reserved.
#[inline(always)]
pub(crate) const fn reserved(len_bytes: u32) -> u64 {
    len_bytes as u64
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn first_words() {
        let check = |word, expected| assert_eq!(FirstWord::from_word(word), expected, "{word:#x}");
        let record =
            |len_bytes, time_word, process_word| FirstWord::Record { len_bytes, time_word, process_word };
        check(0, FirstWord::Blank);
        check(reserved(0x60), FirstWord::Reserved(0x60));
        check(0x0000_0000_C013_0060, record(0x60, 2, 1));
        check(0x0001_0240_C012_0058, record(0x58, 2, 1));
        check(0x0002_0501_C014_0034, record(0x34, 2, 1));
        check(0x0524_0038_C002_0004, record(0x38, 2, 1));
        check(0x0F2E_0020_C011_0002, record(0x20, 1, 0));
        check(0x00BA_0007_9000_0029, record(0x29, 3, 4));
        check(0x0088_0007_9000_0010, record(0x10, 1, 0));
        // Shorter than their headers.
        for word in [0xC013_004F, 0xC014_002F, 0xC00B_0047, 0x1F_C002_0004, 0x17_C003_0004, 0xF_C011_0002] {
            check(word, FirstWord::Malformed);
        }
        check(0x0000_0001_0000_0000, FirstWord::Malformed);
        check(0x00BA_0007_9000_0027, FirstWord::Malformed);
        // Messages without a time, and with a sequence number.
        check(0x0082_0060_9000_0060, FirstWord::Malformed);
        check(0x0089_0060_9000_0060, FirstWord::Malformed);
        check(u64::MAX, FirstWord::Malformed);
    }
}
