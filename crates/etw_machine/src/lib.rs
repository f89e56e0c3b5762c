//! What the events of a trace say of its machines: processes, threads, images, code and files, followed in time order.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! [`Model`] takes the events one by one and returns what each of them states ([`Fact`]): a switch of threads, an operation on
//! a file, a request of a disk. Windows and Linux events have the same classes, so the facts are the same too. [`Names`] finds
//! the functions of addresses.
//!
//! ```no_run
//! use etw_consumer::Trace;
//! use etw_machine::{Fact, Model, Window};
//!
//! let (mut model, mut switches) = (Model::new(Window::ALL), 0);
//! Trace::open_file("trace.etl")?.for_each_event(|event| {
//!     switches += u64::from(matches!(model.add(event).fact, Some(Fact::Switch(_))));
//! })?;
//! println!("{switches} switches between {} threads", model.processes.threads().len());
//! # Ok::<(), etw_consumer::TraceError>(())
//! ```

#![forbid(unsafe_code)]

mod addresses;
mod attribution;
mod control_groups;
mod embedded;
mod file_names;
mod images;
mod kernel_functions;
mod machines;
mod managed;
mod maps;
mod model;
mod names;
mod process_filter;
mod processes;
mod stack_names;
mod system_modules;
mod user_addresses;
mod volumes;
mod window;

pub use addresses::{KERNEL_64, has_pointers_of_system};
pub use attribution::Attribution;
pub use control_groups::{ControlGroup, ControlGroupNames};
pub use embedded::{FoundModule, FoundNames, ModuleId, ModuleNames, il_place_number};
pub use file_names::{FileIndex, FileNames};
pub use images::{Image, ImageIndex, Images};
pub use kernel_functions::{KernelAddresses, KernelFunctions};
pub use machines::Machines;
pub use managed::{
    Assembly, ClrEvent, ClrProvider, CodeVersion, CodeVersions, JitEvent, Method, MethodIndex, Methods,
};
pub use maps::{HashMap, HashSet};
pub use model::addresses::Addresses;
pub use model::calls::SystemCalls;
pub use model::collections::heap::{GENERATIONS, Generation, Heap, is_collected};
pub use model::collections::{Collection, Collections};
pub use model::disks::{DiskRequests, disk_label};
pub use model::facts::{
    Called, Collected, CreateParameters, DiskDone, DiskOperation, Fact, FileDone, FileOperation, HardFault,
    Interrupted, NetworkOperation, Sampled, Side, Switched, Transferred, UnendedCall,
};
pub use model::file_operations::FileOperations;
pub use model::network::{Network, NetworkEvent};
pub use model::samples::Intervals;
pub use model::switches::{Ran, Readied, ReadiedBy, Switches, reason_name};
pub use model::{ClrObservation, Model, Observation};
pub use names::{Code, Function, FunctionIndex, Names, Sources, Space};
pub use process_filter::ProcessFilter;
pub use processes::{Process, ProcessIndex, Processes, ProgramChange, Thread, ThreadIndex};
pub use stack_names::StackNames;
pub use user_addresses::{UserAddresses, UserImage};
pub use volumes::Volumes;
pub use window::{Duration, Window};
