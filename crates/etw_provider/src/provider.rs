//! Providers: sources of events, each with a name and a GUID.

use std::sync::atomic::{AtomicBool, AtomicU32};

use etw_event::{EventDescriptor, ExtendedType, Guid, Instance, Keyword, Level, Opcode};
use etw_sys::AtomicRef;

use crate::control::Callback;
use crate::enables::Enables;
use crate::metadata;
use crate::payload::{Nul16, Payload, guid_words};
use crate::write::{
    Classic, Context, Described, EVENT_HEADER, Message, Outcome, Plain, STRING_ONLY, descriptor_words,
};

/// A source of events, created by [`provider!`](crate::provider!) as a static or by [`Provider::create`] at run time.
///
/// A provider writes events once it is registered and enabled by a session. Until then each attempt costs one load and
/// one branch.
#[derive(Debug)]
pub struct Provider {
    name: &'static str,
    guid: Guid,
    /// The GUID as stored in records.
    guid_words: [u64; 2],
    group: Option<Guid>,
    /// The extended item with name and group.
    traits: &'static [u64],
    pub(crate) enables: Enables,
    pub(crate) place: Place,
}

/// The provider's entry in the process-wide list.
#[derive(Debug)]
pub(crate) struct Place {
    /// The previously listed provider.
    pub(crate) next: AtomicRef<Provider>,
    pub(crate) is_listed: AtomicBool,
    /// Number of registrations.
    pub(crate) registrations: AtomicU32,
    pub(crate) callback: AtomicRef<Callback>,
}

impl Provider {
    /// Creates a provider from parts computed by [`provider!`](crate::provider!).
    #[doc(hidden)]
    pub const fn from_parts(
        name: &'static str,
        guid: Guid,
        group: Option<Guid>,
        traits: &'static [u64],
    ) -> Provider {
        Provider {
            name,
            guid,
            guid_words: guid_words(&guid),
            group,
            traits,
            enables: Enables::new(),
            place: Place {
                next: AtomicRef::none(),
                is_listed: AtomicBool::new(false),
                registrations: AtomicU32::new(0),
                callback: AtomicRef::none(),
            },
        }
    }

    /// Leaks a new provider.
    pub(crate) fn leak(name: &str, guid: Guid, group: Option<Guid>) -> &'static Provider {
        let name: &'static str = Box::leak(Box::from(name));
        let mut bytes = vec![0; metadata::traits_len(name, group)];
        metadata::put_traits(&mut bytes, name, group);
        let traits = metadata::item_of(ExtendedType::PROVIDER_TRAITS, &bytes);
        Box::leak(Box::new(Provider::from_parts(name, guid, group, Box::leak(traits.into_boxed_slice()))))
    }

    /// Returns the name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the GUID by which sessions enable the provider.
    pub const fn guid(&self) -> Guid {
        self.guid
    }

    /// Returns the GUID, where it stays.
    #[cfg(windows)]
    pub(crate) fn guid_ref(&'static self) -> &'static Guid {
        &self.guid
    }

    /// Returns the provider group; enabling the group enables all its members.
    pub const fn group(&self) -> Option<Guid> {
        self.group
    }

    /// Returns the traits that every TraceLogging event carries: size, name and group.
    pub(crate) fn traits(&self) -> Vec<u8> {
        let mut bytes = vec![0; metadata::traits_len(self.name, self.group)];
        metadata::put_traits(&mut bytes, self.name, self.group);
        bytes
    }

    /// Keeps a copy of the word that decides whether an event may be wanted: the lowest level that no session wants; 0
    /// without sessions. Macros of other languages test the copy before they call [`Provider::wanted`]. `None` ends
    /// that; on return no thread writes to the previous copy.
    #[doc(hidden)]
    pub fn mirror_gate(&self, mirror: Option<&'static AtomicU32>) {
        self.enables.mirror(mirror);
    }

    /// Returns whether any session has enabled the provider.
    #[inline(always)]
    pub fn is_enabled(&self) -> bool {
        self.enables.is_open(Level::LOG_ALWAYS)
    }

    /// Returns whether a session wants events of this level and these keywords (`EventProviderEnabled`).
    #[inline(always)]
    pub fn provider_enabled(&self, level: Level, keyword: Keyword) -> bool {
        self.wanted(level, keyword) != 0
    }

    /// Returns whether a session wants this event (`EventEnabled`). Only level and keywords are checked, no other
    /// filters.
    #[inline(always)]
    pub fn event_enabled(&self, descriptor: &EventDescriptor) -> bool {
        self.wanted(descriptor.level, descriptor.keyword) != 0
    }

    /// Writes an event with the activity of the thread (`EventWrite`).
    ///
    /// ```
    /// use etw_provider::{EventDescriptor, Level, Outcome, provider};
    /// provider!(static APP: "MyCompany.MyApp");
    /// const STARTED: EventDescriptor =
    ///     EventDescriptor { level: Level::INFORMATION, id: 1, ..EventDescriptor::ZERO };
    /// let outcome = APP.write(&STARTED, &(std::process::id(), "with no session"));
    /// assert_eq!(outcome, Outcome::NotEnabled);
    /// ```
    #[inline(always)]
    pub fn write<P: Payload + ?Sized>(&self, descriptor: &EventDescriptor, payload: &P) -> Outcome {
        let wanted = self.wanted(descriptor.level, descriptor.keyword);
        if wanted == 0 {
            return Outcome::NotEnabled;
        }
        let [descriptor, keyword] = descriptor_words(descriptor);
        self.write_plain(wanted, descriptor, keyword, payload)
    }

    /// Writes an event with a given activity, or the thread's, that was caused by `related` (`EventWriteTransfer`).
    #[inline]
    pub fn write_transfer<P: Payload + ?Sized>(
        &self,
        descriptor: &EventDescriptor,
        activity: Option<&Guid>,
        related: Option<&Guid>,
        payload: &P,
    ) -> Outcome {
        let wanted = self.wanted(descriptor.level, descriptor.keyword);
        if wanted == 0 {
            return Outcome::NotEnabled;
        }
        let context = Context { activity, related, name: None };
        self.write_wanted(wanted, descriptor_words(descriptor), 0, &context, payload)
    }

    /// Writes a string as an event (`EventWriteString`).
    #[inline]
    pub fn write_string(&self, level: Level, keyword: Keyword, text: &str) -> Outcome {
        let wanted = self.wanted(level, keyword);
        if wanted == 0 {
            return Outcome::NotEnabled;
        }
        let descriptor = EventDescriptor { level, keyword, ..EventDescriptor::ZERO };
        let words = descriptor_words(&descriptor);
        self.write_wanted(wanted, words, STRING_ONLY, &Context::default(), &Nul16(text))
    }

    /// Writes a classic event of a class (`TraceEvent`), identified by the class GUID, version and type.
    ///
    /// Classic events have no keywords, activities or extended items; MOF describes their payload.
    #[inline]
    pub fn trace_event<P: Payload + ?Sized>(
        &self,
        class: &Guid,
        event_type: Opcode,
        version: u8,
        level: Level,
        payload: &P,
    ) -> Outcome {
        let wanted = self.wanted(level, Keyword(0));
        if wanted == 0 {
            return Outcome::NotEnabled;
        }
        let descriptor = EventDescriptor { level, opcode: event_type, version, ..EventDescriptor::ZERO };
        self.write_classic(wanted, class, &descriptor, None, payload)
    }

    /// Writes a classic event of an instance (`TraceEventInstance`), such as a transaction, and of the one that caused
    /// it.
    #[inline]
    pub fn trace_event_instance<P: Payload + ?Sized>(
        &self,
        class: &Guid,
        event_type: Opcode,
        version: u8,
        level: Level,
        instance: &Instance,
        payload: &P,
    ) -> Outcome {
        let wanted = self.wanted(level, Keyword(0));
        if wanted == 0 {
            return Outcome::NotEnabled;
        }
        let descriptor = EventDescriptor { level, opcode: event_type, version, ..EventDescriptor::ZERO };
        self.write_classic(wanted, class, &descriptor, Some(instance), payload)
    }

    /// Writes a WPP message (`TraceMessage`) to all sessions that have enabled the provider: its level and flags are the
    /// program's business.
    ///
    /// The GUID and the number identify the message in a file of trace formats.
    #[inline]
    pub fn trace_message<P: Payload + ?Sized>(
        &self,
        guid: Option<&Guid>,
        number: u16,
        payload: &P,
    ) -> Outcome {
        let wanted = self.wanted(Level::LOG_ALWAYS, Keyword(0));
        if wanted == 0 {
            return Outcome::NotEnabled;
        }
        self.write_message(wanted, &Message { guid: guid.map(guid_words), number }, payload)
    }

    /// Returns the sessions that want such an event, one bit each.
    #[doc(hidden)]
    #[inline(always)]
    pub fn wanted(&self, level: Level, keyword: Keyword) -> u32 {
        if !self.enables.is_open(level) {
            return 0;
        }
        match self.enables.wanted(level, keyword) {
            0 => self.noticed(level, keyword),
            wanted => wanted & self.enables.scope(),
        }
    }

    /// Writes an event whose record carries its metadata to the sessions that want it.
    #[doc(hidden)]
    #[inline(never)]
    pub fn write_event<P: Payload + ?Sized>(
        &self,
        wanted: u32,
        event: &EventMetadata<'_>,
        activity: Option<&Guid>,
        related: Option<&Guid>,
        payload: &P,
    ) -> Outcome {
        if related.is_none() {
            let front = self.described(&event.words, event.schema);
            if let Some(outcome) = self.enables.try_write(wanted, &front, activity, payload) {
                return outcome;
            }
        }
        self.write_event_anyhow(wanted, event, activity, related, payload)
    }

    /// Writes an event as [`Provider::write_event`] does, of the thread's activity, in the common case: one session has
    /// room for it. Returns whether it has done so.
    #[doc(hidden)]
    #[inline(always)]
    pub fn try_write_event<P: Payload>(
        &self,
        wanted: u32,
        words: [u64; 2],
        schema: &[u64],
        payload: P,
    ) -> bool {
        self.enables.try_write(wanted, &self.described(&words, schema), None, &payload).is_some()
    }

    #[cold]
    #[inline(never)]
    fn write_event_anyhow<P: Payload + ?Sized>(
        &self,
        wanted: u32,
        event: &EventMetadata<'_>,
        activity: Option<&Guid>,
        related: Option<&Guid>,
        payload: &P,
    ) -> Outcome {
        let name = if event.name.is_empty() { metadata::name_in_item(event.schema) } else { event.name };
        let context = Context { activity, related, name: Some(name) };
        self.enables.write(wanted, &self.described(&event.words, event.schema), &context, payload)
    }

    #[inline(always)]
    fn described<'e>(&'e self, words: &'e [u64; 2], schema: &'e [u64]) -> Described<'e> {
        Described {
            plain: Plain { first: EVENT_HEADER, provider: &self.guid_words, descriptor: words },
            traits: self.traits,
            schema,
        }
    }

    /// The common path of events with an id.
    #[inline(never)]
    fn write_plain<P: Payload + ?Sized>(
        &self,
        wanted: u32,
        descriptor: u64,
        keyword: u64,
        payload: &P,
    ) -> Outcome {
        if self.group.is_none() {
            let descriptor = &[descriptor, keyword];
            let plain = Plain { first: EVENT_HEADER, provider: &self.guid_words, descriptor };
            if let Some(outcome) = self.enables.try_write(wanted, &plain, None, payload) {
                return outcome;
            }
        }
        self.write_wanted(wanted, [descriptor, keyword], 0, &Context::default(), payload)
    }

    #[cold]
    #[inline(never)]
    fn write_wanted<P: Payload + ?Sized>(
        &self,
        wanted: u32,
        descriptor: [u64; 2],
        flags: u64,
        context: &Context<'_>,
        payload: &P,
    ) -> Outcome {
        let plain =
            Plain { first: EVENT_HEADER | flags, provider: &self.guid_words, descriptor: &descriptor };
        if self.group.is_some() {
            return self.write_with_traits(wanted, plain, context, payload);
        }
        self.enables.write(wanted, &plain, context, payload)
    }

    /// As on Windows, once a provider has set traits, every event carries them.
    #[inline(never)]
    fn write_with_traits<P: Payload + ?Sized>(
        &self,
        wanted: u32,
        plain: Plain<'_>,
        context: &Context<'_>,
        payload: &P,
    ) -> Outcome {
        let front = Described { plain, traits: self.traits, schema: &[] };
        self.enables.write(wanted, &front, context, payload)
    }

    #[inline(never)]
    fn write_message<P: Payload + ?Sized>(&self, wanted: u32, front: &Message, payload: &P) -> Outcome {
        self.enables.write(wanted, front, &Context::default(), payload)
    }

    #[inline(never)]
    fn write_classic<P: Payload + ?Sized>(
        &self,
        wanted: u32,
        class: &Guid,
        descriptor: &EventDescriptor,
        instance: Option<&Instance>,
        payload: &P,
    ) -> Outcome {
        let instance = instance.map(|instance| {
            let [first, second] = guid_words(&instance.parent_guid);
            [u64::from(instance.id) | u64::from(instance.parent_id) << 32, first, second]
        });
        let front = Classic { class: guid_words(class), descriptor: *descriptor, instance };
        self.enables.write(wanted, &front, &Context::default(), payload)
    }
}

/// A TraceLogging event as [`event!`](crate::event!) creates it: the contents of its header, and the extended item with
/// its name and fields.
#[derive(Debug)]
pub struct EventMetadata<'a> {
    /// The descriptor as stored in records.
    words: [u64; 2],
    name: &'a str,
    schema: &'a [u64],
}

impl<'a> EventMetadata<'a> {
    /// Creates an event from its parts. If `name` is empty, it is read from the schema when a filter needs it.
    #[doc(hidden)]
    pub const fn from_parts(
        descriptor: EventDescriptor,
        name: &'a str,
        schema: &'a [u64],
    ) -> EventMetadata<'a> {
        EventMetadata { words: descriptor_words(&descriptor), name, schema }
    }

    /// Creates an event from its descriptor as records store it, and its schema.
    #[doc(hidden)]
    #[inline(always)]
    pub const fn from_words(words: [u64; 2], schema: &'a [u64]) -> EventMetadata<'a> {
        EventMetadata { words, name: "", schema }
    }
}
