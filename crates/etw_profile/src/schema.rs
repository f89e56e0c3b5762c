//! The elements and attributes that profiles have (`WPRControlProfiles.xsd`).

/// The attributes and children of an element.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) attributes: &'static [Attribute],
    pub(crate) children: &'static [(&'static str, &'static Kind)],
}

#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) name: &'static str,
    pub(crate) value: Value,
    pub(crate) is_required: bool,
}

/// The values of an attribute.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value {
    Text,
    /// An integer, decimal or with `0x`, up to this maximum.
    Number(u64),
    /// A number that may have a fraction, such as a percentage of memory.
    Part,
    Bool,
    /// One of these words.
    Word(&'static [&'static str]),
}

impl Value {
    /// Returns a description of the allowed values if this one is not allowed.
    pub(crate) fn refusal(self, text: &str) -> Option<&'static str> {
        match self {
            Value::Text => None,
            Value::Number(most) => match number(text) {
                Some(number) if number <= most => None,
                _ => Some(match most {
                    0xFF => "a number from 0 to 255",
                    0xFFFF => "a number from 0 to 65535",
                    0xFFFF_FFFF => "a number of 32 bits",
                    _ => "a number",
                }),
            },
            Value::Part => {
                let is_part = |number: f64| number.is_finite() && number >= 0.0;
                (!text.parse().is_ok_and(is_part)).then_some("a number")
            }
            Value::Bool => boolean(text).is_none().then_some("true or false"),
            Value::Word(words) => {
                let is_one = words.iter().any(|word| word.eq_ignore_ascii_case(text));
                (!is_one).then_some(match words {
                    OPERATIONS => "Set, Add or Remove",
                    LOGGING_MODES => "File or Memory",
                    DETAIL_LEVELS => "Verbose or Light",
                    _ => "Sequential or Circular",
                })
            }
        }
    }
}

/// Parses a decimal number, or a hexadecimal one with `0x`.
pub(crate) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Parses a truth value. Case does not matter.
pub(crate) fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

const OPERATIONS: &[&str] = &["Set", "Add", "Remove"];
const LOGGING_MODES: &[&str] = &["File", "Memory"];
const DETAIL_LEVELS: &[&str] = &["Verbose", "Light"];
const FILE_MODES: &[&str] = &["Sequential", "Circular"];

const MASK: Value = Value::Number(u64::MAX);

const fn needs(name: &'static str, value: Value) -> Attribute {
    Attribute { name, value, is_required: true }
}

const fn may(name: &'static str, value: Value) -> Attribute {
    Attribute { name, value, is_required: false }
}

const OPERATION: Attribute = may("Operation", Value::Word(OPERATIONS));
const FILTER_IN: Attribute = needs("FilterIn", Value::Bool);
const ID: Attribute = needs("Id", Value::Text);
const BASE: Attribute = may("Base", Value::Text);

const fn list(children: &'static [(&'static str, &'static Kind)]) -> Kind {
    Kind { attributes: &[OPERATION], children }
}

const fn leaf(attributes: &'static [Attribute]) -> Kind {
    Kind { attributes, children: &[] }
}

static NAME: Kind = leaf(&[needs("Value", Value::Text)]);
static BITS: Kind = leaf(&[needs("Value", MASK)]);
static BITS_32: Kind = leaf(&[needs("Value", Value::Number(0xFFFF_FFFF))]);
static EVENT_ID: Kind = leaf(&[needs("Value", Value::Number(0xFFFF))]);
static FLAG: Kind = leaf(&[needs("Value", Value::Bool)]);
static AMOUNT: Kind = leaf(&[needs("Value", MASK), OPERATION]);

static BUFFERS: Kind = leaf(&[
    needs("Value", Value::Part),
    may("PercentageOfTotalMemory", Value::Bool),
    may("MaximumBufferSpace", MASK),
    OPERATION,
]);
static MAXIMUM_FILE_SIZE: Kind =
    leaf(&[needs("Value", MASK), may("FileMode", Value::Word(FILE_MODES)), OPERATION]);
static STACK_CACHING: Kind = leaf(&[may("BucketCount", MASK), may("CacheSize", MASK), OPERATION]);

const BUFFER_SIZE_CHILD: (&str, &Kind) = ("BufferSize", &AMOUNT);
const BUFFERS_CHILD: (&str, &Kind) = ("Buffers", &BUFFERS);
const STACK_CACHING_CHILD: (&str, &Kind) = ("StackCaching", &STACK_CACHING);
const MAXIMUM_FILE_SIZE_CHILD: (&str, &Kind) = ("MaximumFileSize", &MAXIMUM_FILE_SIZE);
const FILE_MAX_CHILD: (&str, &Kind) = ("FileMax", &AMOUNT);

static COLLECTOR: Kind = Kind {
    attributes: &[
        ID,
        may("Name", Value::Text),
        may("FileName", Value::Text),
        BASE,
        may("Realtime", Value::Bool),
        may("Secure", Value::Bool),
        may("Private", Value::Bool),
        may("ProcessPrivate", Value::Bool),
        may("HostGuestCorrelation", Value::Bool),
    ],
    children: &[
        BUFFER_SIZE_CHILD,
        BUFFERS_CHILD,
        STACK_CACHING_CHILD,
        MAXIMUM_FILE_SIZE_CHILD,
        FILE_MAX_CHILD,
    ],
};

static SYSTEM_KEYWORDS: Kind = list(&[("Keyword", &NAME), ("CustomKeyword", &BITS_32)]);
static STACKS: Kind = list(&[("Stack", &NAME), ("CustomStack", &BITS_32)]);
static POOL_TAGS: Kind = list(&[("PoolTag", &NAME)]);
static SYSTEM_STATE: Kind = Kind {
    attributes: &[OPERATION, may("Timeout", MASK)],
    children: &[("Keyword", &NAME), ("CustomKeyword", &BITS_32)],
};
static SYSTEM_PROVIDER: Kind = Kind {
    attributes: &[ID, BASE],
    children: &[
        ("Keywords", &SYSTEM_KEYWORDS),
        ("Stacks", &STACKS),
        ("PoolTags", &POOL_TAGS),
        ("CaptureStateOnStart", &SYSTEM_STATE),
        ("CaptureStateOnSave", &SYSTEM_STATE),
        ("CaptureStateOnDemand", &SYSTEM_STATE),
    ],
};

static KEYWORDS: Kind = list(&[("Keyword", &BITS), ("CustomKeyword", &BITS)]);
static STATE: Kind = Kind { attributes: &[OPERATION, may("Timeout", MASK)], children: &[("Keyword", &BITS)] };
static ID_FILTERS: Kind = Kind { attributes: &[FILTER_IN, OPERATION], children: &[("EventId", &EVENT_ID)] };
static NAME_FILTERS: Kind = Kind { attributes: &[FILTER_IN, OPERATION], children: &[("EventName", &NAME)] };
static KEYWORD_FILTER: Kind = Kind {
    attributes: &[FILTER_IN, may("Level", Value::Number(0xFF)), OPERATION],
    children: &[("Keyword", &BITS)],
};
const KEYWORDS_CHILD: (&str, &Kind) = ("Keywords", &KEYWORDS);
const ON_START_CHILD: (&str, &Kind) = ("CaptureStateOnStart", &STATE);
const ON_SAVE_CHILD: (&str, &Kind) = ("CaptureStateOnSave", &STATE);
const ON_DEMAND_CHILD: (&str, &Kind) = ("CaptureStateOnDemand", &STATE);
static EVENT_PROVIDER: Kind = Kind {
    attributes: &[
        ID,
        may("Name", Value::Text),
        BASE,
        may("Level", Value::Number(0xFF)),
        may("Stack", Value::Bool),
        may("NonPagedMemory", Value::Bool),
        may("CaptureStateOnly", Value::Bool),
        may("EventKey", Value::Bool),
        may("Strict", Value::Bool),
        may("ProcessExeFilter", Value::Text),
    ],
    children: &[
        KEYWORDS_CHILD,
        ON_START_CHILD,
        ON_SAVE_CHILD,
        ON_DEMAND_CHILD,
        ("EventFilters", &ID_FILTERS),
        ("EventNameFilters", &NAME_FILTERS),
        ("StackFilters", &ID_FILTERS),
        ("StackEventNameFilters", &NAME_FILTERS),
        ("StackKeywordLevelFilter", &KEYWORD_FILTER),
    ],
};

static HEAP_PROVIDER: Kind =
    Kind { attributes: &[ID, BASE], children: &[("HeapProcessIds", &list(&[("HeapProcessId", &BITS_32)]))] };

static COUNTERS: Kind = list(&[("Counter", &NAME)]);
static SAMPLED_COUNTERS: Kind =
    list(&[("SampledCounter", &leaf(&[needs("Value", Value::Text), may("Interval", MASK)]))]);
static HARDWARE_COUNTER: Kind = Kind {
    attributes: &[ID, BASE, may("Strict", Value::Bool)],
    children: &[
        ("Counters", &COUNTERS),
        ("SampledCounters", &SAMPLED_COUNTERS),
        ("Events", &list(&[("Event", &NAME)])),
    ],
};

/// A provider by its id, which may say some of it anew.
static EVENT_PROVIDER_ID: Kind = Kind {
    attributes: &[needs("Value", Value::Text)],
    children: &[KEYWORDS_CHILD, ON_START_CHILD, ON_SAVE_CHILD, ON_DEMAND_CHILD],
};

static EVENT_PROVIDERS: Kind =
    list(&[("EventProviderId", &EVENT_PROVIDER_ID), ("EventProvider", &EVENT_PROVIDER)]);
static HEAP_PROVIDERS: Kind = list(&[("HeapEventProviderId", &NAME), ("HeapEventProvider", &HEAP_PROVIDER)]);

macro_rules! collector_id {
    ($($child:expr),*) => {
        Kind {
            attributes: &[needs("Value", Value::Text)],
            children: &[
                BUFFER_SIZE_CHILD,
                BUFFERS_CHILD,
                STACK_CACHING_CHILD,
                MAXIMUM_FILE_SIZE_CHILD,
                FILE_MAX_CHILD,
                $($child),*
            ],
        }
    };
}

static SYSTEM_COLLECTOR_ID: Kind = collector_id!(
    ("SystemProviderId", &NAME),
    ("SystemProvider", &SYSTEM_PROVIDER),
    ("HardwareCounterId", &NAME)
);
static EVENT_COLLECTOR_ID: Kind = collector_id!(("EventProviders", &EVENT_PROVIDERS));
static HEAP_COLLECTOR_ID: Kind = collector_id!(("HeapEventProviders", &HEAP_PROVIDERS));

static COLLECTORS: Kind = list(&[
    ("SystemCollectorId", &SYSTEM_COLLECTOR_ID),
    ("EventCollectorId", &EVENT_COLLECTOR_ID),
    ("HeapEventCollectorId", &HEAP_COLLECTOR_ID),
]);

static TRACE_MERGE_PROPERTY: Kind = Kind {
    attributes: &[ID, needs("Name", Value::Text), BASE],
    children: &[
        ("DeletePreMergedTraceFiles", &FLAG),
        ("FileCompression", &FLAG),
        ("InjectOnly", &FLAG),
        ("SkipMerge", &FLAG),
        ("CustomEvents", &list(&[("CustomEvent", &NAME)])),
    ],
};
static TRACE_MERGE_PROPERTIES: Kind = list(&[("TraceMergeProperty", &TRACE_MERGE_PROPERTY)]);

static PROBLEM_CATEGORIES: Kind = list(&[("ProblemCategory", &NAME)]);

static PROFILE: Kind = Kind {
    attributes: &[
        ID,
        may("Name", Value::Text),
        may("Description", Value::Text),
        BASE,
        may("LoggingMode", Value::Word(LOGGING_MODES)),
        may("DetailLevel", Value::Word(DETAIL_LEVELS)),
        may("Strict", Value::Bool),
        may("Internal", Value::Bool),
        may("Default", Value::Bool),
    ],
    children: &[
        ("ProblemCategories", &PROBLEM_CATEGORIES),
        ("Collectors", &COLLECTORS),
        ("TraceMergeProperties", &TRACE_MERGE_PROPERTIES),
    ],
};

static PROFILES: Kind = Kind {
    attributes: &[],
    children: &[
        ("SystemCollector", &COLLECTOR),
        ("EventCollector", &COLLECTOR),
        ("HeapEventCollector", &COLLECTOR),
        ("SystemProvider", &SYSTEM_PROVIDER),
        ("EventProvider", &EVENT_PROVIDER),
        ("HeapEventProvider", &HEAP_PROVIDER),
        ("HardwareCounter", &HARDWARE_COUNTER),
        ("Profile", &PROFILE),
    ],
};

/// The root element's name.
pub(crate) const ROOT_NAME: &str = "WindowsPerformanceRecorder";

/// The root element.
pub(crate) static ROOT: Kind = Kind {
    attributes: &[
        may("Version", Value::Text),
        may("Author", Value::Text),
        may("Team", Value::Text),
        may("Copyright", Value::Text),
        may("Company", Value::Text),
        may("Comments", Value::Text),
        may("Tag", Value::Text),
    ],
    children: &[("Profiles", &PROFILES), ("TraceMergeProperties", &TRACE_MERGE_PROPERTIES)],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked() {
        let check = |value: Value, text: &str, refusal: Option<&str>| {
            assert_eq!(value.refusal(text), refusal, "{text}");
        };
        check(MASK, "0xFFFFFFFFFFFFFFFF", None);
        check(MASK, "0x10000000000000000", Some("a number"));
        check(Value::Number(0xFF), "256", Some("a number from 0 to 255"));
        check(Value::Number(0xFFFF), "12", None);
        check(Value::Part, "1.4", None);
        check(Value::Part, "NaN", Some("a number"));
        check(Value::Part, "-1", Some("a number"));
        check(Value::Bool, "True", None);
        check(Value::Bool, "yes", Some("true or false"));
        check(Value::Word(OPERATIONS), "add", None);
        check(Value::Word(OPERATIONS), "Change", Some("Set, Add or Remove"));
        check(Value::Word(FILE_MODES), "Round", Some("Sequential or Circular"));
    }
}
