//! Descriptions of the events of `tracing`'s callsites, computed once.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use etw_provider::bridge::{EventTemplate, FieldKind, NamedField, Values, put_text};
use etw_provider::fields;
use etw_sys::AtomicRef;
use tracing::Metadata;

/// Number of hash lists of descriptions, selected by callsite address.
const LISTS: usize = 1 << LISTS_BITS;
const LISTS_BITS: u32 = 9;

/// Maximum number of descriptions kept, mostly of less than a kilobyte each.
const MAX_KEPT: usize = 8192;

/// Maximum number of descriptions for one callsite, whose fields may have other types each time.
const MAX_OF_CALLSITE: usize = 16;

/// The common properties of all events of a callsite with the same fields and types.
#[derive(Debug)]
pub(crate) struct Description {
    callsite: &'static Metadata<'static>,
    fields: Vec<NamedField>,
    pub(crate) template: EventTemplate,
    /// The value of the first field, `target`.
    pub(crate) front: Vec<u8>,
    /// The value of the last field, `source`, if the callsite has one.
    pub(crate) behind: Vec<u8>,
    next: AtomicRef<Description>,
}

/// Descriptions that are kept. They are never freed, so reading takes no lock.
#[derive(Debug)]
struct Kept {
    lists: [AtomicRef<Description>; LISTS],
    count: AtomicUsize,
}

static KEPT: Kept = Kept { lists: [const { AtomicRef::none() }; LISTS], count: AtomicUsize::new(0) };

/// Calls a function with the description of a callsite's event with these values.
#[inline]
pub(crate) fn with_description<R>(
    callsite: &'static Metadata<'static>,
    values: &Values,
    function: impl FnOnce(&Description) -> R,
) -> R {
    if let Some(description) = KEPT.find(callsite, &values.fields) {
        return function(description);
    }
    match KEPT.keep(Description::new(callsite, values.fields.clone())) {
        Ok(kept) => function(kept),
        Err(description) => function(&description),
    }
}

impl Kept {
    fn list(&self, callsite: &'static Metadata<'static>) -> &AtomicRef<Description> {
        let address = std::ptr::from_ref(callsite).addr() as u64;
        // The high bits depend on all bits of the address.
        let hash = address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - LISTS_BITS);
        &self.lists[hash as usize % LISTS]
    }

    #[inline]
    fn find(
        &self,
        callsite: &'static Metadata<'static>,
        fields: &[NamedField],
    ) -> Option<&'static Description> {
        let mut next = self.list(callsite).load();
        while let Some(description) = next {
            if description.is_of(callsite, fields) {
                return Some(description);
            }
            next = description.next.load();
        }
        None
    }

    /// Keeps a description unless there are too many. If two threads keep the same one, one copy is never found.
    #[cold]
    fn keep(&self, description: Description) -> Result<&'static Description, Box<Description>> {
        let description = Box::new(description);
        let list = self.list(description.callsite);
        let mut of_callsite = 0;
        let mut next = list.load();
        while let Some(other) = next {
            of_callsite += usize::from(std::ptr::eq(other.callsite, description.callsite));
            next = other.next.load();
        }
        if of_callsite >= MAX_OF_CALLSITE || self.count.load(Relaxed) >= MAX_KEPT {
            return Err(description);
        }
        self.count.fetch_add(1, Relaxed);
        let new: &'static Description = Box::leak(description);
        loop {
            let first = list.load();
            new.next.store(first);
            if list.replace(first, Some(new)) {
                return Ok(new);
            }
        }
    }
}

impl Description {
    #[cold]
    fn new(callsite: &'static Metadata<'static>, named: Vec<NamedField>) -> Description {
        let (mut front, mut behind) = (Vec::new(), Vec::new());
        put_text(&mut front, callsite.target());
        let source = match (callsite.file(), callsite.line()) {
            (Some(file), Some(line)) => {
                put_text(&mut behind, format_args!("{file}:{line}"));
                Some(("source", FieldKind::Text.field()))
            }
            _ => None,
        };
        // Events without an explicit name are named "event FILE:LINE".
        let is_named = callsite.is_span() || !callsite.name().starts_with("event ");
        let name = if is_named { callsite.name() } else { callsite.target() };
        let target = ("target", fields::str8::FIELD);
        let own = named.iter().map(|field| (field.name, field.kind.field()));
        let template = EventTemplate::new(name, std::iter::once(target).chain(own).chain(source));
        Description { callsite, fields: named, template, front, behind, next: AtomicRef::none() }
    }

    #[inline]
    fn is_of(&self, callsite: &'static Metadata<'static>, fields: &[NamedField]) -> bool {
        std::ptr::eq(self.callsite, callsite)
            && self.fields.len() == fields.len()
            && self.fields.iter().zip(fields).all(|(one, other)| one.is(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::callsite::{Callsite, Identifier};
    use tracing::field::FieldSet;
    use tracing::subscriber::Interest;

    struct Here;
    static HERE: Here = Here;
    static METADATA: Metadata<'static> = Metadata::new(
        "event here",
        "a::target",
        tracing::Level::INFO,
        None,
        None,
        None,
        FieldSet::new(&["a"], Identifier(&HERE)),
        tracing::metadata::Kind::EVENT,
    );

    impl Callsite for Here {
        fn set_interest(&self, _: Interest) {}
        fn metadata(&self) -> &Metadata<'_> {
            &METADATA
        }
    }

    static FIELD: NamedField = NamedField { name: "a", kind: FieldKind::U64 };

    #[test]
    fn descriptions_are_kept_up_to_a_number() {
        // As many fields as needed, one more each time.
        let address = |count: usize| {
            let values = Values { fields: vec![FIELD; count], bytes: Vec::new() };
            with_description(&METADATA, &values, |description| {
                assert_eq!((description.fields.len(), description.behind.len()), (count, 0));
                assert_eq!(description.front, b"\x09\0a::target");
                std::ptr::from_ref(description).addr()
            })
        };
        let first: Vec<usize> = (0..MAX_OF_CALLSITE + 4).map(address).collect();
        let second: Vec<usize> = (0..MAX_OF_CALLSITE).map(address).collect();
        assert_eq!(first[..MAX_OF_CALLSITE], second);
        let is_kept = |count| {
            let values = vec![FIELD; count];
            KEPT.find(&METADATA, &values).is_some()
        };
        assert!((0..MAX_OF_CALLSITE).all(is_kept) && !is_kept(MAX_OF_CALLSITE));
    }
}
