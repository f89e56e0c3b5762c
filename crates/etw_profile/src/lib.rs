//! Recording profiles of Windows Performance Recorder (`.wprp`), with inheritance resolved.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! A file defines collectors, providers and profiles, each of which may be based on another definition.
//! [`ProfileFile::parse`] validates the whole file; [`ProfileFile::resolve`] applies inheritance to one profile:
//!
//! ```
//! use etw_profile::{LoggingMode, ProfileFile};
//!
//! let file = ProfileFile::parse(r#"<WindowsPerformanceRecorder Version="1.0"><Profiles>
//!   <EventCollector Id="C" Name="Shop Collector"><BufferSize Value="64"/><Buffers Value="16"/></EventCollector>
//!   <EventProvider Id="P" Name="*Shop" Level="4"/>
//!   <Profile Id="Shop.Verbose.Memory" Name="Shop" Description="The shop" DetailLevel="Verbose" LoggingMode="Memory">
//!     <Collectors><EventCollectorId Value="C"><EventProviders><EventProviderId Value="P"/></EventProviders>
//!     </EventCollectorId></Collectors>
//!   </Profile>
//! </Profiles></WindowsPerformanceRecorder>"#)?;
//! let found = file.find("shop", LoggingMode::Memory)?;
//! let profile = file.resolve(found)?;
//! assert_eq!(profile.collectors[0].event_providers[0].level, Some(4));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`ProfileFile::not_understood`] lists elements and attributes that are not documented, with their lines.
//! Sources: the pages on recording profiles of the Windows Performance Toolkit (`1-collector-definitions` to
//! `wprcontrolprofiles-schema`), and published profiles.
//!
//! The crate does not know which parts of a profile a system can record.

#![forbid(unsafe_code)]

mod document;
mod error;
mod file;
mod find;
mod model;
mod resolve;
mod schema;
mod write;

pub use document::decode;
pub use error::{ErrorKind, ProfileError};
pub use file::{Definition, NotUnderstood, ProfileFile};
pub use find::FindError;
pub use model::{
    Buffers, CaptureState, Collector, CollectorKind, DetailLevel, EventFilter, EventProvider, FileMode,
    HardwareCounter, HeapProvider, LoggingMode, Profile, ProviderName, StackFilter, SystemProvider,
    TraceMerge,
};
pub use write::write;
