//! Function names of the addresses in a trace.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use etw_symbols::{
    Frame, IlPlace, KernelSymbols, Module, Symbol, Symbolizer, WindowsImage, is_function_name,
};

use crate::images::{ImageIndex, Images};
use crate::kernel_functions::KernelFunctions;
use crate::managed::{Assembly, CodeVersion, Method, Methods};
use crate::maps::HashMap;
use crate::processes::{ProcessIndex, Processes};
use crate::system_modules::{is_system_assembly, is_system_path};

/// The memory that an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// A process, with the version of its code.
    Process(ProcessIndex, CodeVersion),
    /// The kernel of a machine.
    Kernel(u32),
    /// The memory of a thread whose process is not in the trace.
    Unknown,
}

/// Number of a function, or of its placeholder if there are no symbols.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionIndex(u32);

/// A function.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Function {
    /// File name of the image; `None` if the image is unknown.
    pub module: Option<Rc<str>>,
    /// `None` without symbols.
    pub name: Option<Rc<str>>,
}

impl Function {
    /// Returns whether it has a name, and not only a place in its image.
    pub fn is_named(&self) -> bool {
        self.name.as_deref().is_some_and(is_function_name)
    }
}

/// The code at an address.
#[derive(Debug, Clone)]
pub struct Code {
    /// The function that it is in.
    pub function: FunctionIndex,
    /// Functions inlined there, innermost first, then the function itself; empty without symbols.
    pub frames: Vec<Frame>,
    /// Offset from the image's base, or from zero if there is no image.
    pub offset: u64,
    /// Offset from the function's start, if that is known.
    pub offset_in_function: Option<u64>,
    /// Whether it is a method of .NET.
    pub is_managed: bool,
    /// Whether its module is a part of the system.
    pub is_system: bool,
}

/// Names of the requested addresses.
#[derive(Debug, Default)]
pub struct Names {
    codes: HashMap<(Space, u64), Code>,
    functions: Vec<Function>,
    by_name: HashMap<Function, FunctionIndex>,
    /// Methods that the trace names beyond the maximum.
    pub skipped_methods: u64,
    /// The reason why an image has no symbols, by the name of its file.
    pub problems: HashMap<Rc<str>, String>,
}

/// The sources of names.
pub struct Sources<'a> {
    /// The images, with the names that the trace itself has of their code.
    pub images: &'a Images,
    /// The functions of kernels that the trace names.
    pub kernel_functions: &'a KernelFunctions,
    /// The methods that the trace names.
    pub methods: &'a Methods,
    /// Whether names of methods have their optimization tiers.
    pub has_tiers: bool,
    /// The processes that addresses are of.
    pub processes: &'a Processes,
    /// What names the rest, from symbol files.
    pub symbolizer: &'a Symbolizer,
}

/// An address, and the image that contains it.
struct Place {
    space: Space,
    address: u64,
    image: Option<(ImageIndex, u64)>,
}

impl Place {
    /// Returns the function that the trace names for the address, its module and its start.
    fn of_kernel<'f>(
        &self,
        functions: &'f KernelFunctions,
    ) -> Option<(&'f Rc<str>, Option<&'f Rc<str>>, u64)> {
        functions.find(self.machine()?, self.address)
    }

    /// Returns the machine if the address is in its kernel.
    fn machine(&self) -> Option<u32> {
        match self.space {
            Space::Kernel(machine) => Some(machine),
            Space::Process(..) | Space::Unknown => None,
        }
    }

    /// Returns the method whose code is at the address. Only .NET has methods in images.
    fn method<'m>(&self, methods: &'m Methods) -> Option<&'m Method> {
        match self.space {
            Space::Process(process, version) => {
                let method = methods.find(process, self.address, version);
                method.filter(|method| method.is_dotnet() || self.image.is_none())
            }
            Space::Kernel(_) | Space::Unknown => None,
        }
    }
}

impl Names {
    /// Finds the names of addresses.
    pub fn find(sources: &Sources<'_>, addresses: impl IntoIterator<Item = (Space, u64)>) -> Names {
        let addresses: BTreeSet<(Space, u64)> = addresses.into_iter().collect();
        let Sources { images, processes, .. } = sources;
        let places: Vec<Place> = addresses
            .into_iter()
            .map(|(space, address)| {
                let image = match space {
                    Space::Kernel(machine) => images.find_in_kernel(machine, address),
                    Space::Process(process, _) => images.find(process, address, processes),
                    Space::Unknown => None,
                };
                Place { space, address, image }
            })
            .collect();
        let mut names = Names { skipped_methods: sources.methods.skipped, ..Names::default() };
        // Functions named in the trace need no files.
        let (named, places): (Vec<Place>, Vec<Place>) =
            places.into_iter().partition(|place| place.of_kernel(sources.kernel_functions).is_some());
        for place in named {
            let Some((name, module, start)) = place.of_kernel(sources.kernel_functions) else { continue };
            let image = place.image.map(|(image, _)| Rc::from(images.get(image).name()));
            let module = image.or_else(|| module.cloned()).or_else(|| Some("vmlinux".into()));
            let offset = place.address.checked_sub(start);
            names.insert(&place, module, Symbol { frames: one_frame(name.to_string()), offset }, sources);
        }
        let (managed, places): (Vec<Place>, Vec<Place>) =
            places.into_iter().partition(|place| place.method(sources.methods).is_some());
        for place in &managed {
            names.insert_method(place, sources);
        }
        names.insert_lines(&managed, sources);
        let machines: BTreeSet<u32> = places.iter().filter_map(Place::machine).collect();
        let kernels = machines.into_iter();
        let kernels: HashMap<u32, KernelSymbols> =
            kernels.filter_map(|machine| Some((machine, names.kernel(machine, sources, &places)?))).collect();
        let symbols = names.symbols(sources, &places, &kernels);
        for place in places {
            let module = place.image.map(|(image, _)| Rc::from(images.get(image).name()));
            let of_kernel = place.machine().and_then(|machine| kernels.get(&machine));
            let symbol = match (of_kernel.and_then(|kernel| kernel.find(place.address)), place.image) {
                (Some(symbol), _) => Some(Symbol {
                    frames: one_frame(symbol.name.to_owned()),
                    offset: place.address.checked_sub(symbol.address),
                }),
                (None, Some(at)) => symbols.get(&at).cloned(),
                (None, None) => None,
            };
            let symbol = symbol.unwrap_or(Symbol { frames: Vec::new(), offset: None });
            names.insert(&place, module, symbol, sources);
        }
        names
    }

    fn insert(&mut self, place: &Place, module: Option<Rc<str>>, symbol: Symbol, sources: &Sources<'_>) {
        let Symbol { frames, offset: offset_in_function } = symbol;
        let path = place.image.map(|(image, _)| &*sources.images.get(image).path);
        let is_system = place.machine().is_some() || path.is_some_and(is_system_path);
        let name = frames.last().map(|frame| Rc::from(&*frame.function));
        let function = self.function(Function { module, name });
        let offset = place.image.map_or(place.address, |(_, offset)| offset);
        let code = Code { function, frames, offset, offset_in_function, is_managed: false, is_system };
        self.codes.insert((place.space, place.address), code);
    }

    /// Adds a method, whose code is in memory or, if .NET compiled it in advance, in an image.
    fn insert_method(&mut self, place: &Place, sources: &Sources<'_>) {
        let Some(method) = place.method(sources.methods) else { return };
        if !method.is_dotnet() {
            let (file, line) = method.line_of(place.address).unzip();
            let file = file.map(str::to_owned);
            let frame = Frame { function: method.name.to_string(), file, line };
            let offset = place.address.checked_sub(method.start);
            let symbol = Symbol { frames: vec![frame], offset };
            return self.insert(place, Some(jit_module(place, sources.processes)), symbol, sources);
        }
        let image = place.image.map(|(image, _)| sources.images.get(image).name());
        let function = sources.methods.full_name(method, image, sources.has_tiers);
        let module = image.map(Rc::from).or_else(|| sources.methods.module_of(method).cloned());
        let assembly = function.split_once('!').map(|(assembly, _)| assembly.to_owned());
        let offset = place.address.checked_sub(method.start);
        self.insert(place, module, Symbol { frames: one_frame(function), offset }, sources);
        if let Some(code) = self.codes.get_mut(&(place.space, place.address)) {
            code.is_managed = true;
            code.is_system |= assembly.is_some_and(|assembly| is_system_assembly(&assembly));
        }
    }

    /// Adds the lines of methods of .NET, as far as the trace has maps and this machine has PDBs.
    fn insert_lines(&mut self, places: &[Place], sources: &Sources<'_>) {
        let mut wanted: BTreeMap<Assembly, Vec<(&Place, IlPlace)>> = BTreeMap::new();
        for place in places {
            let method = place.method(sources.methods);
            let found =
                method.and_then(|method| sources.methods.il_place(method, place.address, sources.images));
            if let Some((assembly, at)) = found {
                wanted.entry(assembly).or_default().push((place, at));
            }
        }
        for (Assembly { path, pdb }, places) in wanted {
            let image = WindowsImage { pdb: Some(pdb), ..WindowsImage::default() };
            let module = Module { path: &path, windows: Some(&image), is_managed: true, ..Module::default() };
            let at: Vec<IlPlace> = places.iter().map(|(_, at)| *at).collect();
            // `etw symbols` shows why there are none.
            let (lines, _) = sources.images.names.lines(&module, &at, sources.symbolizer);
            for ((place, _), line) in places.iter().zip(lines) {
                let code = self.codes.get_mut(&(place.space, place.address));
                if let (Some(line), Some(frame)) = (line, code.and_then(|code| code.frames.last_mut())) {
                    (frame.file, frame.line) = (Some(line.file), Some(line.line));
                }
            }
        }
    }

    /// Returns the symbols of a machine's kernel if they are of the recorded boot.
    fn kernel(&mut self, machine: u32, sources: &Sources<'_>, places: &[Place]) -> Option<KernelSymbols> {
        let place = places.iter().find(|place| place.machine() == Some(machine))?;
        let images = sources.images;
        let kernel = images.kernel(machine);
        let module: Rc<str> = kernel
            .or(place.image.map(|(image, _)| images.get(image)))
            .map_or("", |image| image.name())
            .into();
        let problem = match kernel {
            None if place.image.is_none() => {
                "the trace does not contain the kernel's address: record with LOADER".to_owned()
            }
            // A Windows kernel.
            None => return None,
            Some(kernel) => match KernelSymbols::of_this_machine() {
                Ok(symbols) => {
                    let is_same = images.kernel_base(machine) == Some(symbols.base())
                        && filled(symbols.build_id()).starts_with(&kernel.build_id);
                    if is_same {
                        return Some(symbols);
                    }
                    "the recorded kernel is from another boot or machine".to_owned()
                }
                Err(error) => error.to_string(),
            },
        };
        self.problems.insert(module, problem);
        None
    }

    /// Returns symbols by image and offset.
    fn symbols(
        &mut self,
        sources: &Sources<'_>,
        places: &[Place],
        kernels: &HashMap<u32, KernelSymbols>,
    ) -> HashMap<(ImageIndex, u64), Symbol> {
        let is_named = |place: &Place| place.machine().is_some_and(|machine| kernels.contains_key(&machine));
        let wanted = places.iter().filter(|place| !is_named(place));
        let wanted: BTreeSet<(ImageIndex, u64)> = wanted.filter_map(|place| place.image).collect();
        let wanted: Vec<(ImageIndex, u64)> = wanted.into_iter().collect();
        let mut symbols = HashMap::default();
        for of_image in wanted.chunk_by(|one, next| one.0 == next.0) {
            let Some((index, _)) = of_image.first() else { continue };
            let image = sources.images.get(*index);
            let offsets: Vec<u64> = of_image.iter().map(|(_, offset)| *offset).collect();
            let (found, error) = sources.images.names.resolve(&image.module(), &offsets, sources.symbolizer);
            let found = of_image.iter().zip(found);
            symbols.extend(found.filter_map(|(at, symbol)| Some((*at, symbol?))));
            if let Some(error) = error {
                self.problems.entry(image.name().into()).or_insert_with(|| error.to_string());
            }
        }
        symbols
    }

    fn function(&mut self, function: Function) -> FunctionIndex {
        let next = FunctionIndex(self.functions.len() as u32);
        let index = *self.by_name.entry(function.clone()).or_insert(next);
        if index == next {
            self.functions.push(function);
        }
        index
    }

    /// Returns the code at a requested address.
    pub fn code(&self, space: Space, address: u64) -> Option<&Code> {
        self.codes.get(&(space, address))
    }

    /// Returns the code at all requested addresses.
    pub(crate) fn all(&self) -> impl Iterator<Item = ((Space, u64), &Code)> {
        self.codes.iter().map(|(at, code)| (*at, code))
    }

    /// Returns a function of these.
    pub fn get(&self, function: FunctionIndex) -> &Function {
        &self.functions[function.0 as usize]
    }

    /// Returns a function's name, or the image and offset of the address.
    pub fn label(&self, code: &Code) -> String {
        match code.frames.last() {
            Some(frame) => frame.function.clone(),
            None => self.place(code),
        }
    }

    /// Returns `module!function`, or the module and the offset in it.
    pub fn shown(&self, code: &Code) -> String {
        let module = self.get(code.function).module.as_deref().filter(|module| !module.is_empty());
        match (code.frames.last(), module) {
            // Names of methods have their assembly already.
            (Some(frame), Some(module)) if !code.is_managed => format!("{module}!{}", frame.function),
            (Some(frame), _) => frame.function.clone(),
            (None, _) => self.place(code),
        }
    }

    /// Returns the place as `module+0x12`.
    pub fn place(&self, code: &Code) -> String {
        match &self.get(code.function).module {
            Some(module) => format!("{module}+{:#x}", code.offset),
            None => format!("{:#x}", code.offset),
        }
    }
}

/// Returns the module that is shown for the code of a JIT compiler: `[JIT]` and the name of the process.
fn jit_module(place: &Place, processes: &Processes) -> Rc<str> {
    let name = match place.space {
        Space::Process(process, _) => processes.process(process).name.as_deref(),
        Space::Kernel(_) | Space::Unknown => None,
    };
    name.map_or_else(|| "[JIT]".into(), |name| format!("[JIT] {name}").into())
}

fn one_frame(function: String) -> Vec<Frame> {
    vec![Frame { function, file: None, line: None }]
}

/// Returns a build id padded as in traces.
fn filled(build_id: &[u8]) -> Vec<u8> {
    let mut filled = build_id.to_vec();
    filled.resize(filled.len().max(20), 0);
    filled
}
