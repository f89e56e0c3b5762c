//! Names of code in files that this program does not see under their paths: those of containers and private mounts, files in
//! memory, and deleted ones. They may be gone when the recording is read, so their names are taken along.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use etw_etl::encode::RecordBuilder;
use etw_machine::{FoundModule, ModuleId, UserAddresses};
use etw_symbols::{Module, Symbolizer};

/// Maximum number of such files.
const MAX_FILES: usize = 1 << 12;

/// How processes use a file.
#[derive(Debug, Default)]
struct Use {
    /// Processes that have it as an image, with its base there.
    processes: Vec<(u32, u64)>,
    /// Offsets from the base that stacks lead through.
    offsets: BTreeSet<u64>,
}

/// Returns the names of the addresses in such files, as far as a process that has them still runs: events of at most this
/// length, which lack a time.
pub(super) fn names(addresses: &UserAddresses, max_bytes: usize) -> Vec<RecordBuilder> {
    let mut uses: BTreeMap<(&str, &[u8]), Use> = BTreeMap::new();
    for process in addresses.processes() {
        for (base, image) in addresses.images(process) {
            let within = addresses.within(process, base..base.saturating_add(image.len_bytes));
            // A caller is looked up by the byte before the address that it is returned to.
            let mut offsets =
                within.flat_map(|address| [address - base, (address - base).saturating_sub(1)]).peekable();
            if offsets.peek().is_some() {
                let of_file = uses.entry((&image.path, &image.build_id)).or_default();
                of_file.processes.push((process, base));
                of_file.offsets.extend(offsets);
            }
        }
    }
    let symbolizer = Symbolizer::new();
    let of_file = |((path, build_id), found): (&(&str, &[u8]), &Use)| {
        let module = Module { path, build_id, ..Module::default() };
        if symbolizer.locate(&module).is_ok() {
            return None;
        }
        let offsets: Vec<u64> = found.offsets.iter().copied().collect();
        let symbols = found.processes.iter().find_map(|(process, base)| {
            let seen = seen_path(*process, *base, path)?;
            symbolizer.resolve(&Module { path: &seen, ..module }, &offsets).ok()
        })?;
        let symbols = offsets.into_iter().zip(symbols).filter_map(|(offset, symbol)| Some((offset, symbol?)));
        let name = path.rsplit('/').next().unwrap_or_default();
        let (records, _) =
            FoundModule::from_symbols(name, symbols).records(&ModuleId::from_module(&module), max_bytes);
        Some(records)
    };
    uses.iter().filter_map(of_file).take(MAX_FILES).flatten().collect()
}

/// Returns a path by which this program opens the file that a process has mapped at an address.
fn seen_path(process: u32, base: u64, path: &str) -> Option<String> {
    let directory = format!("/proc/{process}");
    let below_root = format!("{directory}/root{path}");
    if path.starts_with('/') && fs::metadata(&below_root).is_ok_and(|metadata| metadata.is_file()) {
        return Some(below_root);
    }
    // A file without a path: deleted, or in memory.
    let mappings = fs::read_dir(format!("{directory}/map_files")).ok()?;
    let start_of = |name: &str| u64::from_str_radix(name.split('-').next()?, 16).ok();
    let mut names = mappings.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let name = names.find(|name| start_of(name) == Some(base))?;
    Some(format!("{directory}/map_files/{name}"))
}
