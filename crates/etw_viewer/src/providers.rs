//! The providers whose schemas are known: search, details by release of Windows, and what records a choice of events.

use std::fmt::Write;

use anyhow::{Result, bail};
use etw_app::description;
use etw_app::schema_diff::Side;
use etw_app::schemas::{SchemaOptions, Schemas};
use etw_app::search::{Kind, search};
use openetw::schema::text::xml_text;
use serde::Deserialize;
use serde_json::{Value, json};

/// Maximum number of things of an answer.
const MAX_FOUND: usize = 2000;
/// Maximum length of a text to search for, in bytes.
const MAX_TEXT_BYTES: usize = 1000;

/// A search through all names.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct SearchRequest {
    text: String,
    /// `provider`, `event`, `field`, `keyword`, `map`; all if empty.
    #[serde(default)]
    kinds: Vec<String>,
}

/// A provider to show.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ShowRequest {
    /// Name or GUID.
    name: String,
    /// Name or build of a release of Windows; all layouts if missing.
    #[serde(default)]
    release: Option<String>,
}

/// Events of a provider that were chosen.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ChoiceRequest {
    name: String,
    guid: String,
    /// Ids; all events if empty.
    #[serde(default)]
    events: Vec<u16>,
    /// Mask of keywords; all if 0.
    #[serde(default)]
    keywords: u64,
    /// Highest level; all if 0.
    #[serde(default)]
    level: u8,
    /// Whether events have stacks.
    #[serde(default)]
    stacks: bool,
}

/// Returns everything whose name has the words of a text.
///
/// # Errors
///
/// Fails if the text is empty or very long, or if the schemas cannot be read.
pub(crate) fn find(request: &SearchRequest) -> Result<Value> {
    let text = request.text.trim();
    if text.is_empty() || text.len() > MAX_TEXT_BYTES {
        bail!("name a part of a provider, event, field, keyword or map");
    }
    let all = [Kind::Provider, Kind::Event, Kind::Field, Kind::Keyword, Kind::Map];
    let is_wanted = |kind: &Kind| request.kinds.iter().any(|name| name == kind.name());
    let kinds: Vec<Kind> = all.into_iter().filter(is_wanted).collect();
    let found = search(&schemas()?, text, &kinds)?;
    let mut lines = Vec::new();
    found.put_json(&mut lines)?;
    let lines = String::from_utf8_lossy(&lines);
    let things: Vec<Value> =
        lines.lines().take(MAX_FOUND).map(serde_json::from_str).collect::<Result<_, _>>()?;
    Ok(json!({ "count": found.len(), "found": things }))
}

/// Returns a provider with all its events, and the releases of Windows whose layouts are known.
///
/// # Errors
///
/// Fails if the provider or the release is unknown, or if the schemas cannot be read.
pub(crate) fn show(request: &ShowRequest) -> Result<Value> {
    let schemas = schemas()?;
    let release = request.release.as_deref().filter(|release| !release.is_empty());
    let number = match (release, schemas.pack()) {
        (Some(release), Some(pack)) => Some(Side::find(pack, release)?.number),
        (Some(_), None) => bail!("the built-in schemas of Windows are damaged"),
        (None, _) => None,
    };
    let found = schemas.describe(&request.name, number)?;
    if found.is_empty() {
        bail!("unknown provider '{}'", request.name);
    }
    let releases: Vec<&str> =
        schemas.pack().into_iter().flat_map(|pack| pack.releases()).map(|release| &*release.name).collect();
    let providers: Vec<Value> = found.iter().map(|provider| description::to_json(provider, &[])).collect();
    Ok(json!({ "releases": releases, "providers": providers }))
}

/// Returns what records and shows the chosen events: command lines, a recording profile and code.
pub(crate) fn choice(request: &ChoiceRequest) -> Value {
    let ChoiceRequest { name, guid, events, keywords, level, stacks } = request;
    let ids: Vec<String> = events.iter().map(u16::to_string).collect();
    // `Name:Level:EventIDs:MatchAnyKeyword`, without what is not restricted at the end.
    let mut parts = vec![name.clone()];
    let tail = [
        if *level > 0 { level.to_string() } else { String::new() },
        ids.join(","),
        if *keywords > 0 { format!("{keywords:#x}") } else { String::new() },
    ];
    let last = tail.iter().rposition(|part| !part.is_empty()).map_or(0, |last| last + 1);
    parts.extend(tail.into_iter().take(last));
    let provider = parts.join(":");
    let stack_option = if *stacks { " --stacks" } else { "" };
    let quoted = shell(&provider);
    json!({
        "provider": provider,
        "record": format!("etw record -p {quoted}{stack_option} -o trace.etl"),
        "watch": format!("etw watch -p {quoted}{stack_option}"),
        "dump": format!("etw dump trace.etl -p {quoted}"),
        "logman": format!(
            "logman start choice -p {{{}}} {:#x} {} -o trace.etl -ets",
            guid.trim_matches(['{', '}']),
            if *keywords > 0 { *keywords } else { u64::MAX },
            if *level > 0 { *level } else { u8::MAX },
        ),
        "wprp": wprp(request),
        "code": code(&provider),
    })
}

/// Returns a recording profile for the Windows Performance Recorder and `etw record --profile`.
fn wprp(request: &ChoiceRequest) -> String {
    let ChoiceRequest { name, guid, events, keywords, level, stacks } = request;
    let guid = guid.trim_matches(['{', '}']);
    let level = if *level > 0 { format!(" Level=\"{level}\"") } else { String::new() };
    let stack = if *stacks { " Stack=\"true\"" } else { "" };
    let mut inner = String::new();
    if *keywords > 0 {
        let _ = write!(
            inner,
            "\n      <Keywords>\n        <Keyword Value=\"{keywords:#x}\"/>\n      </Keywords>"
        );
    }
    if !events.is_empty() {
        let ids: String = events.iter().map(|id| format!("\n        <EventId Value=\"{id}\"/>")).collect();
        let _ = write!(inner, "\n      <EventFilters FilterIn=\"true\">{ids}\n      </EventFilters>");
    }
    let end = if inner.is_empty() { "/>".to_owned() } else { format!(">{inner}\n    </EventProvider>") };
    let described = xml_text(name);
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>
<WindowsPerformanceRecorder Version=\"1.0\">
  <Profiles>
    <EventCollector Id=\"Collector\" Name=\"Choice\">
      <BufferSize Value=\"1024\"/>
      <Buffers Value=\"64\"/>
    </EventCollector>
    <EventProvider Id=\"Provider\" Name=\"{guid}\"{level}{stack}{end}
    <Profile Id=\"Choice.Verbose.File\" Name=\"Choice\" Description=\"Events of {described}\" DetailLevel=\"Verbose\" LoggingMode=\"File\">
      <Collectors>
        <EventCollectorId Value=\"Collector\">
          <EventProviders>
            <EventProviderId Value=\"Provider\"/>
          </EventProviders>
        </EventCollectorId>
      </Collectors>
    </Profile>
  </Profiles>
</WindowsPerformanceRecorder>
"
    )
}

/// Returns a program in Rust that prints the events of a trace.
fn code(provider: &str) -> String {
    format!(
        "use openetw::{{EventFilter, Trace}};

fn main() -> Result<(), Box<dyn std::error::Error>> {{
    let filter = EventFilter::default().provider({provider:?})?;
    let mut trace = Trace::builder().file(\"trace.etl\").filter(&filter).open()?;
    trace.for_each_event(|event| println!(\"{{event:?}}\"))?;
    Ok(())
}}
"
    )
}

fn schemas() -> Result<Schemas> {
    Schemas::load(&SchemaOptions::default())
}

/// Quotes a word for a shell, if it needs it.
fn shell(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:,/=+".contains(&byte);
    match word.bytes().all(is_plain) && !word.is_empty() {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use openetw::profile::{ProfileFile, ProviderName};

    use super::*;

    fn request() -> ChoiceRequest {
        ChoiceRequest {
            name: "Microsoft-Windows-Kernel-File".to_owned(),
            guid: "{edd08927-9cc4-4e65-b970-c2560fb5c289}".to_owned(),
            events: vec![12, 15],
            keywords: 0x90,
            level: 4,
            stacks: true,
        }
    }

    #[test]
    fn commands_name_what_was_chosen() {
        let made = choice(&request());
        assert_eq!(
            made["record"],
            "etw record -p Microsoft-Windows-Kernel-File:4:12,15:0x90 --stacks -o trace.etl"
        );
        let spec: openetw::ProviderSpec = made["provider"].as_str().unwrap().parse().unwrap();
        assert!(format!("{spec:?}").contains("15"), "{spec:?}");
        let all =
            choice(&ChoiceRequest { events: Vec::new(), keywords: 0, level: 0, stacks: false, ..request() });
        assert_eq!(all["dump"], "etw dump trace.etl -p Microsoft-Windows-Kernel-File");
        let strange = choice(&ChoiceRequest { name: "it's <b>".to_owned(), ..request() });
        assert!(strange["record"].as_str().unwrap().contains("'it'\\''s <b>:4"), "{strange}");
        assert!(!strange["wprp"].as_str().unwrap().contains("<b>"));
    }

    #[test]
    fn the_profile_is_one() {
        let made = choice(&request());
        let text = made["wprp"].as_str().unwrap();
        let file = ProfileFile::parse(text).unwrap();
        assert!(file.not_understood().is_empty(), "{:?}", file.not_understood());
        let profile = file.resolve(&file.profiles()[0]).unwrap();
        let collector = &profile.collectors[0];
        let provider = &collector.event_providers[0];
        assert!(matches!(&provider.name, ProviderName::Guid(guid) if guid.to_string().contains("edd08927")));
        assert_eq!((provider.level, provider.keywords, provider.stack), (Some(4), 0x90, true));
        assert_eq!(provider.filters.len(), 1);
    }
}
