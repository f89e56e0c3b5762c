//! Recording profiles of Windows Performance Recorder (`.wprp`): what they say, with inheritance resolved.
//!
//! A file has definitions of collectors, providers and profiles, each of which may be based on another one. Read is the
//! whole file at once; a profile is resolved when it is asked for:
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
//! Elements and attributes that the documentation does not have are not passed over in silence:
//! [`ProfileFile::not_understood`] has them, with their lines.
//! Sources: the pages on recording profiles of the Windows Performance Toolkit (`1-collector-definitions` to
//! `wprcontrolprofiles-schema`), and profiles that projects have published.
//!
//! Not the crate's job: what of a profile a system can record.

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
