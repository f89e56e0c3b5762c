//! The images that samples lie in, and the symbols that they need.

use std::collections::{BTreeMap, BTreeSet};

use etw_machine::{Assembly, ImageIndex, Space, il_place_number};
use etw_stacks::StackTree;
use etw_symbols::{Module, WindowsImage};

use crate::Analysis;
use crate::tables::functions;

/// An image that samples lie in, or an assembly of .NET whose lines their methods need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModuleUse {
    /// Path of its file.
    pub path: String,
    /// The known part of its build id; empty if it has none.
    pub build_id: Vec<u8>,
    /// Identity of an image of Windows, or the PDB of an assembly.
    pub windows: Option<WindowsImage>,
    /// Whether it is an assembly of .NET. Methods have names without its PDB, but no lines.
    pub is_managed: bool,
    /// Number of samples whose instruction is in the image.
    pub samples: u64,
    /// Number of stacks, of samples and of other events that the analysis counts by stack, with the image anywhere.
    pub stacks: u64,
    /// Number of addresses in the image that stacks lead through.
    pub addresses: u64,
    /// Number of these addresses whose names are in the trace itself.
    pub named_addresses: u64,
    /// Name of the file that the names in the trace are from.
    pub source: Option<String>,
}

impl ModuleUse {
    /// Returns the file name without its directory.
    pub fn name(&self) -> &str {
        self.path.rsplit(['/', '\\']).next().unwrap_or_default()
    }

    /// Returns whether the trace itself has all names that a file would give.
    pub fn is_named(&self) -> bool {
        self.named_addresses > 0 && self.named_addresses == self.addresses
    }

    /// Returns the image in the form that a symbolizer takes.
    pub fn module(&self) -> Module<'_> {
        Module {
            path: &self.path,
            build_id: &self.build_id,
            windows: self.windows.as_ref(),
            is_managed: self.is_managed,
        }
    }
}

/// What samples need symbols of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Used {
    Image(ImageIndex),
    Assembly(Assembly),
}

/// How much samples and stacks use something.
#[derive(Debug, Default)]
struct Use {
    samples: u64,
    stacks: u64,
    /// Offsets from the image's base, or places in IL code.
    places: BTreeSet<u64>,
}

impl Analysis {
    /// Ends the pass and returns the images and assemblies whose symbols samples need, by number of samples, and those
    /// that the stacks of other events need, if these are counted ([`Analysis::by_stack`]). Those that need none are left
    /// out: functions that the trace itself names without an image, images outside all stacks, and assemblies whose
    /// methods have no maps to IL code in the trace.
    pub fn modules(mut self) -> Vec<ModuleUse> {
        self.samples.finish(&self.model.processes, &self.model.addresses);
        self.model.methods.finish();
        let mut uses: BTreeMap<Used, Use> = BTreeMap::new();
        self.add_uses(&self.samples.tree, true, &mut uses);
        self.by_stack.iter().for_each(|by_stack| self.add_uses(&by_stack.tree, false, &mut uses));
        let module = |(used, Use { samples, stacks, places }): (Used, Use)| {
            let module = match used {
                Used::Image(index) => {
                    let image = self.model.images.get(index);
                    let (path, build_id) = (image.path.to_string(), image.build_id.clone());
                    ModuleUse { path, build_id, windows: image.windows.clone(), ..ModuleUse::default() }
                }
                Used::Assembly(Assembly { path, pdb }) => {
                    let windows = Some(WindowsImage { pdb: Some(pdb), ..WindowsImage::default() });
                    ModuleUse { path: path.to_string(), windows, is_managed: true, ..ModuleUse::default() }
                }
            };
            let (named_addresses, source) = self.model.images.names.count(&module.module(), &places);
            let (addresses, source) = (places.len() as u64, source.map(|source| source.to_string()));
            ModuleUse { samples, stacks, addresses, named_addresses, source, ..module }
        };
        let mut modules: Vec<ModuleUse> = uses.into_iter().map(module).collect();
        modules.sort_by(|one, other| {
            (other.samples, other.stacks)
                .cmp(&(one.samples, one.stacks))
                .then_with(|| one.path.cmp(&other.path))
        });
        modules
    }

    /// Adds what the stacks of a tree use.
    fn add_uses(&self, tree: &StackTree, is_of_samples: bool, uses: &mut BTreeMap<Used, Use>) {
        // Most nodes lie in many stacks.
        let threads = tree.threads();
        let nodes = tree.nodes().iter().zip(threads);
        let used: Vec<Option<(Used, u64)>> = nodes
            .map(|(node, thread)| {
                let space = functions::space(node, thread, &self.model.addresses, &self.model.processes);
                self.used_at(space, node.address)
            })
            .collect();
        for (used, place) in used.iter().flatten() {
            uses.entry(used.clone()).or_default().places.insert(*place);
        }
        for (node, innermost) in tree.nodes().iter().zip(&used).filter(|(node, _)| node.count > 0) {
            if let Some((used, _)) = innermost.as_ref().filter(|_| is_of_samples) {
                uses.entry(used.clone()).or_default().samples += node.count;
            }
            let mut all: BTreeSet<&Used> = innermost.iter().map(|(used, _)| used).collect();
            let mut next = node.parent.node();
            while let Some(index) = next {
                next = tree.nodes().get(index).and_then(|node| node.parent.node());
                all.extend(used.get(index).and_then(Option::as_ref).map(|(used, _)| used));
            }
            for used in all {
                uses.entry(used.clone()).or_default().stacks += node.count;
            }
        }
    }

    /// Returns the number of samples so far.
    pub fn sample_count(&self) -> u64 {
        self.samples.all.count
    }

    /// Returns the image at an address, if the trace does not name the function there without it, or the assembly of the
    /// method there; and the place in it.
    fn used_at(&self, space: Space, address: u64) -> Option<(Used, u64)> {
        let image = match space {
            Space::Kernel(machine) if self.model.kernel_functions.find(machine, address).is_some() => None,
            Space::Kernel(machine) => self.model.images.find_in_kernel(machine, address),
            Space::Process(process, version) => match self.model.methods.find(process, address, version) {
                // Functions of other runtimes have their lines in the trace, and only .NET has methods in images.
                Some(method) if method.is_dotnet() => {
                    let found = self.model.methods.il_place(method, address, &self.model.images);
                    return found.map(|(assembly, at)| (Used::Assembly(assembly), il_place_number(at)));
                }
                _ => self.model.images.find(process, address, &self.model.processes),
            },
            Space::Unknown => None,
        };
        image.map(|(image, offset)| (Used::Image(image), offset))
    }
}
