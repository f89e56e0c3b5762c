//! The methods whose code was in memory, of .NET and of other runtimes with JIT compilers: their names, and where their
//! code was, from when to when.
//!
//! The events of a method of .NET are its load and unload, and the rundowns at the start and end of a session. A rundown
//! at the end describes methods from before the trace too: such a method was in place since the last change of the code
//! there. Functions of other runtimes have one event, a load or a rundown.

use std::collections::BTreeMap;
use std::rc::Rc;

use etw_event::{Guid, StackFrame};
use etw_symbols::{IlPlace, PdbId};

use super::event::{ClrEvent, ClrProvider};
use super::il_maps::{IlMap, IlMaps, il_offset};
use super::jit::{JitEvent, SourceLines};
use super::versions::{CodeVersion, CodeVersions};
use crate::images::Images;
use crate::maps::HashMap;
use crate::processes::ProcessIndex;

/// Maximum number of methods, and of modules.
const MAX_METHODS: usize = 1 << 20;
/// Maximum number of methods that are compared with an address.
const MAX_STEPS: usize = 1 << 10;

/// Bits of the flags of methods.
const JITTED: u32 = 0x8;
const TIER_SHIFT: u32 = 7;

/// Number of a method's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MethodIndex(u32);

/// The code of a method. A method has several of them if it is generic, compiled more than once, or split.
#[derive(Debug)]
pub struct Method {
    process: ProcessIndex,
    /// `Namespace.Type.Method(args)`; of other runtimes, the name that they give.
    pub(crate) name: Box<str>,
    pub(crate) start: u64,
    end: u64,
    runtime: Runtime,
    /// The change that put the code in place, if there was other code before.
    placed: CodeVersion,
    /// The change that removed the code.
    removed: Option<CodeVersion>,
}

/// A file with IL code.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Assembly {
    /// Path of the file.
    pub path: Rc<str>,
    /// Identity of its PDB.
    pub pdb: PdbId,
}

/// A module: an assembly in a process.
#[derive(Debug)]
struct ManagedModule {
    /// File name.
    name: Rc<str>,
    path: Rc<str>,
    pdb: Option<PdbId>,
}

/// What a method's runtime says of it.
#[derive(Debug, PartialEq, Eq)]
enum Runtime {
    DotNet(DotNetMethod),
    Other(SourceLines),
}

#[derive(Debug, PartialEq, Eq)]
struct DotNetMethod {
    id: u64,
    module: u64,
    token: u32,
    flags: u32,
    il_map: Option<IlMap>,
}

impl Method {
    fn dotnet(&self) -> Option<&DotNetMethod> {
        match &self.runtime {
            Runtime::DotNet(method) => Some(method),
            Runtime::Other(_) => None,
        }
    }

    /// Whether the code is from the JIT compiler, not from a file.
    pub fn is_jitted(&self) -> bool {
        self.dotnet().is_none_or(|method| method.flags & JITTED != 0)
    }

    /// Whether it is a method of .NET.
    pub fn is_dotnet(&self) -> bool {
        self.dotnet().is_some()
    }

    /// Returns the source file and line of the code at an address, if the trace has them.
    pub(crate) fn line_of(&self, address: u64) -> Option<(&str, u32)> {
        match &self.runtime {
            Runtime::DotNet(_) => None,
            Runtime::Other(lines) => lines.find(address.checked_sub(self.start)?),
        }
    }

    /// Whether both are the same code.
    fn is_same(&self, other: &Method) -> bool {
        let ids = |method: &Method| method.dotnet().map(|method| method.id);
        (self.start, self.end, ids(self)) == (other.start, other.end, ids(other))
            && (self.is_dotnet() || self.name == other.name)
    }

    /// Returns the length of the code in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.end - self.start
    }

    /// Returns how far the code is optimized, by the names that PerfView shows; `None` if the event does not say so.
    pub fn tier(&self) -> Option<&'static str> {
        Some(match self.dotnet()?.flags >> TIER_SHIFT & 7 {
            0 if !self.is_jitted() => "PreJIT",
            1 => "MinOptJitted",
            2 => "Optimized",
            3 => "QuickJitted",
            4 => "OptimizedTier1",
            5 => "OptimizedTier1OSR",
            6 => "QuickJittedInstrumented",
            7 => "OptimizedTier1Instrumented",
            _ => return None,
        })
    }
}

/// The methods of all processes.
#[derive(Debug, Default)]
pub struct Methods {
    methods: Vec<Method>,
    /// The methods in place, by process and start.
    live: HashMap<ProcessIndex, BTreeMap<u64, MethodIndex>>,
    /// Modules by process and id.
    modules: HashMap<(ProcessIndex, u64), ManagedModule>,
    il_maps: IlMaps,
    /// All methods of each process by start, made at the end.
    places: HashMap<ProcessIndex, Vec<Place>>,
    /// Methods beyond the maximum.
    pub(crate) skipped: u64,
}

/// The place of a method among all methods of its process, sorted by start.
#[derive(Debug)]
struct Place {
    start: u64,
    method: MethodIndex,
    /// The highest end of this method and those before it.
    reach: u64,
}

impl Methods {
    /// Adds an event about a method or a module. Returns the method if its code is in place now.
    pub fn event(&mut self, event: &ClrEvent<'_>, versions: &mut CodeVersions) -> Option<MethodIndex> {
        match (event.provider, event.id) {
            (ClrProvider::Runtime, 143) | (ClrProvider::Rundown, 143 | 144) => {
                let method = self.load(event, versions)?;
                let id = self.get(method)?.dotnet()?.id;
                if let Some(map) = self.il_maps.method(event.thread, id, method) {
                    self.set_map(method, map);
                }
                Some(method)
            }
            (ClrProvider::Runtime, 190) | (ClrProvider::Rundown, 149 | 150) => {
                let Methods { methods, il_maps, .. } = self;
                let has_map = |index: MethodIndex| {
                    let method = methods.get(index.0 as usize).and_then(Method::dotnet);
                    method.is_some_and(|method| method.il_map.is_some())
                };
                let is_first = (event.provider, event.id) == (ClrProvider::Rundown, 150);
                if let Some((method, map)) = il_maps.map(event, is_first, has_map) {
                    self.set_map(method, map);
                }
                None
            }
            (ClrProvider::Runtime, 142 | 144) => {
                self.unload(event, versions);
                None
            }
            (ClrProvider::Runtime, 151 | 152) | (ClrProvider::Rundown, 151..=154) => {
                self.module(event);
                None
            }
            _ => None,
        }
    }

    /// Adds a method that is in place (MethodLoadVerbose, MethodDCStartVerbose, MethodDCEndVerbose).
    fn load(&mut self, event: &ClrEvent<'_>, versions: &mut CodeVersions) -> Option<MethodIndex> {
        self.place(method(event)?, event.provider == ClrProvider::Runtime, versions)
    }

    /// Adds a function of another runtime.
    pub fn jit(&mut self, event: JitEvent, versions: &mut CodeVersions) {
        let JitEvent { process, start, end, name, lines, is_load } = event;
        let (placed, removed) = (CodeVersion::default(), None);
        let runtime = Runtime::Other(lines);
        self.place(Method { process, name, start, end, runtime, placed, removed }, is_load, versions);
    }

    /// Adds a method that is in place, since now if it `is_load`.
    fn place(&mut self, method: Method, is_load: bool, versions: &mut CodeVersions) -> Option<MethodIndex> {
        let Method { process, start, end, .. } = method;
        let Methods { methods, live, .. } = self;
        let live = live.entry(process).or_default();
        let end_of = |index: &MethodIndex| methods.get(index.0 as usize).map_or(0, |method| method.end);
        if let Some(known) = live.get(&start)
            && methods.get(known.0 as usize).is_some_and(|known| known.is_same(&method))
        {
            return Some(*known);
        }
        // What was there has been removed without an event. Live methods do not overlap, so their ends are in order.
        let removed = live.range(..end).rev().take_while(|(_, index)| end_of(index) > start);
        let removed: Vec<(u64, MethodIndex)> = removed.map(|(start, index)| (*start, *index)).collect();
        for (start, index) in removed {
            live.remove(&start);
            if let Some(method) = methods.get_mut(index.0 as usize) {
                method.removed = Some(versions.change(process, method.start, method.end));
            }
        }
        // A rundown does not say since when.
        let placed = match is_load && versions.has_changed(process, start, end) {
            true => versions.change(process, start, end),
            false => CodeVersion::default(),
        };
        let index = self.add(Method { placed, ..method })?;
        self.live.entry(process).or_default().insert(start, index);
        Some(index)
    }

    /// Removes a method (MethodUnload, MethodUnloadVerbose).
    fn unload(&mut self, event: &ClrEvent<'_>, versions: &mut CodeVersions) {
        let Some(start) = event.get::<u64>("MethodStartAddress") else { return };
        let known = self.live.get_mut(&event.process).and_then(|live| live.remove(&start));
        // A method from before the trace is described only here.
        let known = known.or_else(|| self.add(method(event)?));
        if let Some(method) = known.and_then(|known| self.methods.get_mut(known.0 as usize)) {
            method.removed = Some(versions.change(event.process, method.start, method.end));
        }
    }

    fn add(&mut self, method: Method) -> Option<MethodIndex> {
        if self.methods.len() >= MAX_METHODS {
            self.skipped += 1;
            return None;
        }
        self.methods.push(method);
        Some(MethodIndex(self.methods.len() as u32 - 1))
    }

    fn set_map(&mut self, method: MethodIndex, map: IlMap) {
        if let Some(Method { runtime: Runtime::DotNet(method), .. }) = self.methods.get_mut(method.0 as usize)
        {
            method.il_map.get_or_insert(map);
        }
    }

    /// Adds a module. One that has only code in memory has the name of its file too.
    fn module(&mut self, event: &ClrEvent<'_>) {
        let (Some(id), Some(path)) = (event.get::<u64>("ModuleID"), event.get::<String>("ModuleILPath"))
        else {
            return;
        };
        let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
        if name.is_empty() || self.modules.len() >= MAX_METHODS {
            return;
        }
        let key = (event.process, id);
        // Only some of the events about a module have its PDB.
        let known = self.modules.remove(&key).filter(|module| *module.path == *path);
        let pdb = pdb_of(event).or_else(|| known?.pdb);
        self.modules.insert(key, ManagedModule { name: name.into(), path: path.into(), pdb });
    }

    /// Ends the pass; methods can be found afterwards.
    pub fn finish(&mut self) {
        let mut places: HashMap<ProcessIndex, Vec<Place>> = HashMap::default();
        for (method, index) in self.methods.iter().zip(0..) {
            let place = Place { start: method.start, method: MethodIndex(index), reach: method.end };
            places.entry(method.process).or_default().push(place);
        }
        for places in places.values_mut() {
            places.sort_by_key(|place| place.start);
            let mut reach = 0;
            for place in places {
                reach = place.reach.max(reach);
                place.reach = reach;
            }
        }
        self.places = places;
    }

    /// Returns the method whose code was at an address of a process.
    pub fn find(&self, process: ProcessIndex, address: u64, version: CodeVersion) -> Option<&Method> {
        if version == CodeVersion::UNKNOWN {
            return None;
        }
        let places = self.places.get(&process)?;
        let after = places.partition_point(|place| place.start <= address);
        let around = places.get(..after)?.iter().rev().take_while(|place| place.reach > address);
        let around = around.take(MAX_STEPS).filter_map(|place| self.methods.get(place.method.0 as usize));
        let was_there = |method: &&Method| {
            address < method.end && method.placed <= version && method.removed.is_none_or(|at| at > version)
        };
        // Of the methods that were there in turn, the first one that was removed later.
        around.filter(was_there).min_by_key(|method| method.removed.unwrap_or(CodeVersion::UNKNOWN))
    }

    /// Returns a method, or `None` if the index is of others.
    pub fn get(&self, index: MethodIndex) -> Option<&Method> {
        self.methods.get(index.0 as usize)
    }

    /// Returns the file name of the module that has a method's IL code, if it is known.
    pub(crate) fn module_of(&self, method: &Method) -> Option<&Rc<str>> {
        self.modules.get(&(method.process, method.dotnet()?.module)).map(|module| &module.name)
    }

    /// Returns the place in IL code of an address in a method, and the assembly; `None` if the trace does not say it.
    pub fn il_place(&self, method: &Method, address: u64, images: &Images) -> Option<(Assembly, IlPlace)> {
        let native = u32::try_from(address.checked_sub(method.start)?).ok()?;
        let DotNetMethod { module, token, il_map, .. } = method.dotnet()?;
        let offset = il_offset(il_map.as_deref()?, native)?;
        let module = self.modules.get(&(method.process, *module))?;
        // Older runtimes do not say which PDB a module has, but the image of its file may.
        let pdb = module.pdb.as_ref().or_else(|| images.pdb_by_name(method.process, &module.name))?;
        let assembly = Assembly { path: module.path.clone(), pdb: pdb.clone() };
        Some((assembly, IlPlace { token: *token, offset }))
    }

    /// Returns the name of a method of .NET as PerfView shows it: `module!Namespace.Type.Method(args)`, with the tier
    /// `module![Tier]Name`.
    ///
    /// For code in an image, `image` is the image's file name; otherwise it is that of the IL code.
    pub fn full_name(&self, method: &Method, image: Option<&str>, with_tier: bool) -> String {
        let module =
            image.or_else(|| self.module_of(method).map(|name| &**name)).map_or("?", StackFrame::stem);
        match method.tier().filter(|_| with_tier) {
            Some(tier) => format!("{module}![{tier}]{}", method.name),
            None => format!("{module}!{}", method.name),
        }
    }
}

/// Returns the method that an event describes.
fn method(event: &ClrEvent<'_>) -> Option<Method> {
    let (start, len) = (event.get::<u64>("MethodStartAddress")?, event.get::<u32>("MethodSize")?);
    let [namespace, name] = ["MethodNamespace", "MethodName"].map(|name| event.get::<String>(name));
    let (namespace, name) = (namespace?, name?);
    let signature = event.get::<String>("MethodSignature").unwrap_or_default();
    let arguments = signature.find('(').and_then(|at| signature.get(at..)).unwrap_or_default();
    let dot = if namespace.is_empty() { "" } else { "." };
    (len > 0).then_some(Method {
        process: event.process,
        name: format!("{namespace}{dot}{name}{arguments}").into(),
        start,
        end: start.saturating_add(len.into()),
        runtime: Runtime::DotNet(DotNetMethod {
            id: event.get("MethodID").unwrap_or(0),
            module: event.get("ModuleID").unwrap_or(0),
            token: event.get("MethodToken").unwrap_or(0),
            flags: event.get("MethodFlags").unwrap_or(0),
            il_map: None,
        }),
        placed: CodeVersion::default(),
        removed: None,
    })
}

/// Returns the PDB of a module's IL code, if the event has it.
fn pdb_of(event: &ClrEvent<'_>) -> Option<PdbId> {
    let guid = event.get::<Guid>("ManagedPdbSignature").filter(|guid| *guid != Guid::default())?;
    PdbId::new(&event.get::<String>("ManagedPdbBuildPath")?, guid, event.get("ManagedPdbAge")?)
}
