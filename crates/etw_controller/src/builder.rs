//! Builders for the properties of sessions and of enables.

use std::path::{Path, PathBuf};

use etw_etl::LogFileMode;
use etw_event::{Guid, Keyword};
use etw_protocol::{Enable, EnableProperties, Filter, SessionClock, SessionProperties, SessionStatus};
use etw_schema::ProviderSpec;

use crate::{Controller, ControllerError};

/// The properties of a session to start. The host chooses those that are not set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a session begins with `start`"]
pub struct SessionBuilder {
    properties: SessionProperties,
    is_leased: bool,
}

impl SessionBuilder {
    /// Creates the properties of a session with this name.
    pub fn new(name: &str) -> SessionBuilder {
        let properties = SessionProperties { logger_name: name.to_owned(), ..SessionProperties::default() };
        SessionBuilder { properties, is_leased: false }
    }

    /// Writes to this file; a relative path is resolved against this program's working directory.
    pub fn file(mut self, path: impl AsRef<Path>) -> SessionBuilder {
        let path = std::path::absolute(&path).unwrap_or_else(|_| path.as_ref().to_owned());
        self.properties.log_file_name = path.to_string_lossy().into_owned();
        self
    }

    /// Adds bits to the mode, such as [`LogFileMode::CIRCULAR`].
    pub fn mode(mut self, mode: LogFileMode) -> SessionBuilder {
        self.properties.log_file_mode |= mode;
        self
    }

    /// Delivers to consumers in real time, in addition to a file if there is one.
    pub fn real_time(self) -> SessionBuilder {
        self.mode(LogFileMode::REAL_TIME)
    }

    /// Keeps the newest events in memory, at most `kib` KiB, until [`Controller::dump`] writes them.
    pub fn ring(mut self, kib: u32) -> SessionBuilder {
        self.properties.maximum_buffers = (kib / self.properties.buffer_size.max(1)).max(4);
        self.mode(LogFileMode::BUFFERING)
    }

    /// Sets the buffer size in KiB, from 4 to 16384; 64 by default.
    pub fn buffer_size_kib(mut self, kib: u32) -> SessionBuilder {
        self.properties.buffer_size = kib;
        self
    }

    /// Sets the minimum and maximum number of buffers; 0 leaves the choice to the host.
    pub fn buffers(mut self, minimum: u32, maximum: u32) -> SessionBuilder {
        self.properties.minimum_buffers = minimum;
        self.properties.maximum_buffers = maximum;
        self
    }

    /// Sets the maximum file size in MiB; the mode decides what happens then.
    pub fn maximum_file_size_mib(mut self, mib: u32) -> SessionBuilder {
        self.properties.maximum_file_size = mib;
        self
    }

    /// Records system events by `EnableFlags` (`EVENT_TRACE_FLAG_*`). The kernel provider defines what they record on
    /// Linux, and checks them.
    pub fn enable_flags(mut self, flags: u32) -> SessionBuilder {
        self.properties.enable_flags = flags;
        self
    }

    /// Records stacks for the system events with these hook ids (`TraceStackTracingInfo`), instead of for the sampled
    /// profile alone.
    pub fn stack_tracing(mut self, hook_ids: &[u16]) -> SessionBuilder {
        self.properties.stack_tracing = hook_ids.to_vec();
        self
    }

    /// Sets the sampling interval of the sampled profile, in units of 100 ns (`TraceSampledProfileIntervalInfo`).
    pub fn sample_interval(mut self, units: u32) -> SessionBuilder {
        self.properties.sample_interval = units;
        self
    }

    /// Sets the milliseconds after which partly filled buffers are written.
    pub fn flush_timer_millis(mut self, millis: u32) -> SessionBuilder {
        self.properties.flush_timer_millis = millis;
        self
    }

    /// Sets the number of full buffers that are written together.
    pub fn flush_threshold(mut self, buffers: u32) -> SessionBuilder {
        self.properties.flush_threshold = buffers;
        self
    }

    /// Sets the clock of the time stamps.
    pub fn clock(mut self, clock: SessionClock) -> SessionBuilder {
        self.properties.clock = clock;
        self
    }

    /// Ends the session with the controller's connection, however that ends.
    pub fn leased(mut self) -> SessionBuilder {
        self.is_leased = true;
        self
    }

    /// Returns the properties set so far.
    pub fn properties(&self) -> &SessionProperties {
        &self.properties
    }

    /// Starts the session.
    ///
    /// # Errors
    ///
    /// Fails like [`Controller::start`].
    pub fn start(self, controller: &mut Controller) -> Result<SessionStatus, ControllerError> {
        controller.start(self.properties, self.is_leased)
    }
}

/// The parameters with which a session enables a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct EnableBuilder {
    spec: ProviderSpec,
    properties: EnableProperties,
    filters: Vec<Filter>,
    source: Guid,
}

impl EnableBuilder {
    /// Creates the parameters given by a provider string.
    pub fn new(spec: ProviderSpec) -> EnableBuilder {
        EnableBuilder { spec, properties: EnableProperties::empty(), filters: Vec::new(), source: Guid::ZERO }
    }

    /// Adds extended data and special rules.
    pub fn properties(mut self, properties: EnableProperties) -> EnableBuilder {
        self.properties |= properties;
        self
    }

    /// Adds the call stack to each event.
    pub fn stacks(self) -> EnableBuilder {
        self.properties(EnableProperties::STACK_TRACE)
    }

    /// Adds a filter.
    pub fn filter(mut self, filter: Filter) -> EnableBuilder {
        self.filters.push(filter);
        self
    }

    /// Sets the source of the request, which the callbacks of the provider receive (`SourceId`).
    pub fn source(mut self, source: Guid) -> EnableBuilder {
        self.source = source;
        self
    }

    /// Returns the provider and the parameters.
    ///
    /// # Errors
    ///
    /// Fails if the provider string has keywords by name.
    pub fn build(&self) -> Result<(Guid, Enable), ControllerError> {
        let spec = &self.spec;
        if let Some(name) = spec.any.names.iter().chain(&spec.all.names).next() {
            let (provider, keyword) = (spec.provider.to_string(), name.to_string());
            return Err(ControllerError::KeywordName { provider, keyword });
        }
        let mut filters = self.filters.clone();
        let include = !spec.ids.is_exclusion();
        filters.extend(spec.ids.list().map(|ids| Filter::EventIds { include, ids }));
        let enable = Enable {
            level: spec.level,
            any: Keyword(spec.any.mask),
            all: Keyword(spec.all.mask),
            properties: self.properties,
            filters,
            source: self.source,
        };
        Ok((spec.provider.guid(), enable))
    }
}

/// Returns an absolute path as text, for a host with another working directory.
pub(crate) fn absolute(path: &Path) -> Result<String, ControllerError> {
    let absolute = std::path::absolute(path)
        .map_err(|error| ControllerError::File { path: PathBuf::from(path), error })?;
    Ok(absolute.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builders_say_what_is_wanted() {
        let session = SessionBuilder::new("S").file("/tmp/s.etl").buffer_size_kib(128).ring(1024).real_time();
        let p = session.properties();
        assert_eq!((p.log_file_name.as_str(), p.buffer_size, p.maximum_buffers), ("/tmp/s.etl", 128, 8));
        assert!(p.log_file_mode.contains(LogFileMode::BUFFERING.union(LogFileMode::REAL_TIME)));
        let enable = EnableBuilder::new("Shop:Warning:1-3:0x10".parse().unwrap()).stacks();
        let (guid, enable) = enable.build().unwrap();
        assert_eq!(guid, Guid::from_provider_name("Shop"));
        assert_eq!((enable.level.0, enable.any.0, enable.properties.0), (3, 0x10, 4));
        assert_eq!(enable.filters, [Filter::EventIds { include: true, ids: vec![1, 2, 3] }]);
        let (_, enable) = EnableBuilder::new("Shop::!7".parse().unwrap()).build().unwrap();
        assert_eq!(enable.filters, [Filter::EventIds { include: false, ids: vec![7] }]);
        let named = EnableBuilder::new("Shop:::Orders".parse().unwrap());
        assert!(named.build().unwrap_err().to_string().contains("keyword 'Orders'"));
    }
}
