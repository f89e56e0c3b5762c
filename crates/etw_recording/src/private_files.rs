//! Names of code in files that this program does not see under their paths: those of containers and private mounts, files in
//! memory, and deleted ones. They may be gone when the recording is read, so their names are taken along.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{fs, thread};

use etw_etl::encode::RecordBuilder;
use etw_machine::{FoundModule, ModuleId, UserAddresses};
use etw_symbols::{Module, Symbolizer};

/// Maximum number of files that are looked at.
const MAX_FILES: usize = 1 << 12;
/// The time in which they are read.
const MAX_TIME: Duration = Duration::from_secs(10);

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
///
/// The files may be of anyone, made to be read for ever: what is not named in [`MAX_TIME`] is left out.
pub(super) fn names(addresses: &UserAddresses, max_bytes: usize) -> Vec<RecordBuilder> {
    let uses = uses(addresses);
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let symbolizer = Symbolizer::new();
        for ((path, build_id), found) in uses.into_iter().take(MAX_FILES) {
            let module = Module { path: &path, build_id: &build_id, ..Module::default() };
            let records = found.records(&module, &symbolizer, max_bytes);
            if records.is_some_and(|records| sender.send(records).is_err()) {
                break;
            }
        }
    });
    let deadline = Instant::now() + MAX_TIME;
    let next = || receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok();
    std::iter::from_fn(next).flatten().collect()
}

/// Returns the files that stacks lead through, by path and start of the build id.
fn uses(addresses: &UserAddresses) -> BTreeMap<(String, Vec<u8>), Use> {
    let mut uses: BTreeMap<(String, Vec<u8>), Use> = BTreeMap::new();
    for process in addresses.processes() {
        for (base, image) in addresses.images(process) {
            let within = addresses.within(process, base..base.saturating_add(image.len_bytes));
            // A caller is looked up by the byte before the address that it is returned to.
            let offsets = within.flat_map(|address| [address - base, (address - base).saturating_sub(1)]);
            let mut offsets = offsets.peekable();
            if offsets.peek().is_some() {
                let of_file = uses.entry((image.path.clone(), image.build_id.clone())).or_default();
                of_file.processes.push((process, base));
                of_file.offsets.extend(offsets);
            }
        }
    }
    uses
}

impl Use {
    /// Returns the names in the file, if it is not here under its path.
    fn records(
        &self,
        module: &Module<'_>,
        symbolizer: &Symbolizer,
        max_bytes: usize,
    ) -> Option<Vec<RecordBuilder>> {
        if symbolizer.locate(module).is_ok() {
            return None;
        }
        let offsets: Vec<u64> = self.offsets.iter().copied().collect();
        let symbols = self.processes.iter().find_map(|(process, base)| {
            let seen = seen_path(*process, *base, module.path)?;
            symbolizer.resolve(&Module { path: &seen, ..*module }, &offsets).ok()
        })?;
        let symbols = offsets.into_iter().zip(symbols);
        let symbols = symbols.filter_map(|(offset, symbol)| Some((offset, symbol?)));
        let name = module.path.rsplit('/').next().unwrap_or_default();
        let found = FoundModule::from_symbols(name, symbols);
        Some(found.records(&ModuleId::from_module(module), max_bytes).0)
    }
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
