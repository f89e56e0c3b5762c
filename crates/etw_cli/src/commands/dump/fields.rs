//! The check of `--fields`: unknown names of the header are refused, and of the payload warned of.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use anyhow::Result;
use etw_app::{UsageError, output, text};
use openetw::Event;
use openetw::export::{FieldName, FieldSelection, HeaderPath};
use openetw::schema::{EventSchema, PropertyType};

use crate::args::{DumpArgs, DumpFormat};

/// Maximum number of schemas whose names are kept for suggestions.
const MAX_SCHEMAS: usize = 10_000;

/// Returns the fields of `--fields`.
///
/// # Errors
///
/// Fails if the header has no field of a name, or if the format has no columns for fields of the header.
pub(super) fn selection(args: &DumpArgs) -> Result<FieldSelection> {
    let usage = |text: String| Err(UsageError(text).into());
    for name in args.fields.iter().filter(|name| HeaderPath::is_name(name)) {
        if HeaderPath::from_name(name).is_none() {
            let names: Vec<String> = HeaderPath::names().collect();
            let suggestion = suggestion(text::closest(name, names.iter().map(String::as_str)));
            return usage(format!("the header has no field '{name}'{suggestion}"));
        }
        if args.format != DumpFormat::Csv {
            return usage(format!(
                "'{name}' is a field of the header, which --fields shows with --format csv"
            ));
        }
    }
    if args.separator.is_some() && args.format != DumpFormat::Csv {
        return usage("--separator needs --format csv".to_owned());
    }
    Ok(FieldSelection::from_names(args.fields.iter().cloned()))
}

/// The selected fields of the payload that no event had so far, and the names that events have.
pub(super) struct Missing {
    fields: Vec<FieldName>,
    /// Names of fields by schema; the schema is kept, so that its address stays unique.
    schemas: HashMap<usize, Arc<EventSchema>>,
}

impl Missing {
    pub(super) fn new(selection: &FieldSelection) -> Missing {
        let fields = selection.names().iter().filter(|field| field.header().is_none()).cloned().collect();
        Missing { fields, schemas: HashMap::new() }
    }

    /// Learns from an event.
    #[inline]
    pub(super) fn see(&mut self, event: &Event<'_>) {
        if !self.fields.is_empty() {
            self.search(event);
        }
    }

    fn search(&mut self, event: &Event<'_>) {
        let (Ok(properties), Some(schema)) = (&event.properties, event.schema()) else { return };
        self.fields.retain(|field| field.find(properties).is_none());
        if self.schemas.len() < MAX_SCHEMAS {
            self.schemas.entry(Arc::as_ptr(schema) as usize).or_insert_with(|| schema.clone());
        }
    }

    /// Warns of fields that no event had, according to all workers.
    pub(super) fn warn(workers: impl IntoIterator<Item = Missing>) {
        let mut workers = workers.into_iter();
        let Some(mut all) = workers.next() else { return };
        for other in workers {
            all.fields.retain(|field| other.fields.iter().any(|missing| missing.name() == field.name()));
            all.schemas.extend(other.schemas);
        }
        // Without decoded events nothing is known.
        if all.schemas.is_empty() {
            return;
        }
        let names: BTreeSet<String> = all.schemas.values().flat_map(|schema| names(schema)).collect();
        for field in &all.fields {
            let of_header = format!("System.{}", field.name());
            let of_header = HeaderPath::from_name(&of_header).map(|_| of_header.as_str());
            let closest = of_header.or_else(|| text::closest(field.name(), names.iter().map(String::as_str)));
            output::warn(&format_args!("no event has a field '{}'{}", field.name(), suggestion(closest)));
        }
    }
}

/// Returns the names of a schema's fields, members with their struct.
fn names(schema: &EventSchema) -> impl Iterator<Item = String> {
    let top_level = schema.properties.get(..usize::from(schema.top_level)).unwrap_or_default();
    top_level.iter().flat_map(|property| {
        let members = match property.kind {
            PropertyType::Struct { first, members } => {
                schema.properties.get(usize::from(first)..usize::from(first) + usize::from(members))
            }
            _ => None,
        };
        let members = members.unwrap_or_default().iter();
        let members = members.map(move |member| format!("{}.{}", property.name, member.name));
        members.chain([property.name.to_string()])
    })
}

fn suggestion(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!("; did you mean '{name}'?"))
}
