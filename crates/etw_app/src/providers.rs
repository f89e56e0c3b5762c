//! Providers by the names and masks that the tools accept.

use anyhow::Result;
use etw_kernel_events::providers::refusal;
use openetw::kernel::{EnableFlags, Support};
use openetw::schema::{KeywordSpec, ProviderKey, ProviderSpec, builtin};
use openetw::session::{Controller, EnableBuilder};
use openetw::{Guid, Level, classes};

use crate::schemas::{Listed, SchemaOptions, Schemas, resolve_keywords};
use crate::status::{Failed, code, usage};
use crate::text::wide_number;
use crate::{enabling, output};

/// The provider of the kernel's classic events, whose keywords are enable flags.
pub const KERNEL: &str = "Windows Kernel Trace";

/// The providers known from schemas or registered by processes.
pub struct Known {
    /// The schemas of the store and the built-in ones.
    pub schemas: Schemas,
}

/// A resolved provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its GUID.
    pub guid: Guid,
    /// Its name, or the text that it was requested by.
    pub name: String,
}

impl Known {
    /// Loads the schema store and the built-in schemas.
    ///
    /// # Errors
    ///
    /// Fails if the schema store cannot be opened.
    pub fn load() -> Result<Known> {
        Ok(Known { schemas: Schemas::load(&SchemaOptions::default())? })
    }

    /// Returns the provider with a name or GUID.
    ///
    /// An unknown name gets the GUID that self-describing providers derive from their name, and a warning is printed.
    ///
    /// # Errors
    ///
    /// Fails if the text is not a name or GUID, or if the store or the host cannot be read.
    pub fn find(&self, text: &str, controller: Option<&mut Controller>) -> Result<Found> {
        let text = text.trim();
        if let Ok(guid) = text.parse::<Guid>() {
            return Ok(Found { guid, name: self.name_of(guid).unwrap_or_else(|| guid.to_string()) });
        }
        if text.is_empty() || text.starts_with('{') {
            return Err(Failed::new(
                code::GUID_NOT_FOUND,
                format!("'{text}' is not a provider name or GUID"),
            )
            .into());
        }
        if is_kernel(text) {
            return Ok(Found { guid: classes::SYSTEM_TRACE, name: KERNEL.to_owned() });
        }
        let listed = self.schemas.list()?;
        let is_it = |listed: &Listed| listed.name.eq_ignore_ascii_case(text) && !is_class(listed.guid);
        if let Some(listed) = listed.into_iter().find(is_it) {
            if let Some(reason) = refusal(&listed.name) {
                output::warn(&format_args!("{} has no events here: {reason}", listed.name));
            }
            return Ok(Found { guid: listed.guid, name: listed.name });
        }
        let registered = controller.map(Controller::providers).transpose()?.unwrap_or_default();
        let mut registered =
            registered.into_iter().map(|status| Found { guid: status.guid, name: status.name });
        Ok(registered.find(|found| found.name.eq_ignore_ascii_case(text)).unwrap_or_else(|| {
            let guid = Guid::from_provider_name(text);
            output::warn(&format_args!(
                "provider {text} is unknown; using the GUID derived from its name, {guid}"
            ));
            Found { guid, name: text.to_owned() }
        }))
    }

    /// Returns the name of a provider according to the schemas.
    pub fn name_of(&self, guid: Guid) -> Option<String> {
        let built_in =
            builtin::providers().find(|entry| entry.guid == guid).map(|entry| entry.name.to_owned());
        built_in.or_else(|| {
            let listed = self.schemas.list().ok()?;
            listed.into_iter().find(|listed| listed.guid == guid).map(|listed| listed.name)
        })
    }

    /// Parses a keyword mask: a number, or the provider's keyword names joined by commas, optionally in parentheses.
    ///
    /// # Errors
    ///
    /// Fails if the provider has no such keyword, or the store cannot be read.
    pub fn keywords(&self, found: &Found, text: &str) -> Result<u64> {
        let text = text.trim().trim_start_matches('(').trim_end_matches(')');
        if let Some(mask) = wide_number(text) {
            return Ok(mask);
        }
        let names = text.split([',', '|', '+']).map(str::trim).filter(|name| !name.is_empty());
        let (mut mask, mut by_name) = (0, Vec::new());
        for name in names {
            match wide_number(name) {
                Some(bits) => mask |= bits,
                None => by_name.push(Box::from(name)),
            }
        }
        let mut spec = ProviderSpec::new(ProviderKey::Name(found.name.as_str().into()));
        spec.any = KeywordSpec { mask, names: by_name };
        let known = self.schemas.find(&found.guid.to_string())?;
        resolve_keywords(&mut spec, &known).map_err(usage)?;
        Ok(spec.any.mask)
    }
}

/// Returns whether a provider name or GUID means the kernel's classic events.
pub fn is_kernel(name: &str) -> bool {
    name.eq_ignore_ascii_case(KERNEL) || name.parse() == Ok(classes::SYSTEM_TRACE)
}

/// Returns whether a GUID is that of a class of kernel events, which cannot be enabled as a provider.
pub fn is_class(guid: Guid) -> bool {
    builtin::BuiltIn.provider(&guid).is_some_and(|provider| provider.info.class_of.is_some())
}

/// Parses a level: a number, or a name with or without `win:`.
///
/// # Errors
///
/// Fails if the text is not a level.
pub fn level(text: &str) -> Result<Level> {
    let bare = text.strip_prefix("win:").unwrap_or(text);
    let number = wide_number(bare).and_then(|number| u8::try_from(number).ok()).map(Level);
    let by_name = || {
        let bare = if bare.eq_ignore_ascii_case("Informational") { "Information" } else { bare };
        (0..=5)
            .map(Level)
            .find(|level| level.standard_name().is_some_and(|name| name.eq_ignore_ascii_case(bare)))
    };
    number.or_else(by_name).ok_or_else(|| {
        usage(format_args!(
            "'{text}' is not a level; use a number from 0 to 255, or win:Error, win:Warning, …"
        ))
    })
}

/// Parses kernel flags: a mask, or names in parentheses as in `logman query providers "Windows Kernel Trace"`.
///
/// Flags of a mask that Linux does not support are left out with a warning; a name that it does not support is an error.
///
/// # Errors
///
/// Fails if the text names no flag that Linux supports.
pub fn kernel_flags(text: &str) -> Result<EnableFlags> {
    let text = text.trim().trim_start_matches('(').trim_end_matches(')');
    let Some(mask) = wide_number(text) else { return enabling::kernel_flags(text) };
    let mut flags = EnableFlags::empty();
    let mut left_out = Vec::new();
    for flag in EnableFlags::KNOWN.iter().filter(|flag| mask & u64::from(flag.bit) != 0) {
        match flag.support {
            Support::Refused(reason) => left_out.push(format!("{}: {reason}", flag.name)),
            Support::Captured(_) | Support::Control => flags |= EnableFlags(flag.bit),
        }
    }
    if flags.is_empty() && mask != 0 {
        let reason =
            left_out.first().cloned().unwrap_or_else(|| format!("{text} has no flag of the kernel logger"));
        return Err(usage(reason));
    }
    if !left_out.is_empty() {
        output::warn(&format_args!("left out of {text}: {}", left_out.join("; ")));
    }
    Ok(flags)
}

/// Returns an enable request for a provider.
pub fn enable(guid: Guid, level: Level, any: u64, all: u64) -> EnableBuilder {
    let mut spec = ProviderSpec::new(ProviderKey::Guid(guid));
    spec.level = level;
    spec.any.mask = any;
    spec.all.mask = all;
    EnableBuilder::new(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Known {
        let store = Some("/nonexistent".into());
        Known { schemas: Schemas::load(&SchemaOptions { store, ..SchemaOptions::default() }).unwrap() }
    }

    #[test]
    fn providers_are_found_by_name_and_guid() {
        let known = known();
        let process: Guid = "{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}".parse().unwrap();
        let found = known.find("microsoft-windows-kernel-process", None).unwrap();
        assert_eq!(found, Found { guid: process, name: "Microsoft-Windows-Kernel-Process".to_owned() });
        assert_eq!(known.find("22FB2CD6-0E7B-422B-A0C7-2FAD1FD0E716", None).unwrap(), found);
        assert_eq!(known.find("Shop", None).unwrap().guid, Guid::from_provider_name("Shop"));
        assert_eq!(known.find("windows kernel trace", None).unwrap().guid, classes::SYSTEM_TRACE);
        // A class of kernel events is not a provider.
        assert_eq!(known.find("DiskIo", None).unwrap().guid, Guid::from_provider_name("DiskIo"));
        for wrong in ["", "{22fb2cd6}", "{}"] {
            assert!(known.find(wrong, None).is_err(), "{wrong}");
        }
    }

    #[test]
    fn masks_are_numbers_or_names() {
        let known = known();
        let process = known.find("Microsoft-Windows-Kernel-Process", None).unwrap();
        let check =
            |text: &str, mask: u64| assert_eq!(known.keywords(&process, text).unwrap(), mask, "{text}");
        check("0xffffffffffffffff", u64::MAX);
        check("16", 16);
        check("(WINEVENT_KEYWORD_PROCESS,WINEVENT_KEYWORD_THREAD)", 0x30);
        check("winevent_keyword_process,0x1", 0x11);
        let error = known.keywords(&process, "(nonsense)").unwrap_err().to_string();
        assert!(error.contains("has no keyword 'nonsense'; it has WINEVENT"), "{error}");
    }

    #[test]
    fn levels_are_numbers_or_names() {
        for (text, expected) in
            [("5", 5), ("0xff", 255), ("win:Informational", 4), ("Warning", 3), ("win:Error", 2)]
        {
            assert_eq!(level(text).unwrap().0, expected, "{text}");
        }
        assert!(level("loud").is_err() && level("256").is_err());
    }

    #[test]
    fn flags_of_the_kernel() {
        assert_eq!(kernel_flags("(process,thread,img)").unwrap(), EnableFlags(7));
        assert_eq!(kernel_flags("0x10003").unwrap(), EnableFlags(0x10003));
        // Unsupported flags of a mask are left out.
        assert_eq!(kernel_flags("0x20001").unwrap(), EnableFlags(1));
        for (wrong, expected) in
            [("(process,registry)", "registry"), ("0x20000", "registry"), ("0x08000000", "no flag")]
        {
            let error = kernel_flags(wrong).unwrap_err().to_string();
            assert!(error.to_lowercase().contains(expected), "{error}");
        }
    }
}
