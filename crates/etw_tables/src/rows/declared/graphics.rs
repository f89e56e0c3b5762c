//! Tables of the graphics kernel (Microsoft-Windows-DxgKrnl).

use super::{EventValue, Kinds, Scope, ValueSource};
use crate::rows::columns::{
    Address, Bool, Bytes, End, GpuContext, Id, LongId, Span, Stack, Start, Text, Thread,
};
use crate::rows::objects::DXG_KRNL;

property_table! {
    /// One row for each packet that the hardware of a graphics adapter got.
    DMA_PACKETS: "gpu_dma_packets", "GPU Hardware Queue", Scope::Machine;
    summary by ["context.process", "context.node", "packet_type"]
        values ["sum(duration)", "rows", "max(duration)"];
    starts &[Kinds {
        provider: DXG_KRNL,
        events: &[(175, "DmaPacketStart")],
        key: &["hContext", "ulQueueSubmitSequence"],
    }];
    stops &[Kinds {
        provider: DXG_KRNL,
        events: &[(176, "DmaPacketStop")],
        key: &["hContext", "ulQueueSubmitSequence"],
    }];
    /// When the hardware got it.
    start_time: Start = ValueSource::Start(EventValue::Time),
    /// When it was done, if that was during the trace.
    end_time: End = ValueSource::Stop(EventValue::Time),
    /// Time between the two.
    duration: Span = ValueSource::Lasted,
    /// ReportContext, with its process and engine.
    context: GpuContext = ValueSource::Start(EventValue::GpuContext("hContext")),
    /// Type of the packet.
    packet_type: Text = ValueSource::Start(EventValue::Property(&["PacketType"])),
    /// Number of the packet in the queue of its context.
    submit_sequence: Id = ValueSource::Start(EventValue::Property(&["ulQueueSubmitSequence"])),
    /// Number of the submission.
    submission_id: LongId = ValueSource::Start(EventValue::Property(&["uliSubmissionId"])),
    /// Whether it was ended for another packet.
    preempted: Bool = ValueSource::Stop(EventValue::Property(&["bPreempted"])),
}

property_table! {
    /// One row for each packet that a program put into the queue of a context.
    QUEUE_PACKETS: "gpu_queue_packets", "GPU Software Queue", Scope::Machine;
    summary by ["context.process", "operation", "packet_type"]
        values ["sum(duration)", "rows", "max(duration)"];
    starts &[Kinds {
        provider: DXG_KRNL,
        events: &[(178, "Packet"), (244, "Wait"), (245, "Signal")],
        key: &["hContext", "SubmitSequence"],
    }];
    stops &[Kinds { provider: DXG_KRNL, events: &[(180, "Stop")], key: &["hContext", "SubmitSequence"] }];
    /// When it was put into the queue.
    start_time: Start = ValueSource::Start(EventValue::Time),
    /// When it was done, if that was during the trace.
    end_time: End = ValueSource::Stop(EventValue::Time),
    /// Time between the two.
    duration: Span = ValueSource::Lasted,
    /// ReportContext, with its process and engine.
    context: GpuContext = ValueSource::Start(EventValue::GpuContext("hContext")),
    /// Thread that did it.
    thread: Thread = ValueSource::Start(EventValue::Thread),
    /// `Packet`, `Wait` for an object or `Signal` of objects.
    operation: Text = ValueSource::Start(EventValue::Name),
    /// Type of the packet.
    packet_type: Text = ValueSource::Start(EventValue::Property(&["PacketType"])),
    /// Number of the packet in the queue.
    submit_sequence: Id = ValueSource::Start(EventValue::Property(&["SubmitSequence"])),
    /// Size of its commands.
    dma_buffer_size: Bytes = ValueSource::Start(EventValue::Property(&["DmaBufferSize"])),
    /// Whether it shows a frame.
    present: Bool = ValueSource::Start(EventValue::Property(&["bPresent"])),
    /// Address of the object that is waited for.
    sync_object: Address = ValueSource::Start(EventValue::Property(&["hSyncObject"])),
    /// Value of that object.
    fence_value: LongId = ValueSource::Start(EventValue::Property(&["FenceValue"])),
    /// Whether it was ended for another packet.
    preempted: Bool = ValueSource::Stop(EventValue::Property(&["bPreempted"])),
    /// Whether it took too long.
    timed_out: Bool = ValueSource::Stop(EventValue::Property(&["bTimeouted"])),
    /// Stack, whose frames are rows of `frames`, if the trace has it.
    stack: Stack = ValueSource::Start(EventValue::Stack),
}
