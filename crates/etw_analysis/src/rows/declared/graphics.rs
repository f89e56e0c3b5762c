//! Tables of the graphics kernel (Microsoft-Windows-DxgKrnl).

use etw_columns::{Column, ColumnType, TableSchema, Unit};

use super::{Declared, Fill, Kinds, Of, Scope};
use crate::rows::columns::{STACK, THREAD, address, bytes, duration, end_of, id, start_of, text};
use crate::rows::objects::DXG_KRNL;

const CONTEXT: Column = Column::row_of("gpu_contexts", "context", "Context, with its process and engine.");

pub(super) static DMA_PACKETS: Declared = Declared {
    schema: &TableSchema::new(
        "gpu_dma_packets",
        "GPU Hardware Queue",
        "One row for each packet that the hardware of a graphics adapter got.",
        columns![
            start_of("start_time", "When the hardware got it."),
            end_of("end_time", "When it was done, if that was during the trace."),
            duration("duration", "Time between the two."),
            CONTEXT,
            text("packet_type", "Type of the packet."),
            id("submit_sequence", "Number of the packet in the queue of its context."),
            Column::new("submission_id", ColumnType::U64, "Number of the submission.").unit(Unit::Id),
            Column::new("preempted", ColumnType::Bool, "Whether it was ended for another packet."),
        ],
    ),
    starts: &[Kinds {
        provider: DXG_KRNL,
        events: &[(175, "DmaPacketStart")],
        key: &["hContext", "ulQueueSubmitSequence"],
    }],
    stops: &[Kinds {
        provider: DXG_KRNL,
        events: &[(176, "DmaPacketStop")],
        key: &["hContext", "ulQueueSubmitSequence"],
    }],
    scope: Scope::Machine,
    values: &[
        Fill::Start(Of::Time),
        Fill::Stop(Of::Time),
        Fill::Lasted,
        Fill::Start(Of::GpuContext("hContext")),
        Fill::Start(Of::Property(&["PacketType"])),
        Fill::Start(Of::Property(&["ulQueueSubmitSequence"])),
        Fill::Start(Of::Property(&["uliSubmissionId"])),
        Fill::Stop(Of::Property(&["bPreempted"])),
    ],
};

pub(super) static QUEUE_PACKETS: Declared = Declared {
    schema: &TableSchema::new(
        "gpu_queue_packets",
        "GPU Software Queue",
        "One row for each packet that a program put into the queue of a context.",
        columns![
            start_of("start_time", "When it was put into the queue."),
            end_of("end_time", "When it was done, if that was during the trace."),
            duration("duration", "Time between the two."),
            CONTEXT,
            THREAD,
            text("operation", "`Packet`, `Wait` for an object or `Signal` of objects."),
            text("packet_type", "Type of the packet."),
            id("submit_sequence", "Number of the packet in the queue."),
            bytes("dma_buffer_size", "Size of its commands."),
            Column::new("present", ColumnType::Bool, "Whether it shows a frame."),
            address("sync_object", "Address of the object that is waited for."),
            Column::new("fence_value", ColumnType::U64, "Value of that object.").unit(Unit::Id),
            Column::new("preempted", ColumnType::Bool, "Whether it was ended for another packet."),
            Column::new("timed_out", ColumnType::Bool, "Whether it took too long."),
            STACK,
        ],
    ),
    starts: &[Kinds {
        provider: DXG_KRNL,
        events: &[(178, "Packet"), (244, "Wait"), (245, "Signal")],
        key: &["hContext", "SubmitSequence"],
    }],
    stops: &[Kinds { provider: DXG_KRNL, events: &[(180, "Stop")], key: &["hContext", "SubmitSequence"] }],
    scope: Scope::Machine,
    values: &[
        Fill::Start(Of::Time),
        Fill::Stop(Of::Time),
        Fill::Lasted,
        Fill::Start(Of::GpuContext("hContext")),
        Fill::Start(Of::Thread),
        Fill::Start(Of::Name),
        Fill::Start(Of::Property(&["PacketType"])),
        Fill::Start(Of::Property(&["SubmitSequence"])),
        Fill::Start(Of::Property(&["DmaBufferSize"])),
        Fill::Start(Of::Property(&["bPresent"])),
        Fill::Start(Of::Property(&["hSyncObject"])),
        Fill::Start(Of::Property(&["FenceValue"])),
        Fill::Stop(Of::Property(&["bPreempted"])),
        Fill::Stop(Of::Property(&["bTimeouted"])),
        Fill::Start(Of::Stack),
    ],
};
