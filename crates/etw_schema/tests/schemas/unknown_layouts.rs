//! The page of schemas lists exactly the built-in event types of classes that have no known layout.

use std::path::Path;

use etw_schema::{EventSchema, InType, PropertyType, builtin};

/// Returns whether an event's payload is one field of bytes.
fn is_unknown(event: &EventSchema) -> bool {
    let [field] = &event.properties[..] else { return false };
    let is_bytes = matches!(field.kind, PropertyType::Value { in_type: InType::BINARY_TO_END, .. });
    &*field.name == "Data" && is_bytes
}

#[test]
fn the_page_lists_the_types_without_a_layout() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas.md");
    let Ok(page) = std::fs::read_to_string(page) else {
        etw_testkit::skip!("no docs beside this package");
        return;
    };
    let mut rows = String::new();
    for entry in builtin::providers().filter(|entry| entry.is_class) {
        let provider = entry.provider().unwrap();
        let unknown = provider.events.iter().filter(|event| is_unknown(event));
        let types: Vec<_> = unknown
            .map(|event| format!("{} {}", event.descriptor.opcode.0, event.opcode_name.as_ref().unwrap()))
            .collect();
        if !types.is_empty() {
            rows.push_str(&format!("| {} | {} |\n", entry.name, types.join(", ")));
        }
    }
    let (_, after) = page.split_once("| class | event types |\n|---|---|\n").unwrap();
    let listed: String =
        after.lines().take_while(|line| line.starts_with('|')).map(|line| format!("{line}\n")).collect();
    assert_eq!(listed, rows);
}
