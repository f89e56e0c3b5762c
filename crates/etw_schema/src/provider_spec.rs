//! Provider strings: `(Name|{GUID})[:Level[:[!]EventIDs[:MatchAnyKeyword[:MatchAllKeyword]]]]`.

use std::fmt;
use std::str::FromStr;

use crate::builtin;
use etw_event::{Guid, Keyword, Level, Record, passes};

/// A filter on the events of one provider, with the rules a session applies when it enables a provider.
///
/// The text form has positional parts. An empty or omitted part has its default:
///
/// | part | form | default |
/// |---|---|---|
/// | name or GUID | `Microsoft-Windows-DNS-Client`, `{1c95126e-…}`, `1c95126e-…` | required |
/// | level | a number, or a name (`Warning`) | 0: every level |
/// | event ids | numbers and ranges, separated by commas: `1,3,10-19`; with `!` first, all others | every id |
/// | match any | a mask or keyword names, joined by `,` or `\|` | 0: every keyword |
/// | match all | as above | 0 |
///
/// Numbers are decimal, hexadecimal (`0x`), octal (`0o`) or binary (`0b`).
///
/// ```
/// use etw_schema::ProviderSpec;
///
/// let spec: ProviderSpec = "Microsoft-Windows-Kernel-Process:Information:1,2:0x10".parse()?;
/// assert_eq!(spec.level.0, 4);
/// assert!(spec.ids.contains(2) && !spec.ids.contains(3));
/// assert_eq!(spec.any.mask, 0x10);
/// # Ok::<(), etw_schema::ProviderSpecError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderSpec {
    /// The provider.
    pub provider: ProviderKey,
    /// The highest level that passes; 0 for all.
    pub level: Level,
    /// The event ids that pass.
    pub ids: IdSet,
    /// At least one of these keywords must be set. If empty, every event passes.
    pub any: KeywordSpec,
    /// All of these keywords must be set.
    pub all: KeywordSpec,
}

/// The provider of a [`ProviderSpec`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderKey {
    /// By GUID: provider GUID, class GUID or message GUID.
    Guid(Guid),
    /// By name, compared without regard to case.
    Name(Box<str>),
}

/// A set of keywords: bits, and names to be resolved with the provider's schema.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeywordSpec {
    /// Bits.
    pub mask: u64,
    /// Unresolved names.
    pub names: Vec<Box<str>>,
}

/// A set of event ids, as inclusive ranges that it contains or excludes. The default contains every id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IdSet {
    ranges: Vec<(u16, u16)>,
    is_exclusion: bool,
}

/// The error of parsing a provider string.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderSpecError {
    /// The provider is missing.
    #[error("'{0}' names no provider; expected NAME or {{GUID}}, optionally followed by :LEVEL:IDS:ANY:ALL")]
    Empty(String),
    /// More than five parts.
    #[error("'{0}' has more than five parts; expected (NAME|{{GUID}}):LEVEL:IDS:ANY:ALL")]
    TooManyParts(String),
    /// A condition on payloads (`NAME where SIZE > 10`), which only some commands take.
    #[error("'{0}' has a condition ('where'), which is not possible here")]
    Condition(String),
    /// A provider in braces that is not a valid GUID.
    #[error("provider {0}")]
    Guid(#[from] etw_event::GuidParseError),
    /// An invalid level.
    #[error(
        "level '{0}' is neither a number from 0 to 255 nor one of Critical, Error, Warning, Information, Verbose"
    )]
    Level(String),
    /// An invalid event id or range.
    #[error("event id '{0}' is neither a number from 0 to 65535 nor a range of such numbers")]
    Id(String),
    /// An invalid keyword mask.
    #[error("keyword '{0}' is not a 64-bit number")]
    Keyword(String),
    /// A keyword name that is not in the provider's schema.
    #[error("provider {provider} has no keyword '{keyword}'{}", hint(.known))]
    UnknownKeyword {
        /// The provider.
        provider: String,
        /// The name.
        keyword: String,
        /// The provider's keyword names.
        known: Vec<String>,
    },
}

fn hint(known: &[String]) -> String {
    match known {
        [] => " in a schema; give a schema of it, or the keyword's bits, such as 0x10".to_owned(),
        known => format!("; it has {}", known.join(", ")),
    }
}

impl ProviderSpec {
    /// Creates a specification that every event of a provider passes.
    pub fn new(provider: ProviderKey) -> ProviderSpec {
        ProviderSpec {
            provider,
            level: Level::LOG_ALWAYS,
            ids: IdSet::default(),
            any: KeywordSpec::default(),
            all: KeywordSpec::default(),
        }
    }

    /// Resolves keyword names to bits. `lookup` returns the bits of a name; `known` lists names for the error message.
    ///
    /// # Errors
    ///
    /// Fails if `lookup` returns `None` for a name.
    pub fn resolve_keywords(
        &mut self,
        lookup: impl Fn(&str) -> Option<u64>,
        known: impl Fn() -> Vec<String>,
    ) -> Result<(), ProviderSpecError> {
        let provider = self.provider.to_string();
        for keywords in [&mut self.any, &mut self.all] {
            for name in std::mem::take(&mut keywords.names) {
                keywords.mask |= lookup(&name).ok_or_else(|| ProviderSpecError::UnknownKeyword {
                    provider: provider.clone(),
                    keyword: name.to_string(),
                    known: known(),
                })?;
            }
        }
        Ok(())
    }

    /// Returns whether a record of this provider passes level, ids and keywords, by the rules of the ETW runtime. Does
    /// not check the provider. Nothing passes while keyword names are unresolved.
    #[inline]
    pub fn passes(&self, record: &Record<'_>) -> bool {
        let descriptor = record.descriptor();
        self.any.names.is_empty()
            && self.all.names.is_empty()
            && self.ids.contains(descriptor.id)
            && passes(&descriptor, self.level, Keyword(self.any.mask), Keyword(self.all.mask))
    }
}

impl ProviderKey {
    /// Parses a GUID with or without braces; any other text is a name.
    ///
    /// # Errors
    ///
    /// Fails if the text starts with a brace but is not a GUID.
    pub fn parse(text: &str) -> Result<ProviderKey, etw_event::GuidParseError> {
        match text.parse() {
            Ok(guid) => Ok(ProviderKey::Guid(guid)),
            Err(error) if text.starts_with('{') => Err(error),
            Err(_) => Ok(ProviderKey::Name(text.into())),
        }
    }

    /// Returns the GUID to enable. A name maps to a built-in provider's GUID, or else to the GUID that EventSource and
    /// TraceLogging derive from it.
    pub fn guid(&self) -> Guid {
        match self {
            ProviderKey::Guid(guid) => *guid,
            ProviderKey::Name(name) => builtin::find(name).unwrap_or_else(|| Guid::from_provider_name(name)),
        }
    }

    /// Returns the GUIDs that the key matches. A name matches a built-in provider's GUID and the GUID that EventSource
    /// and TraceLogging derive from it.
    pub fn guids(&self) -> Vec<Guid> {
        match self {
            ProviderKey::Guid(guid) => vec![*guid],
            ProviderKey::Name(name) => {
                builtin::find(name).into_iter().chain([Guid::from_provider_name(name)]).collect()
            }
        }
    }
}

impl fmt::Display for ProviderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProviderKey::Guid(guid) => write!(f, "{guid}"),
            ProviderKey::Name(name) => f.write_str(name),
        }
    }
}

impl KeywordSpec {
    fn parse(text: &str) -> Result<KeywordSpec, ProviderSpecError> {
        let mut keywords = KeywordSpec::default();
        for part in text.split([',', '|']).map(str::trim).filter(|part| !part.is_empty()) {
            if part.starts_with(|c: char| c.is_ascii_digit()) {
                keywords.mask |=
                    parse_number(part).ok_or_else(|| ProviderSpecError::Keyword(part.to_owned()))?;
            } else {
                keywords.names.push(part.into());
            }
        }
        Ok(keywords)
    }
}

impl IdSet {
    /// Returns whether the set contains `id`.
    #[inline]
    pub fn contains(&self, id: u16) -> bool {
        self.ranges.is_empty()
            || self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&id)) != self.is_exclusion
    }

    /// Returns the ids in the order given, or `None` if the set contains every id. If the set
    /// [excludes](Self::is_exclusion) ids, these are returned.
    pub fn list(&self) -> Option<Vec<u16>> {
        let ids = self.ranges.iter().flat_map(|(first, last)| *first..=*last);
        if self.ranges.is_empty() { None } else { Some(ids.collect()) }
    }

    /// Returns the inclusive ranges in the order given.
    pub fn ranges(&self) -> &[(u16, u16)] {
        &self.ranges
    }

    /// Returns whether the set contains all ids except those listed.
    pub fn is_exclusion(&self) -> bool {
        self.is_exclusion
    }

    /// Returns whether the set contains every id.
    pub fn is_all(&self) -> bool {
        self.ranges.is_empty()
    }
}

impl FromIterator<u16> for IdSet {
    fn from_iter<I: IntoIterator<Item = u16>>(ids: I) -> IdSet {
        IdSet { ranges: ids.into_iter().map(|id| (id, id)).collect(), is_exclusion: false }
    }
}

impl FromStr for IdSet {
    type Err = ProviderSpecError;

    /// Parses numbers and inclusive ranges, separated by commas: `1,3,10-19`. With `!` first, the set contains all other
    /// ids. An empty text means every id.
    fn from_str(text: &str) -> Result<IdSet, ProviderSpecError> {
        let (listed, is_exclusion) = match text.trim_start().strip_prefix('!') {
            Some(listed) => (listed, true),
            None => (text, false),
        };
        let id = |text: &str| parse_number(text.trim()).and_then(|id| u16::try_from(id).ok());
        let range = |part: &str| match part.split_once('-') {
            Some((first, last)) => Some((id(first)?, id(last)?)).filter(|(first, last)| first <= last),
            None => id(part).map(|id| (id, id)),
        };
        let parts = listed.split(',').map(str::trim).filter(|part| !part.is_empty());
        let ranges = parts.map(|part| range(part).ok_or_else(|| ProviderSpecError::Id(part.to_owned())));
        let ranges: Vec<_> = ranges.collect::<Result<_, _>>()?;
        if ranges.is_empty() && is_exclusion {
            return Err(ProviderSpecError::Id(text.to_owned()));
        }
        Ok(IdSet { ranges, is_exclusion })
    }
}

impl FromStr for ProviderSpec {
    type Err = ProviderSpecError;

    fn from_str(text: &str) -> Result<ProviderSpec, ProviderSpecError> {
        if text.contains(" where ") {
            return Err(ProviderSpecError::Condition(text.to_owned()));
        }
        let mut parts = text.split(':').map(str::trim);
        let key = parts.next().filter(|key| !key.is_empty());
        let key = key.ok_or_else(|| ProviderSpecError::Empty(text.to_owned()))?;
        let mut part = || parts.next().unwrap_or_default();
        let spec = ProviderSpec {
            provider: ProviderKey::parse(key)?,
            level: parse_level(part())?,
            ids: part().parse()?,
            any: KeywordSpec::parse(part())?,
            all: KeywordSpec::parse(part())?,
        };
        match parts.next() {
            None => Ok(spec),
            Some(_) => Err(ProviderSpecError::TooManyParts(text.to_owned())),
        }
    }
}

fn parse_level(text: &str) -> Result<Level, ProviderSpecError> {
    if text.is_empty() {
        return Ok(Level::LOG_ALWAYS);
    }
    level_by_name(text)
        .or_else(|| parse_number(text).and_then(|level| u8::try_from(level).ok()).map(Level))
        .ok_or_else(|| ProviderSpecError::Level(text.to_owned()))
}

/// Returns the standard level of a name: `Warning`, `win:Warning`, `warn`; `Informational` means `Information`.
pub fn level_by_name(name: &str) -> Option<Level> {
    let name = name.to_ascii_lowercase();
    let name = name.strip_prefix("win:").unwrap_or(&name);
    Some(match name {
        "logalways" | "always" => Level::LOG_ALWAYS,
        "critical" => Level::CRITICAL,
        "error" => Level::ERROR,
        "warning" | "warn" => Level::WARNING,
        "information" | "informational" | "info" => Level::INFORMATION,
        "verbose" => Level::VERBOSE,
        _ => return None,
    })
}

/// Parses an unsigned number: `0x` hexadecimal, `0o` octal, `0b` binary, otherwise decimal. `_` may separate digits.
pub fn parse_number(text: &str) -> Option<u64> {
    let text = text.replace('_', "").to_ascii_lowercase();
    let (digits, radix) = match text.get(..2) {
        Some("0x") => (&text[2..], 16),
        Some("0o") => (&text[2..], 8),
        Some("0b") => (&text[2..], 2),
        _ => (&text[..], 10),
    };
    if digits.starts_with('+') { None } else { u64::from_str_radix(digits, radix).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_defaults() {
        let check = |text: &str, level: u8, ids: &[(u16, u16)], any: u64, all: u64| {
            let spec: ProviderSpec = text.parse().unwrap();
            assert_eq!(
                (spec.level.0, spec.ids.ranges(), spec.any.mask, spec.all.mask),
                (level, ids, any, all)
            );
        };
        check("Name", 0, &[], 0, 0);
        check("Name:5", 5, &[], 0, 0);
        check("Name:warning:1,0x2,10-19", 3, &[(1, 1), (2, 2), (10, 19)], 0, 0);
        check("Name:::0xFFFFFFFFFFFFFFFF:0b101", 0, &[], u64::MAX, 5);
        check("{9e814aad-3204-11d2-9a82-006008a86939}:0xff::16|1", 255, &[], 17, 0);
        check("Name::!1,10-19", 0, &[(1, 1), (10, 19)], 0, 0);
        let others: IdSet = "!1,10-19".parse().unwrap();
        assert!(others.is_exclusion() && !others.is_all());
        assert_eq!(
            [0, 1, 9, 10, 19, 20].map(|id| others.contains(id)),
            [true, false, true, false, false, true]
        );
    }

    #[test]
    fn guids_and_names() {
        let guid: ProviderSpec = "9E814AAD-3204-11d2-9a82-006008a86939".parse().unwrap();
        assert_eq!(guid.provider, ProviderKey::Guid(Guid::from_u128(0x9e814aad_3204_11d2_9a82_006008a86939)));
        let mut named: ProviderSpec = "A-B:4::PROCESS,0x2:Image".parse().unwrap();
        assert_eq!(named.provider, ProviderKey::Name("A-B".into()));
        let lookup = |name: &str| [("PROCESS", 16), ("Image", 64)].iter().find(|k| k.0 == name).map(|k| k.1);
        named.resolve_keywords(lookup, Vec::new).unwrap();
        assert_eq!((named.any.mask, named.all.mask), (18, 64));
        let mut named: ProviderSpec = "A-B:::Nope".parse().unwrap();
        let error = named.resolve_keywords(|_| None, || vec!["PROCESS".to_owned()]).unwrap_err();
        assert_eq!(error.to_string(), "provider A-B has no keyword 'Nope'; it has PROCESS");
    }

    #[test]
    fn errors_say_what_was_expected() {
        let check = |text: &str, expected: &str| {
            let error = text.parse::<ProviderSpec>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        };
        check("", "names no provider");
        check(":5", "names no provider");
        check("{9e81}", "'{9e81}' is not a GUID");
        check("A:256", "level '256'");
        check("A:loud", "Critical, Error, Warning");
        check("A::65536", "event id '65536'");
        check("A::5-1", "event id '5-1'");
        check("A::!", "event id '!'");
        check("A::1,!2", "event id '!2'");
        check("A:::0x1FFFFFFFFFFFFFFFF", "keyword '0x1FFFFFFFFFFFFFFFF'");
        check("A:1:1:1:1:1", "more than five parts");
    }
}
