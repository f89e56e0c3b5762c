//! The filters of the command line, put together.

use anyhow::{Result, anyhow};
use openetw::export::Names;
use openetw::schema::Resolver;
use openetw::{Guid, IdSet, ProviderKey, ProviderSpec, Record};

use crate::UsageError;
use crate::args::FilterArgs;

/// Which events to keep.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    providers: Vec<ProviderSpec>,
    ids: Vec<IdSet>,
    processes: Vec<u32>,
    threads: Vec<u32>,
}

impl Selection {
    /// Compiles the filters.
    pub(crate) fn new(args: &FilterArgs) -> Result<Selection> {
        if !args.process.is_empty() || !args.condition.is_empty() {
            return Err(anyhow!(UsageError("--process and --where are not there yet".to_owned())));
        }
        let usage = |error: openetw::ProviderSpecError| anyhow!(UsageError(error.to_string()));
        Ok(Selection {
            providers: args.provider.iter().map(|text| text.parse().map_err(usage)).collect::<Result<_>>()?,
            ids: args.event.iter().map(|text| text.parse().map_err(usage)).collect::<Result<_>>()?,
            processes: args.pid.clone(),
            threads: args.tid.clone(),
        })
    }

    /// Whether the header of a record passes, all but its provider.
    #[inline]
    pub(crate) fn keeps_header(&self, record: &Record<'_>) -> bool {
        let has =
            |wanted: &[u32], id: Option<u32>| wanted.is_empty() || id.is_some_and(|id| wanted.contains(&id));
        has(&self.processes, record.process_id())
            && has(&self.threads, record.thread_id())
            && (self.ids.is_empty() || self.ids.iter().any(|ids| ids.contains(record.descriptor().id)))
    }

    /// Whether the provider of a record passes.
    pub(crate) fn keeps(&self, record: &Record<'_>, resolver: &mut Resolver) -> bool {
        if self.providers.is_empty() {
            return true;
        }
        let info = resolver.provider_info(&record.provider_id());
        let schema = resolver.resolve(record).ok().map(|schema| &*schema.schema);
        let names = Names::of(record, schema, info.as_deref());
        let id = record.provider_id();
        self.providers.iter().any(|spec| {
            let is_it = match &spec.provider {
                ProviderKey::Guid(guid) => *guid == id || *guid == names.provider_guid,
                ProviderKey::Name(name) => {
                    let same = |other: &str| other.eq_ignore_ascii_case(name);
                    names.provider.as_deref().is_some_and(same)
                        || info.as_deref().is_some_and(|info| same(&info.name))
                        || Guid::from_provider_name(name) == id
                }
            };
            is_it && spec.passes(record)
        })
    }
}
