//! Captures the kernel's activity: programs at its tracepoints write records into a ring for each processor.
//!
//! The programs are compiled from `bpf/capture.bpf.c` beforehand (`bpf/build.sh`) and adapted to the running kernel
//! when they are loaded. Each is attached only while a hook needs it. On a kernel without a hook's tracepoint, only
//! that hook is missing.
//!
//! ```no_run
//! use etw_capture::capture::{Capture, CaptureOptions};
//! use etw_kernel_events::{Hook, Hooks};
//!
//! let mut capture = Capture::start(Hooks::from_list(&[Hook::Process]), &CaptureOptions::default())?;
//! std::thread::sleep(std::time::Duration::from_secs(1));
//! for processor in 0..capture.processors() {
//!     capture.read(processor, u64::MAX, |event| println!("{} {:?}", event.time, event.body));
//! }
//! # Ok::<(), etw_capture::capture::CaptureError>(())
//! ```

mod error;
mod file_calls;
mod open_files;
mod programs;
mod ring;

use std::fs;
use std::io;
use std::thread;
use std::time::Duration;

use aya::maps::{Array, ArrayOfMaps, HashMap, Map, MapData, MapError, PerCpuArray, PerCpuValues, RingBuf};
use aya::util::{KernelVersion, nr_cpus, online_cpus};
use aya::{Btf, Ebpf, EbpfLoader, VerifierLogLevel, include_bytes_aligned};
use aya_obj::Map as MapDefinition;
use aya_obj::generated::bpf_map_type::BPF_MAP_TYPE_RINGBUF;
use etw_kernel_events::StackKinds;
use etw_kernel_events::{Hook, Hooks};
use etw_sys::{MappingRing, SharedWords, TracepointRing, clock};

pub use error::CaptureError;
pub use open_files::OpenFiles;
pub use programs::KernelPrograms;
use programs::{Attached, Object, with_causes};
use ring::Ring;

use crate::python::Interpreter;
use crate::records::{Event, Space};
use crate::rules::{IMAGES_MOST, IS_KNOWN_CODE, ImageRange, ImageTable, RuleTable};
use crate::tracepoints::TracepointRings;

/// The programs as built by `bpf/build.sh`.
static PROGRAMS: &[u8] = include_bytes_aligned!("../../bpf/capture.bpf.o");

/// Minimum size of a ring in bytes: the largest page size of any machine, with room for one event of the longest kind.
const LEAST_RING_BYTES: u32 = 64 << 10;

/// Time after which an event is certain to be in its ring.
const SETTLE_TIME: Duration = Duration::from_micros(100);

/// Options of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureOptions {
    /// Size of each processor's ring in bytes, rounded up to a power of two; at least 64 KiB.
    pub ring_bytes: u32,
    /// Time between two samples of a processor.
    pub sample_interval: Duration,
    /// Kinds of events with stacks.
    pub stacks: StackKinds,
    /// Processes whose system calls, page faults and file operations are not captured: the reader of the rings, and the one
    /// that writes the events to files. Their work would otherwise cause more events. Their starts and ends, context switches
    /// and samples are captured, since the activity of a processor would have gaps otherwise.
    pub left_out_processes: [Option<u32>; 2],
}

impl Default for CaptureOptions {
    /// Returns the defaults: rings of 4 MiB, a sample per millisecond, stacks of samples, and no process left out.
    fn default() -> CaptureOptions {
        CaptureOptions {
            ring_bytes: 4 << 20,
            sample_interval: Duration::from_millis(1),
            stacks: StackKinds::SAMPLES,
            left_out_processes: [None; 2],
        }
    }
}

/// The rings of tracepoints that are captured no more. Dropping them is slow.
#[derive(Debug, Default)]
pub struct RemovedTracepoints {
    rings: Vec<TracepointRing>,
    /// Processors, and the number of events that each has lost and that was not returned before.
    pub lost: Vec<(u32, u64)>,
}

/// The number of images and their ranges, as in `bpf/rules.h`.
type Images = [u64; 1 + 3 * IMAGES_MOST];

/// A running capture. Dropping it detaches all programs.
pub struct Capture {
    programs: KernelPrograms,
    rings: Vec<Ring>,
    /// Invalid records, and mappings without room in their ring, by processor. The kernel counts the other events that
    /// found no room.
    lost_outside: Vec<u64>,
    lost: PerCpuArray<MapData, u64>,
    stacks: Array<MapData, [u64; 2]>,
    rules: MapData,
    spaces: HashMap<MapData, [u64; 2], Images>,
    interpreters: HashMap<MapData, [u64; 2], [u64; Interpreter::LEN_WORDS]>,
    python_codes: HashMap<MapData, [u64; 3], u64>,
    online: Vec<u32>,
    sample_interval: Duration,
    attached: Vec<(Hook, Attached)>,
    missing: Vec<(Hook, String)>,
}

impl Capture {
    /// Loads and attaches the programs of `hooks`. [`Capture::missing`] has the hooks that could not be attached.
    ///
    /// # Errors
    ///
    /// Fails if the process lacks the rights, or the kernel lacks what every hook needs.
    pub fn start(hooks: Hooks, options: &CaptureOptions) -> Result<Capture, CaptureError> {
        check_rights()?;
        let types = Btf::from_sys_fs().map_err(|error| CaptureError::NoTypes(with_causes(&error)))?;
        let online = online_cpus().map_err(|(file, error)| refused(&format!("{file}: {error}")))?;
        let processors = nr_cpus().map_err(|(file, error)| refused(&format!("{file}: {error}")))?;
        let processors = u32::try_from(processors).unwrap_or(u32::MAX);
        let ring_bytes = options.ring_bytes.clamp(LEAST_RING_BYTES, 1 << 30).next_power_of_two();
        let [left_out, left_out_host] = options.left_out_processes;
        let mut object = EbpfLoader::new()
            .btf(Some(&types))
            .verifier_log_level(VerifierLogLevel::DISABLE)
            .map_max_entries("rings", processors)
            .override_global("file_calls", &file_calls::file_calls()[..], true)
            .map_max_entries("rooms", processors.saturating_mul(ROOMS))
            .override_global("ring_bytes", &ring_bytes, true)
            .override_global("has_registers", &u8::from(tells_registers()), true)
            .override_global("follows_stacks", &u8::from(follows_stacks()), true)
            .override_global("left_out_pid", &left_out.unwrap_or(0), true)
            .override_global("left_out_host_pid", &left_out_host.unwrap_or(0), true)
            .load(PROGRAMS)
            .map_err(|error| refused(&with_causes(&error)))?;
        let rings =
            make_rings(&mut object, processors, ring_bytes).map_err(|error| refused(&with_causes(&error)))?;
        let lost = object.take_map("lost").ok_or_else(|| refused("the count of lost events is missing"))?;
        let lost = PerCpuArray::try_from(lost).map_err(|error| refused(&with_causes(&error)))?;
        let stacks =
            object.take_map("stack_kinds").ok_or_else(|| refused("the kinds of stacks are missing"))?;
        let stacks = Array::try_from(stacks).map_err(|error| refused(&with_causes(&error)))?;
        let mut take = |name: &str| {
            object.take_map(name).ok_or_else(|| refused(&format!("the map `{name}` is missing")))
        };
        let Map::Array(rules) = take("rules")? else {
            return Err(refused("the map `rules` is not an array"));
        };
        let spaces = HashMap::try_from(take("spaces")?).map_err(|error| refused(&with_causes(&error)))?;
        let interpreters =
            HashMap::try_from(take("interpreters")?).map_err(|error| refused(&with_causes(&error)))?;
        let python_codes =
            HashMap::try_from(take("python_codes")?).map_err(|error| refused(&with_causes(&error)))?;
        let mut capture = Capture {
            programs: KernelPrograms::new(object, types),
            stacks,
            rules,
            spaces,
            interpreters,
            python_codes,
            lost_outside: vec![0; rings.len()],
            rings,
            lost,
            online,
            sample_interval: options.sample_interval,
            attached: Vec::new(),
            missing: Vec::new(),
        };
        capture.set_stacks(options.stacks);
        capture.set_hooks(hooks);
        Ok(capture)
    }

    /// Returns a handle to the programs, for loading more of them in another thread.
    pub fn programs(&self) -> KernelPrograms {
        self.programs.clone()
    }

    /// Attaches and detaches programs so that exactly those of `hooks` are attached. Events captured before can still
    /// be read.
    pub fn set_hooks(&mut self, hooks: Hooks) {
        let (stay, go) =
            std::mem::take(&mut self.attached).into_iter().partition(|(hook, _)| hooks.has(*hook));
        self.attached = stay;
        for (hook, attached) in go {
            programs::detach(&mut self.programs.lock().object, attached);
            if hook == Hook::Image {
                self.rings.iter_mut().for_each(|ring| ring.set_mappings(None));
            }
        }
        self.missing.clear();
        for hook in hooks.iter() {
            if self.attached.iter().any(|(attached, _)| *attached == hook) {
                continue;
            }
            match self.attach(hook) {
                Ok(attached) => self.attached.push((hook, attached)),
                Err(reason) => self.missing.push((hook, reason)),
            }
        }
    }

    fn attach(&mut self, hook: Hook) -> Result<Attached, String> {
        let mappings = if hook == Hook::Image { open_mappings(&self.online)? } else { Vec::new() };
        // What was running when the programs were detached has ended since.
        match hook {
            Hook::Interrupt => self.clear("interrupt_begun"),
            Hook::Dpc => self.clear("dpc_begun"),
            _ => {}
        }
        let attached = programs::attach(&mut self.programs.lock(), hook, self.sample_interval, &self.online)?;
        for (processor, mappings) in mappings {
            if let Some(ring) = self.rings.get_mut(processor as usize) {
                ring.set_mappings(Some(mappings));
            }
        }
        Ok(attached)
    }

    /// Sets the only value of a per-processor map to zero.
    fn clear(&mut self, map: &str) {
        let programs = &mut self.programs.lock().object;
        let numbers = programs.map_mut(map).and_then(|map| PerCpuArray::<_, u64>::try_from(map).ok());
        let zeros = nr_cpus().ok().and_then(|count| PerCpuValues::try_from(vec![0; count]).ok());
        if let (Some(mut numbers), Some(zeros)) = (numbers, zeros) {
            // Cannot fail: the map has this one entry.
            let _ = numbers.set(0, zeros, 0);
        }
    }

    /// Captures the events of tracepoints for a session from now on, instead of those of its previous ones, or no more with
    /// `None`. Returns the previous rings with the number of lost events of each processor not returned so far; their events
    /// up to now can still be read.
    ///
    /// # Errors
    ///
    /// Fails if the kernel does not start to write; the session then has no tracepoints.
    pub fn set_tracepoints(
        &mut self,
        session: u64,
        tracepoints: Option<TracepointRings>,
    ) -> (Option<RemovedTracepoints>, io::Result<()>) {
        let enabled = tracepoints.map(|new| new.enable().map(|()| new)).transpose();
        // Both rings have the events of a moment, and each event is taken from one of them.
        let now = clock::monotonic_nanos();
        if enabled.as_ref().is_ok_and(Option::is_some) {
            thread::sleep(SETTLE_TIME);
        }
        let mut removed = RemovedTracepoints::default();
        for (ring, processor) in self.rings.iter_mut().zip(0..) {
            if let Some((ring, lost)) = ring.remove_tracepoints(session, now) {
                removed.rings.push(ring);
                removed.lost.push((processor, lost));
            }
        }
        let removed = Some(removed).filter(|removed| !removed.rings.is_empty());
        let new = match enabled {
            Ok(new) => new,
            Err(error) => return (removed, Err(error)),
        };
        for (processor, tracepoints) in new.into_iter().flat_map(|new| new.rings) {
            if let Some(ring) = self.rings.get_mut(processor as usize) {
                ring.add_tracepoints(session, now, tracepoints);
            }
        }
        (removed, Ok(()))
    }

    /// Passes each session that lost events of tracepoints since the previous call, the processor, and their number to
    /// `each`.
    pub fn take_lost_tracepoints(&mut self, mut each: impl FnMut(u64, u32, u64)) {
        for (ring, processor) in self.rings.iter_mut().zip(0..) {
            ring.take_lost_tracepoints(|session, count| each(session, processor, count));
        }
    }

    /// Starts a walk over the files that processes have open, which reports their names.
    ///
    /// # Errors
    ///
    /// Fails if the kernel has no such iterator. Linux has it since 5.8.
    pub fn open_files(&self) -> Result<OpenFiles, CaptureError> {
        let Object { object, types } = &mut *self.programs.lock();
        OpenFiles::start(object, types).map_err(CaptureError::Refused)
    }

    /// Sets the kinds of events with stacks.
    pub fn set_stacks(&mut self, kinds: StackKinds) {
        // Cannot fail: the map has this one entry.
        let _ = self.stacks.set(0, [kinds.0 as u64, (kinds.0 >> 64) as u64], 0);
    }

    /// Returns the table in which the programs look up rules; `None` if they do not follow stacks on this machine.
    pub fn rules(&self) -> Option<RuleTable> {
        let memory = || SharedWords::map_of_kernel(self.rules.fd(), RuleTable::LEN_WORDS).ok();
        if follows_stacks() { memory().map(RuleTable::new) } else { None }
    }

    /// Makes the programs describe code of Python again that they have described before, for a session that begins.
    pub fn describe_code_again(&mut self) {
        let known: Vec<_> = self.python_codes.keys().filter_map(Result::ok).collect();
        for code in known {
            let _ = self.python_codes.remove(&code);
        }
    }

    /// Sets the time between two samples of a processor.
    pub fn set_sample_interval(&mut self, interval: Duration) {
        if interval == std::mem::replace(&mut self.sample_interval, interval) {
            return;
        }
        let is_sampled = |(hook, _): &(Hook, Attached)| *hook == Hook::Sample;
        if let Some(at) = self.attached.iter().position(is_sampled) {
            let (_, attached) = self.attached.swap_remove(at);
            programs::detach(&mut self.programs.lock().object, attached);
            match self.attach(Hook::Sample) {
                Ok(attached) => self.attached.push((Hook::Sample, attached)),
                Err(reason) => self.missing.push((Hook::Sample, reason)),
            }
        }
    }

    /// Returns the hooks that could not be attached, with the reasons.
    pub fn missing(&self) -> &[(Hook, String)] {
        &self.missing
    }

    /// Returns the number of rings: one for each processor that the machine may have.
    pub fn processors(&self) -> usize {
        self.rings.len()
    }

    /// Passes the events of one processor from before `until` (nanoseconds of `CLOCK_MONOTONIC`) to `each`, in the
    /// order of time. Returns their number.
    ///
    /// The times of one processor never go back, also across calls. One call reads about a mebibyte at most; if it
    /// delivers no event, there are no more from before `until`. New events wake no one: the rings have to be read
    /// every few milliseconds.
    ///
    /// An event may appear in its ring some time after its own time. With an `until` of 100 µs ago, the events of all
    /// processors can be merged in the order of time.
    pub fn read(&mut self, processor: usize, until: u64, each: impl FnMut(Event<'_>)) -> usize {
        let Some((ring, lost)) = self.rings.get_mut(processor).zip(self.lost_outside.get_mut(processor))
        else {
            return 0;
        };
        let delivered = ring.read(u32::try_from(processor).unwrap_or(u32::MAX), until, each);
        *lost += delivered.lost;
        delivered.events
    }

    /// Returns how many events of each processor were lost since the start because its ring was full.
    pub fn lost(&self) -> impl Iterator<Item = u64> + '_ {
        // One call returns the counts of all processors.
        let in_kernel = self.lost.get(&0, 0).ok();
        let outside = self.lost_outside.iter().enumerate();
        outside.map(move |(processor, outside)| {
            let counted = in_kernel.as_ref().and_then(|counts| counts.get(processor).copied());
            counted.unwrap_or(0) + outside
        })
    }
}

impl ImageTable for Capture {
    fn set_images(&mut self, space: &Space, images: &[ImageRange]) {
        let mut words: Images = [0; 1 + 3 * IMAGES_MOST];
        words[0] = images.len() as u64;
        words[1..].as_chunks_mut().0.iter_mut().zip(images).for_each(|(to, image)| *to = *image);
        let _ = self.spaces.insert(key_of(space), words, 0);
    }

    fn set_interpreter(&mut self, space: &Space, interpreter: &Interpreter) {
        let _ = self.interpreters.insert(key_of(space), interpreter.words(), 0);
    }
}

impl std::fmt::Debug for Capture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hooks = self.attached.iter().map(|(hook, _)| hook).collect::<Vec<_>>();
        f.debug_struct("Capture")
            .field("hooks", &hooks)
            .field("missing", &self.missing)
            .finish_non_exhaustive()
    }
}

/// Returns a space as the programs have it.
fn key_of(space: &Space) -> [u64; 2] {
    [space.began, u64::from(space.process_id) | u64::from(space.programs) << 32]
}

/// Creates a ring for each processor and registers it with the programs.
fn make_rings(object: &mut Ebpf, processors: u32, ring_bytes: u32) -> Result<Vec<Ring>, MapError> {
    let mut table: ArrayOfMaps<_, RingBuf<MapData>> = match object.map_mut("rings") {
        Some(map) => ArrayOfMaps::try_from(map)?,
        None => return Err(MapError::KeyNotFound),
    };
    let mut rings = Vec::new();
    for processor in 0..processors {
        let definition = MapDefinition::new_from_params(BPF_MAP_TYPE_RINGBUF as u32, 0, 0, ring_bytes, 0);
        let ring = RingBuf::try_from(Map::RingBuf(MapData::create(definition, "ring", None)?))?;
        table.set(processor, &ring, 0)?;
        rings.push(Ring::new(ring));
    }
    Ok(rings)
}

/// Size in bytes of each processor's ring for mappings: the kernel's limit without `CAP_IPC_LOCK`.
const MAPPING_RING_BYTES: usize = 512 << 10;

fn open_mappings(processors: &[u32]) -> Result<Vec<(u32, MappingRing)>, String> {
    let open = |processor: &u32| {
        let ring = MappingRing::open(*processor, MAPPING_RING_BYTES);
        Ok((*processor, ring.map_err(|error| format!("the ring of mappings: {error}"))?))
    };
    processors.iter().map(open).collect()
}

/// Number of buffers per processor in which stacks are assembled; `bpf/room.h` has the same number.
const ROOMS: u32 = 4;

/// Returns whether the kernel has the helper that returns a program's registers.
fn tells_registers() -> bool {
    KernelVersion::current().is_ok_and(|version| version >= KernelVersion::new(5, 15, 0))
}

/// Returns whether the programs follow stacks, which needs registers to start from.
fn follows_stacks() -> bool {
    IS_KNOWN_CODE && tells_registers()
}

fn refused(reason: &str) -> CaptureError {
    CaptureError::Refused(reason.to_owned())
}

/// Capabilities that tracing needs, by their bits. The first includes all others.
const SYS_ADMIN: u32 = 21;
const NEEDED: [(u32, &str); 2] = [(39, "CAP_BPF"), (38, "CAP_PERFMON")];

/// Checks that the process has the capabilities that tracing needs. The kernel's own error does not say which one is
/// missing.
fn check_rights() -> Result<(), CaptureError> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    match missing_rights(&status) {
        Some(missing) => Err(CaptureError::NotPermitted { missing }),
        None => Ok(()),
    }
}

fn missing_rights(status: &str) -> Option<String> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let capabilities = u64::from_str_radix(line.trim(), 16).ok()?;
    let has = |bit: u32| capabilities & (1 << bit) != 0;
    if has(SYS_ADMIN) {
        return None;
    }
    let missing = NEEDED.iter().filter(|(bit, _)| !has(*bit)).map(|(_, name)| *name).collect::<Vec<_>>();
    (!missing.is_empty()).then(|| missing.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let check = |mask: &str, expected: Option<&str>| {
            assert_eq!(missing_rights(&format!("Name:\tx\nCapEff:\t{mask}\n")).as_deref(), expected);
        };
        check("000001ffffffffff", None);
        check("0000000000200000", None);
        check("000000c000000000", None);
        check("0000008000000000", Some("CAP_PERFMON"));
        check("0000000000000000", Some("CAP_BPF and CAP_PERFMON"));
    }
}
