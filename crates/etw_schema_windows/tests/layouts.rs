//! Every layout of the pack is compiled and applied.
#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use etw_event::PointerSize;
use etw_schema::{InType, Layout, LayoutDefect, LocateErrorKind, Located, PropertyType};
use etw_schema_windows::{EventLayout, WindowsSchemas};

fn layouts() -> impl Iterator<Item = (String, EventLayout)> {
    let pack = WindowsSchemas::new().unwrap().pack();
    (0..pack.providers().len()).flat_map(|at| {
        let block = pack.block_at(at).unwrap();
        let name = block.info().name.to_string();
        block.layouts().map(move |layout| (name.clone(), layout))
    })
}

#[test]
fn every_layout_decodes_a_payload_that_ends_where_it_ends() {
    let (mut located, zeros) = (Located::new(), vec![0; 0x1_0000]);
    let (mut count, mut open) = (0, 0);
    for (provider, EventLayout { schema, releases }) in layouts() {
        let label = || format!("{provider} {:?} {:?}", schema.descriptor, schema.name);
        count += 1;
        assert!(releases.0 != 0 || schema.provider.origin.contains(".man"), "{}", label());
        let layout = Layout::new(&schema);
        let unknown = |property: &etw_schema::Property| {
            let unknown = [InType::UNKNOWN_EXTENT, InType::UNKNOWN_STRING];
            matches!(property.kind, PropertyType::Value { in_type, .. } if unknown.contains(&in_type))
        };
        let known = schema.properties.iter().take(schema.top_level.into()).position(unknown);
        for pointer in [PointerSize::Four, PointerSize::Eight] {
            // The length that zeros have: strings are empty and counts are 0.
            let mut plain = schema.clone();
            plain.inferred = None;
            Layout::new(&plain).locate(&zeros, pointer, &mut located);
            let end = located.consumed_bytes();
            layout.locate(&zeros[..end], pointer, &mut located);
            match (known, located.error().map(|error| error.kind)) {
                (None, None) => {
                    assert_eq!(located.properties(), usize::from(schema.top_level), "{}", label());
                    assert_eq!(located.consumed_bytes(), end, "{}", label());
                }
                (Some(_), Some(LocateErrorKind::Defect(LayoutDefect::UnknownExtent))) => open += 1,
                (Some(_), Some(LocateErrorKind::Inferred(_))) => open += 1,
                (known, error) => panic!("{}: {known:?} {error:?}", label()),
            }
            // A payload that ends elsewhere proves nothing.
            if let (Some(inferred), None) = (schema.inferred, known)
                && end > 0
            {
                layout.locate(&zeros[..end + 1], pointer, &mut located);
                assert!(located.properties() <= usize::from(inferred.from), "{}", label());
                assert!(located.error().is_some(), "{}", label());
            }
        }
    }
    println!("{count} layouts, {open} of them known in part only");
    assert!(count > 60_000);
}

#[test]
fn references_point_backwards() {
    for (provider, EventLayout { schema, .. }) in layouts() {
        if let Some(defect) = Layout::new(&schema).defect() {
            assert_eq!(defect, LayoutDefect::UnknownExtent, "{provider} {:?}", schema.descriptor);
        }
    }
}
