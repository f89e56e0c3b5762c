//! The five reference events of generated traces and of benches of decoding, as records: process start (16 fields), RPC
//! call (9), registry (6), file create (7) and thread start (10).

use etw_event::{EventDescriptor, Guid, HookId, Keyword, Level, Opcode};

/// A reference event.
#[derive(Debug, Clone)]
pub struct ReferenceEvent {
    /// Name in tables.
    pub name: &'static str,
    /// The provider, or the class of the kernel.
    pub provider: Guid,
    /// Which of its events it is.
    pub descriptor: EventDescriptor,
    /// Payload with 64-bit pointers.
    pub payload: Vec<u8>,
    /// Record with the payload: header kind SYSTEM64 for the kernel class, EVENT_HEADER64 for the others.
    pub record: Vec<u8>,
}

/// `Microsoft-Windows-Kernel-Process`.
pub const KERNEL_PROCESS: Guid = Guid::from_u128(0x22fb2cd6_0e7b_422b_a0c7_2fad1fd0e716);
/// `Microsoft-Windows-Kernel-File`.
pub const KERNEL_FILE: Guid = Guid::from_u128(0xedd08927_9cc4_4e65_b970_c2560fb5c289);
/// `Microsoft-Windows-Kernel-Registry`.
pub const KERNEL_REGISTRY: Guid = Guid::from_u128(0x70eb4f03_c1de_4f73_a051_33d13d5413bd);
/// `Microsoft-Windows-RPC`.
pub const RPC: Guid = Guid::from_u128(0x6ad52b32_d609_4be9_ae07_ce8dae937e39);
/// The kernel class `Thread`.
pub const THREAD: Guid = etw_event::classes::THREAD;

/// Returns the reference events.
pub fn events() -> Vec<ReferenceEvent> {
    let mut process = Payload::default();
    process.u32(4711).u64(0x1001).u64(133_500_000_000_000_000).u32(640).u64(0x0042).u32(1).u32(0);
    process.u32(1).u32(0).bytes(&[1, 1, 0, 0, 0, 0, 0, 16, 0, 32, 0, 0]);
    process.text(r"\Device\HarddiskVolume3\Windows\System32\notepad.exe").u32(0x0003_A1B2).u32(0x6512_3456);
    process.text("").text("").u32(0x20);
    let mut rpc = Payload::default();
    rpc.bytes(&[0x5A; 16])
        .u32(7)
        .u32(3)
        .text("NULL")
        .text("LRPC-1234567890abcdef01")
        .text("NULL")
        .u32(6)
        .u32(10)
        .u32(3);
    let mut registry = Payload::default();
    registry.u64(0xFFFF_9A01_0000_1000).u64(0xFFFF_9A01_0000_2000).u32(0).u32(2).text("");
    registry.text(r"SOFTWARE\Microsoft\Windows NT\CurrentVersion");
    let mut file = Payload::default();
    file.u64(0xFFFF_8A02_1234_5678).u64(0xFFFF_8A02_8765_4321).u32(5150).u32(0x0100_0060).u32(0x80).u32(7);
    file.text(r"\Device\HarddiskVolume3\Users\Public\Documents\report.txt");
    let mut thread = Payload::default();
    thread
        .u32(4711)
        .u32(5150)
        .u64(0xFFFF_B000_0000_6000)
        .u64(0xFFFF_B000_0000_0000)
        .u64(0xA0_0000)
        .u64(0x9F_0000);
    thread.u64(0x7FFB_1000_1000).u64(0x7FFB_1000_2000).u64(0xA1_0000).u32(0);
    let descriptor = |id, version, opcode, task, keyword| EventDescriptor {
        id,
        version,
        level: Level::INFORMATION,
        opcode: Opcode(opcode),
        task,
        keyword: Keyword(keyword),
        ..EventDescriptor::default()
    };
    let start = EventDescriptor { level: Level(0), ..descriptor(0, 2, 1, 0, 0) };
    vec![
        event("process start, 16 fields", KERNEL_PROCESS, descriptor(1, 4, 1, 1, 0x10), process),
        event("RPC call start, 9 fields", RPC, descriptor(5, 1, 1, 1, 0), rpc),
        event("registry create key, 6 fields", KERNEL_REGISTRY, descriptor(1, 0, 32, 0, 0x1000), registry),
        event("file create, 7 fields", KERNEL_FILE, descriptor(12, 1, 0, 12, 0xA0), file),
        event("thread start, 10 fields", THREAD, start, thread),
    ]
}

fn event(
    name: &'static str,
    provider: Guid,
    descriptor: EventDescriptor,
    payload: Payload,
) -> ReferenceEvent {
    let Payload(payload) = payload;
    let mut record = Payload::default();
    if provider == THREAD {
        let hook = HookId(0x0500 | u16::from(descriptor.opcode.0));
        record.bytes(&[descriptor.version, 0, 0x02, 0xC0]).u16(0x20 + payload.len() as u16).u16(hook.0);
        record.u32(5150).u32(4711).u64(1_000_000).u64(0);
    } else {
        record
            .u16(0x50 + payload.len() as u16)
            .bytes(&[0x13, 0xC0])
            .u32(0)
            .u32(5150)
            .u32(4711)
            .u64(1_000_000);
        record
            .bytes(&provider.to_bytes())
            .u16(descriptor.id)
            .bytes(&[descriptor.version, descriptor.channel]);
        record
            .bytes(&[descriptor.level.0, descriptor.opcode.0])
            .u16(descriptor.task)
            .u64(descriptor.keyword.0);
        record.u64(0).bytes(&[0; 16]);
    }
    record.bytes(&payload);
    ReferenceEvent { name, provider, descriptor, payload, record: record.0 }
}

/// Payload built field by field.
#[derive(Debug, Clone, Default)]
pub struct Payload(pub Vec<u8>);

impl Payload {
    /// Appends bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Payload {
        self.0.extend(bytes);
        self
    }
    /// Appends a 16-bit integer.
    pub fn u16(&mut self, value: u16) -> &mut Payload {
        self.bytes(&value.to_le_bytes())
    }
    /// Appends a 32-bit integer.
    pub fn u32(&mut self, value: u32) -> &mut Payload {
        self.bytes(&value.to_le_bytes())
    }
    /// Appends a 64-bit integer.
    pub fn u64(&mut self, value: u64) -> &mut Payload {
        self.bytes(&value.to_le_bytes())
    }
    /// Appends a text as UTF-16 with a terminator.
    pub fn text(&mut self, text: &str) -> &mut Payload {
        for unit in text.encode_utf16().chain([0]) {
            self.u16(unit);
        }
        self
    }
}
