//! What an event says, by the names of its class and its properties, and what rows must add up to.

use std::collections::BTreeMap;

use etw_consumer::Event;
use etw_event::{FileTime, Guid};
use etw_schema::FromValue;

/// Microsoft-Windows-DotNETRuntime, and its rundown.
pub(super) const CLR: Guid = Guid::from_u128(0xe13c0d23_ccbc_4e12_931b_d9cc2eee27e4);
pub(super) const CLR_RUNDOWN: Guid = Guid::from_u128(0xa669021c_c450_4609_a035_5af59af4df18);
/// Microsoft-Windows-Kernel-Network.
pub(super) const KERNEL_NETWORK: Guid = Guid::from_u128(0x7dd42a49_5329_4832_8dfd_43d979153a88);
/// Microsoft-Windows-Kernel-Memory.
pub(super) const KERNEL_MEMORY: Guid = Guid::from_u128(0xd1d93ef7_e1f2_4f45_9943_03d245fe6c00);
/// Microsoft-Windows-Kernel-Processor-Power.
pub(super) const PROCESSOR_POWER: Guid = Guid::from_u128(0x0f67e49f_fe51_4e9f_b490_6f2948cc6027);
/// Microsoft-Windows-Win32k, of Windows 8 and later, and of Windows 7.
pub(super) const WIN32K: Guid = Guid::from_u128(0x8c416c79_d49b_4f01_a467_e56d3aa8234c);
pub(super) const WIN32K_7: Guid = Guid::from_u128(0xe7ef96be_969f_414f_97d7_3ddb7b558ccc);
/// Microsoft-Windows-WinINet.
pub(super) const WININET: Guid = Guid::from_u128(0x43d1a55c_76d6_4f7e_995c_64c711e5cafe);
/// Microsoft-Windows-WebIO.
pub(super) const WEBIO: Guid = Guid::from_u128(0x50b3e73c_9370_461d_bb9f_26f32d68887d);
/// Microsoft-Windows-HttpService.
pub(super) const HTTP_SERVICE: Guid = Guid::from_u128(0xdd5ef90a_6398_47a4_ad34_4dcecdef795f);
/// Microsoft-Windows-DxgKrnl.
pub(super) const DXG_KRNL: Guid = Guid::from_u128(0x802ec45a_1e99_4b83_9920_87c98277ba9d);

/// An event.
#[derive(Clone, Copy)]
pub(super) struct Said<'e, 'r>(pub(super) &'e Event<'r>);

impl<'r> Said<'_, 'r> {
    /// Returns the provider or class, and the id or type.
    pub(super) fn kind(&self) -> (Guid, u16) {
        let (record, descriptor) = (self.0.record, self.0.record.descriptor());
        let id = if record.kind().is_classic() { descriptor.opcode.0.into() } else { descriptor.id };
        (record.provider_id(), id)
    }

    /// Returns the time in units of 100 ns.
    pub(super) fn time(&self) -> i64 {
        self.0.record.time().0
    }

    pub(super) fn get<T: FromValue<'r>>(&self, name: &str) -> Option<T> {
        self.0.properties.as_ref().ok()?.try_get(name)
    }

    /// Returns the first of some properties that the event has, as a number.
    pub(super) fn number(&self, names: &[&str]) -> Option<i128> {
        names.iter().find_map(|name| self.get(name))
    }

    /// Returns how long ago the time in a property was, in nanoseconds.
    pub(super) fn since(&self, name: &str) -> Option<i128> {
        Some(nanos(self.time() - self.get::<FileTime>(name)?.0))
    }

    pub(super) fn text(&self, name: &str) -> String {
        let property = self.0.properties.as_ref().ok().and_then(|properties| properties.find(name));
        property.map(|property| property.text().to_string()).unwrap_or_default()
    }

    /// Returns the process in the header; -1 if there is none.
    pub(super) fn process(&self) -> i128 {
        self.0.record.process_id().map_or(-1, i128::from)
    }

    /// Returns the thread in the header; -1 if there is none.
    pub(super) fn thread(&self) -> i128 {
        self.0.record.thread_id().map_or(-1, i128::from)
    }
}

/// Returns units of 100 ns in nanoseconds.
pub(super) fn nanos(units: i64) -> i128 {
    i128::from(units) * 100
}

/// What the rows of tables must add up to.
#[derive(Debug, Default)]
pub(super) struct Expected {
    /// Number of rows by table.
    pub(super) rows: BTreeMap<&'static str, u64>,
    /// Sums by table and column.
    pub(super) sums: BTreeMap<(&'static str, &'static str), i128>,
}

impl Expected {
    /// Adds a row.
    pub(super) fn row(&mut self, table: &'static str) {
        *self.rows.entry(table).or_default() += 1;
    }

    /// Adds a value to the sum of a column.
    pub(super) fn add(&mut self, table: &'static str, column: &'static str, value: i128) {
        *self.sums.entry((table, column)).or_default() += value;
    }
}

/// A part of what is expected, from the events of some classes.
pub(super) trait Part {
    fn event(&mut self, said: &Said<'_, '_>, expected: &mut Expected);

    /// Adds what is known at the end only.
    fn finish(&mut self, _expected: &mut Expected) {}
}
