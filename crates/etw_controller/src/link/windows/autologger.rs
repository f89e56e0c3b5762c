//! Sessions that Windows starts at boot, in the registry.

use std::io;

use etw_event::{Guid, Keyword, Level};
use etw_protocol::{Enable, EnableProperties, SessionProperties};
use etw_sys::autologger::{self, Key, Value};

use super::error::{refused, unsupported};
use super::properties;
use crate::ControllerError;

/// A session that Windows starts at boot (`HKLM\SYSTEM\CurrentControlSet\Control\WMI\Autologger`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Autologger {
    /// Its properties.
    pub properties: SessionProperties,
    /// The providers that it enables.
    pub enables: Vec<(Guid, Enable)>,
}

impl Autologger {
    /// Returns the names of all autologgers.
    ///
    /// # Errors
    ///
    /// Fails if the registry cannot be read.
    pub fn names() -> Result<Vec<String>, ControllerError> {
        autologger::names().map_err(|error| refused("the autologgers", "cannot be listed", &error))
    }

    /// Returns an autologger, or `None` if no autologger has this name.
    ///
    /// # Errors
    ///
    /// Fails if the registry cannot be read.
    pub fn load(name: &str) -> Result<Option<Autologger>, ControllerError> {
        let load = || autologger::open(name)?.map(|key| read(name, &key)).transpose();
        load().map_err(|error: io::Error| refused(&named(name), "cannot be read", &error))
    }

    /// Writes the autologger to the registry; Windows starts it at the next boot. One of the same name is replaced.
    ///
    /// # Errors
    ///
    /// Fails without the rights of an administrator, and if the autologger has stacks or filters of system events.
    pub fn save(&self) -> Result<(), ControllerError> {
        let name = &self.properties.logger_name;
        if self.enables.iter().any(|(_, enable)| !enable.filters.is_empty()) {
            return Err(unsupported(&format!("{}: filters of autologgers are not written", named(name))));
        }
        if !self.properties.stack_tracing.is_empty() || self.properties.sample_interval != 0 {
            let text = format!("{}: Windows has no stacks or sampling intervals of autologgers", named(name));
            return Err(unsupported(&text));
        }
        self.write().map_err(|error| refused(&named(name), "cannot be written", &error))
    }

    /// Removes an autologger from the registry; a running session goes on.
    ///
    /// # Errors
    ///
    /// Fails without the rights of an administrator, and if no autologger has this name.
    pub fn remove(name: &str) -> Result<(), ControllerError> {
        let remove = || match autologger::open(name)? {
            Some(_) => autologger::remove(name),
            // ERROR_WMI_INSTANCE_NOT_FOUND
            None => Err(io::Error::from_raw_os_error(4201)),
        };
        remove().map_err(|error| refused(&named(name), "cannot be removed", &error))
    }

    fn write(&self) -> io::Result<()> {
        let p = &self.properties;
        // What an earlier one of this name had must not remain.
        if autologger::open(&p.logger_name)?.is_some() {
            autologger::remove(&p.logger_name)?;
        }
        let wanted = properties::wanted(p);
        let guid = if p.guid.is_zero() { Guid::from_provider_name(&p.logger_name) } else { p.guid };
        let key = autologger::create(&p.logger_name)?;
        key.set("GUID", &Value::Text(format!("{{{guid}}}")))?;
        if !p.log_file_name.is_empty() {
            key.set("FileName", &Value::Text(p.log_file_name.clone()))?;
        }
        if p.enable_flags != 0 {
            key.set("EnableKernelFlags", &Value::Bytes(p.enable_flags.to_le_bytes().to_vec()))?;
        }
        let numbers = [
            ("LogFileMode", wanted.log_file_mode),
            ("BufferSize", wanted.buffer_size),
            ("MinimumBuffers", wanted.minimum_buffers),
            ("MaximumBuffers", wanted.maximum_buffers),
            ("MaxFileSize", wanted.maximum_file_size),
            ("FlushTimer", wanted.flush_timer),
            ("ClockType", wanted.client_context),
        ];
        for (name, number) in numbers.into_iter().filter(|(_, number)| *number != 0) {
            key.set(name, &Value::Number(number))?;
        }
        for (provider, enable) in &self.enables {
            let of_provider = key.create_child(&format!("{{{provider}}}"))?;
            of_provider.set("Enabled", &Value::Number(1))?;
            of_provider.set("EnableLevel", &Value::Number(enable.level.0.into()))?;
            of_provider.set("MatchAnyKeyword", &Value::Long(enable.any.0))?;
            of_provider.set("MatchAllKeyword", &Value::Long(enable.all.0))?;
            of_provider.set("EnableProperty", &Value::Number(enable.properties.0))?;
        }
        // Windows starts the session only with this value, so it comes last.
        key.set("Start", &Value::Number(1))
    }
}

fn read(name: &str, key: &Key) -> io::Result<Autologger> {
    let number = |key: &Key, name: &str| {
        Ok::<_, io::Error>(match key.value(name)? {
            Some(Value::Number(number)) => number.into(),
            Some(Value::Long(number)) => number,
            _ => 0,
        })
    };
    let text = |name: &str| {
        Ok::<_, io::Error>(match key.value(name)? {
            Some(Value::Text(text)) => text,
            _ => String::new(),
        })
    };
    let small = |name: &str| number(key, name).map(|number| u32::try_from(number).unwrap_or(u32::MAX));
    let found = etw_sys::Properties {
        guid: text("GUID")?.parse().unwrap_or_default(),
        client_context: small("ClockType")?,
        buffer_size: small("BufferSize")?,
        minimum_buffers: small("MinimumBuffers")?,
        maximum_buffers: small("MaximumBuffers")?,
        maximum_file_size: small("MaxFileSize")?,
        log_file_mode: small("LogFileMode")?,
        flush_timer: small("FlushTimer")?,
        logger_name: name.to_owned(),
        log_file_name: text("FileName")?,
        enable_flags: match key.value("EnableKernelFlags")? {
            Some(Value::Bytes(bytes)) => bytes.first_chunk().map_or(0, |four| u32::from_le_bytes(*four)),
            _ => 0,
        },
        ..Default::default()
    };
    let mut enables = Vec::new();
    for child in key.children()? {
        let (Ok(provider), Some(of_provider)) = (child.parse::<Guid>(), key.child(&child)?) else { continue };
        if number(&of_provider, "Enabled")? == 0 {
            continue;
        }
        let enable = Enable {
            level: Level(number(&of_provider, "EnableLevel")? as u8),
            any: Keyword(number(&of_provider, "MatchAnyKeyword")?),
            all: Keyword(number(&of_provider, "MatchAllKeyword")?),
            properties: EnableProperties(number(&of_provider, "EnableProperty")? as u32),
            ..Enable::default()
        };
        enables.push((provider, enable));
    }
    Ok(Autologger { properties: properties::session_properties(&found), enables })
}

fn named(name: &str) -> String {
    format!("autologger '{name}'")
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_etl::LogFileMode;
    use etw_protocol::SessionClock;

    #[test]
    fn an_autologger_comes_back_from_the_registry() {
        let name = format!("OpenETW-Test-{}", std::process::id());
        let properties = SessionProperties {
            logger_name: name.clone(),
            log_file_name: "C:\\boot.etl".to_owned(),
            log_file_mode: LogFileMode::CIRCULAR,
            maximum_file_size: 64,
            clock: SessionClock::SystemTime,
            flush_timer_millis: 2000,
            guid: Guid::from_bytes([5; 16]),
            ..SessionProperties::default()
        };
        let enable = Enable { level: Level(4), any: Keyword(0x1_0000_0000_0001), ..Enable::default() };
        let wanted = Autologger { properties, enables: vec![(Guid::from_bytes([7; 16]), enable)] };
        match wanted.save() {
            // Only administrators may do this.
            Err(error) if error.kind() == Some(etw_protocol::ErrorKind::AccessDenied) => {
                eprintln!("skipped: {error}");
                return;
            }
            saved => saved.unwrap(),
        }
        assert!(Autologger::names().unwrap().contains(&name));
        assert_eq!(Autologger::load(&name).unwrap(), Some(wanted));
        Autologger::remove(&name).unwrap();
        assert_eq!(Autologger::load(&name).unwrap(), None);
        assert!(Autologger::remove(&name).is_err());
    }
}
