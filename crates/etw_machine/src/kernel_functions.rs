//! Names of the kernel's functions in a trace.
//!
//! They are valid for the recorded boot only, so a recording includes those that its events refer to.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use etw_consumer::Event;
use etw_etl::encode::field_types::{ANSI_STRING, HEX_INT64, UINT32};
use etw_etl::encode::{EventMetadata, RecordBuilder, provider_traits};
use etw_event::{EventDescriptor, ExtendedType, Guid, Level, PointerSize, Record};
use etw_kernel_events::ids::{self, EventId};
use etw_kernel_events::providers::SYMBOL_PROVIDER;
use etw_kernel_events::read;
use etw_symbols::KernelSymbols;

use crate::addresses::KERNEL_64;

const EVENT: &str = "KernelFunction";
/// Maximum number of addresses.
const MAX_ADDRESSES: usize = 1 << 20;

/// The kernel addresses in the events of a Linux trace.
#[derive(Debug, Clone, Default)]
pub struct KernelAddresses {
    addresses: BTreeSet<u64>,
}

impl KernelAddresses {
    /// Adds the addresses of an event: samples, stacks, system calls, interrupts and deferred calls.
    pub fn add(&mut self, record: &Record<'_>) {
        let stack = record.stack_trace();
        let of_event = stack.into_iter().flat_map(|stack| stack.addresses());
        of_event.take_while(|address| *address >= KERNEL_64).for_each(|it| self.insert(it));
        let address = match EventId::from_record(record) {
            Some(ids::StackWalk::STACK) => {
                let frames = read::StackEvent::new(record).stack().into_iter().flatten();
                frames.take_while(|address| *address >= KERNEL_64).for_each(|it| self.insert(it));
                return;
            }
            Some(ids::PerfInfo::SAMPLE_PROFILE) => read::SampledProfile::new(record).instruction_pointer(),
            Some(ids::PerfInfo::SYS_CL_ENTER) => read::SysCallEnter::new(record).sys_call_address(),
            Some(id) if read::Interrupt::reads(id) => read::Interrupt::new(record).routine(),
            _ => None,
        };
        self.insert(address.unwrap_or(0));
    }

    fn insert(&mut self, address: u64) {
        if address >= KERNEL_64 && self.addresses.len() < MAX_ADDRESSES {
            self.addresses.insert(address);
        }
    }

    /// Whether there are no addresses.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// Returns events that name the functions of the addresses, each function once; they lack a time.
    pub fn records(&self, symbols: &KernelSymbols) -> Vec<RecordBuilder> {
        let metadata = EventMetadata::new(EVENT)
            .field("Address", HEX_INT64)
            .field("LengthInBytes", UINT32)
            .field("Name", ANSI_STRING)
            .field("Module", ANSI_STRING)
            .build();
        let descriptor = EventDescriptor { channel: 11, level: Level(4), ..EventDescriptor::default() };
        let mut records = Vec::new();
        let mut last_end = 0;
        for address in &self.addresses {
            let Some(symbol) = symbols.find(*address).filter(|_| *address >= last_end) else { continue };
            last_end = symbol.end;
            let len_bytes = u32::try_from(symbol.end - symbol.address).unwrap_or(u32::MAX);
            let payload = [
                &symbol.address.to_le_bytes()[..],
                &len_bytes.to_le_bytes(),
                symbol.name.as_bytes(),
                b"\0",
                symbol.module.unwrap_or_default().as_bytes(),
                b"\0",
            ];
            let record = RecordBuilder::event(
                PointerSize::Eight,
                Guid::from_provider_name(SYMBOL_PROVIDER),
                &descriptor,
            );
            let record = record.item(ExtendedType::EVENT_SCHEMA_TL, &metadata);
            let record = record.item(ExtendedType::PROVIDER_TRAITS, &provider_traits(SYMBOL_PROVIDER));
            records.push(record.payload(&payload.concat()));
        }
        records
    }
}

/// The functions that a trace names.
#[derive(Debug)]
pub struct KernelFunctions {
    provider: Guid,
    /// By address: the end, the name, and the name of the module.
    functions: BTreeMap<(u32, u64), (u64, Rc<str>, Option<Rc<str>>)>,
}

impl Default for KernelFunctions {
    fn default() -> KernelFunctions {
        KernelFunctions { provider: Guid::from_provider_name(SYMBOL_PROVIDER), functions: BTreeMap::new() }
    }
}

impl KernelFunctions {
    /// Whether an event names a function.
    pub fn is_about(&self, record: &Record<'_>) -> bool {
        record.kind().is_event_header() && record.provider_id() == self.provider
    }

    /// Adds the function that a provider's event names, if any.
    #[inline]
    pub fn event(&mut self, event: &Event<'_>, machine: u32) {
        if self.is_about(event.record) {
            self.add(event, machine);
        }
    }

    #[cold]
    fn add(&mut self, event: &Event<'_>, machine: u32) {
        let Ok(properties) = &event.properties else { return };
        let text = |name| properties.try_get::<String>(name).filter(|text| !text.is_empty());
        let (Some(address), Some(len), Some(name)) =
            (properties.try_get::<u64>("Address"), properties.try_get::<u32>("LengthInBytes"), text("Name"))
        else {
            return;
        };
        let end = address.saturating_add(len.into());
        self.functions.insert((machine, address), (end, name.into(), text("Module").map(Rc::from)));
    }

    /// Returns the name, module and start of the function that contains an address in the kernel of a machine.
    pub fn find(&self, machine: u32, address: u64) -> Option<(&Rc<str>, Option<&Rc<str>>, u64)> {
        let ((_, start), (end, name, module)) =
            self.functions.range((machine, 0)..=(machine, address)).next_back()?;
        (address < *end).then_some((name, module.as_ref(), *start))
    }
}
