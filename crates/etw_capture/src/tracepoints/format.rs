//! The fields of a tracepoint's events, as tracefs describes them.
//!
//! Source: `Documentation/trace/events.rst` of the kernel, "Event formats".

/// The number of a tracepoint, and the fields of its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracepointFormat {
    /// The number by which `perf_event_open` knows the tracepoint, and which its records start with.
    pub id: u32,
    /// The fields, without those that all tracepoints have (`common_*`).
    pub fields: Vec<TracepointField>,
}

/// A field of a tracepoint's events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracepointField {
    /// Name.
    pub name: String,
    /// Type as declared, in C: `unsigned long`, `char[16]`, `__data_loc char[]`.
    pub declared: String,
    /// Where its value is.
    pub place: FieldPlace,
    /// Kind of its value.
    pub kind: FieldKind,
}

/// The place of a field's value in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldPlace {
    /// At an offset, with this length in bytes.
    Fixed {
        /// Offset in bytes.
        offset: usize,
        /// Length in bytes.
        len: usize,
    },
    /// At a place that the record states: a word of 32 bits at this offset, with the value's offset in the low half and its
    /// length in the high one (`__data_loc`).
    Stated {
        /// Offset in bytes of the word.
        offset: usize,
    },
    /// The same, but the value's offset counts from the end of the word (`__rel_loc`).
    Relative {
        /// Offset in bytes of the word.
        offset: usize,
    },
}

/// The kind of a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// An integer of 1, 2, 4 or 8 bytes.
    Integer {
        /// Length in bytes.
        len: usize,
        /// Whether it is signed.
        is_signed: bool,
    },
    /// A truth value of one byte.
    Boolean,
    /// An address of 4 or 8 bytes.
    Pointer {
        /// Length in bytes.
        len: usize,
    },
    /// Text up to the first zero, or the end.
    Text,
    /// Integers of 2, 4 or 8 bytes, one after the other.
    Integers {
        /// Length in bytes of each.
        len: usize,
        /// Whether they are signed.
        is_signed: bool,
    },
    /// Other bytes, such as addresses and structures.
    Bytes,
}

/// Types of the elements of arrays without a fixed length, by their length in bytes.
const ELEMENTS: &[(usize, &[&str])] = &[
    (
        2,
        &[
            "short",
            "unsigned short",
            "u16",
            "__u16",
            "s16",
            "__s16",
            "uint16_t",
            "int16_t",
            "__le16",
            "__be16",
        ],
    ),
    (
        4,
        &[
            "int",
            "unsigned int",
            "unsigned",
            "u32",
            "__u32",
            "s32",
            "__s32",
            "uint32_t",
            "int32_t",
            "__le32",
            "__be32",
            "pid_t",
            "uid_t",
            "gid_t",
        ],
    ),
    (
        8,
        &[
            "u64",
            "__u64",
            "s64",
            "__s64",
            "uint64_t",
            "int64_t",
            "__le64",
            "__be64",
            "long long",
            "unsigned long long",
        ],
    ),
    (size_of::<usize>(), &["long", "unsigned long", "size_t", "ssize_t"]),
];

impl TracepointFormat {
    /// Parses the file `format` of a tracepoint; `None` if it has no number, or a field is not understood.
    pub fn parse(text: &str) -> Option<TracepointFormat> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix("field:"));
        let fields = lines.map(TracepointField::parse).collect::<Option<Vec<_>>>()?;
        let fields = fields.into_iter().filter(|field| !field.name.starts_with("common_")).collect();
        Some(TracepointFormat { id, fields })
    }
}

impl TracepointField {
    /// Parses a line after `field:`, such as `char comm[16]; offset:8; size:16; signed:0;`.
    fn parse(line: &str) -> Option<TracepointField> {
        let mut parts = line.split(';').map(str::trim);
        let declaration = parts.next()?;
        let mut number = |prefix: &str| parts.next()?.strip_prefix(prefix)?.parse::<usize>().ok();
        let (offset, len) = (number("offset:")?, number("size:")?);
        // Old kernels do not state the sign.
        let is_signed = number("signed:").is_some_and(|number| number != 0);
        let (text, count) = match declaration.strip_suffix(']').and_then(|text| text.rsplit_once('[')) {
            Some((text, count)) => (text.trim_end(), Some(count)),
            None => (declaration, None),
        };
        let name_at = text.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |at| at + 1);
        let (of_type, name) = (text.get(..name_at)?.trim_end(), text.get(name_at..)?);
        let suffix = count.map(|count| format!("[{count}]")).unwrap_or_default();
        let stated =
            |prefix: &str| Some(of_type.strip_prefix(prefix)?.trim().trim_end_matches("[]").trim_end());
        let (place, kind) = if let Some(element) = stated("__data_loc ") {
            (FieldPlace::Stated { offset }, FieldKind::of_elements(element, is_signed))
        } else if let Some(element) = stated("__rel_loc ") {
            (FieldPlace::Relative { offset }, FieldKind::of_elements(element, is_signed))
        } else {
            let kind = match count {
                Some(count) => FieldKind::of_array(of_type, len, count, is_signed),
                None => FieldKind::of_value(of_type, len, is_signed),
            };
            (FieldPlace::Fixed { offset, len }, kind)
        };
        Some(TracepointField { name: name.to_owned(), declared: format!("{of_type}{suffix}"), place, kind })
    }

    /// Returns the bytes of the field in a record; none if the record is too short.
    pub fn bytes<'r>(&self, record: &'r [u8]) -> &'r [u8] {
        let stated = |offset: usize| {
            let word = record.get(offset..)?.first_chunk()?;
            let word = u32::from_ne_bytes(*word) as usize;
            Some((word & 0xFFFF, word >> 16))
        };
        let place = match self.place {
            FieldPlace::Fixed { offset, len } => Some((offset, len)),
            FieldPlace::Stated { offset } => stated(offset),
            FieldPlace::Relative { offset } => stated(offset).map(|(from, len)| (offset + 4 + from, len)),
        };
        let bytes = place.and_then(|(offset, len)| record.get(offset..offset.checked_add(len)?));
        bytes.unwrap_or_default()
    }
}

impl FieldKind {
    /// Returns the kind of a single value.
    fn of_value(of_type: &str, len: usize, is_signed: bool) -> FieldKind {
        match len {
            4 | 8 if of_type.ends_with('*') => FieldKind::Pointer { len },
            1 if of_type == "bool" => FieldKind::Boolean,
            1 | 2 | 4 | 8 => FieldKind::Integer { len, is_signed },
            _ => FieldKind::Bytes,
        }
    }

    /// Returns the kind of an array of `len` bytes.
    fn of_array(of_type: &str, len: usize, count: &str, is_signed: bool) -> FieldKind {
        if is_char(of_type) {
            return FieldKind::Text;
        }
        let count = count.parse::<usize>().ok().filter(|count| *count > 0 && len.is_multiple_of(*count));
        match count.map(|count| len / count) {
            Some(len @ (2 | 4 | 8)) => FieldKind::Integers { len, is_signed },
            _ => FieldKind::Bytes,
        }
    }

    /// Returns the kind of an array whose length the record states.
    fn of_elements(element: &str, is_signed: bool) -> FieldKind {
        if is_char(element) {
            return FieldKind::Text;
        }
        let element = element.strip_prefix("const ").unwrap_or(element);
        let known = ELEMENTS.iter().find(|(_, names)| names.contains(&element));
        known.map_or(FieldKind::Bytes, |(len, _)| FieldKind::Integers { len: *len, is_signed })
    }
}

fn is_char(of_type: &str) -> bool {
    matches!(of_type, "char" | "const char")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(line: &str) -> TracepointField {
        TracepointField::parse(line).unwrap_or_else(|| panic!("{line}"))
    }

    #[test]
    fn declarations_are_understood() {
        let check = |declaration: &str,
                     len: usize,
                     signed: u8,
                     name: &str,
                     declared: &str,
                     kind: FieldKind| {
            let field = field(&format!("{declaration};\toffset:8;\tsize:{len};\tsigned:{signed};"));
            assert_eq!((&*field.name, &*field.declared, field.kind), (name, declared, kind), "{declaration}");
        };
        let integer = |len, is_signed| FieldKind::Integer { len, is_signed };
        check("pid_t pid", 4, 1, "pid", "pid_t", integer(4, true));
        check("unsigned long long ino", 8, 0, "ino", "unsigned long long", integer(8, false));
        check("bool is_on", 1, 0, "is_on", "bool", FieldKind::Boolean);
        check("char prev_comm[16]", 16, 0, "prev_comm", "char[16]", FieldKind::Text);
        check("const char * filename", 8, 0, "filename", "const char *", FieldKind::Pointer { len: 8 });
        check("const char *const * argv", 8, 0, "argv", "const char *const *", FieldKind::Pointer { len: 8 });
        check("void *ptr", 8, 0, "ptr", "void *", FieldKind::Pointer { len: 8 });
        check("__u8 saddr_v6[16]", 16, 0, "saddr_v6", "__u8[16]", FieldKind::Bytes);
        let longs = FieldKind::Integers { len: 8, is_signed: false };
        check("unsigned long args[6]", 48, 0, "args", "unsigned long[6]", longs);
        check("char name[TASK_COMM_LEN]", 16, 0, "name", "char[TASK_COMM_LEN]", FieldKind::Text);
        check("struct in6_addr address", 16, 0, "address", "struct in6_addr", FieldKind::Bytes);
        check("__data_loc char[] filename", 4, 0, "filename", "__data_loc char[]", FieldKind::Text);
        check("__data_loc u8[] data", 4, 0, "data", "__data_loc u8[]", FieldKind::Bytes);
        check("__rel_loc unsigned long[] masks", 4, 0, "masks", "__rel_loc unsigned long[]", longs);
        let lengths = FieldKind::Integers { len: 4, is_signed: false };
        check("__data_loc unsigned [] lengths", 4, 0, "lengths", "__data_loc unsigned []", lengths);
    }

    #[test]
    fn values_are_found_within_the_record() {
        let record = [1, 2, 3, 4, 12, 0, 3, 0, 4, 0, 2, 0, b'a', b'b', 0, b'c'];
        let check = |line: &str, expected: &[u8]| assert_eq!(field(line).bytes(&record), expected, "{line}");
        check("int x; offset:0; size:4; signed:1;", &[1, 2, 3, 4]);
        check("int x; offset:14; size:4; signed:1;", &[]);
        check("__data_loc char[] x; offset:4; size:4; signed:0;", b"ab\0");
        check("__rel_loc char[] x; offset:8; size:4; signed:0;", &[]);
        check("__rel_loc char[] x; offset:4; size:4; signed:0;", &[]);
        check("__data_loc char[] x; offset:14; size:4; signed:0;", &[]);
        check("__data_loc char[] x; offset:0; size:4; signed:0;", &[]);
        let relative = [0, 0, 2, 0, b'h', b'i'];
        assert_eq!(field("__rel_loc char[] x; offset:0; size:4; signed:0;").bytes(&relative), b"hi");
    }

    #[test]
    fn common_fields_are_left_out() {
        let text = "name: sched_process_exec\nID: 365\nformat:\n\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
            \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
            \tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;\n\
            \tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;\n\n\
            print fmt: \"filename=%s\", __get_str(filename)\n";
        let format = TracepointFormat::parse(text).unwrap();
        let names: Vec<&str> = format.fields.iter().map(|field| &*field.name).collect();
        assert_eq!((format.id, &names[..]), (365, &["filename", "pid"][..]));
        assert_eq!(TracepointFormat::parse("name: x\n"), None);
        assert_eq!(TracepointFormat::parse("ID: 1\n\tfield:int x;\toffset:;\tsize:4;\n"), None);
    }
}
