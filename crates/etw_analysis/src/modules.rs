//! The images that samples lie in, and the symbols that they need.

use std::collections::{BTreeMap, BTreeSet};

use etw_symbols::{Module, WindowsImage};

use crate::Analysis;
use crate::images::ImageIndex;
use crate::names::Space;
use crate::stacks::Node;
use crate::tables::functions;

/// An image that samples lie in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModuleUse {
    /// Path of its file.
    pub path: String,
    /// The known part of its build id; empty if it has none.
    pub build_id: Vec<u8>,
    /// Identity of an image of Windows.
    pub windows: Option<WindowsImage>,
    /// Number of samples whose instruction is in the image.
    pub samples: u64,
    /// Number of samples with the image anywhere in their stack.
    pub stacks: u64,
}

impl ModuleUse {
    /// Returns the file name without its directory.
    pub fn name(&self) -> &str {
        self.path.rsplit(['/', '\\']).next().unwrap_or_default()
    }

    /// Returns the image in the form that a symbolizer takes.
    pub fn module(&self) -> Module<'_> {
        Module { path: &self.path, build_id: &self.build_id, windows: self.windows.as_ref() }
    }
}

impl Analysis {
    /// Ends the pass and returns the images whose symbols samples need, by number of samples. Those that need none are
    /// left out: functions that the trace itself names, and images outside all stacks.
    pub fn modules(mut self) -> Vec<ModuleUse> {
        self.samples.finish(&self.processes);
        self.methods.finish();
        let mut uses: BTreeMap<ImageIndex, [u64; 2]> = BTreeMap::new();
        let tree = &self.samples.tree;
        for node in tree.nodes().iter().filter(|node| node.count > 0) {
            let mut nodes = Vec::new();
            let thread = tree.outwards(node, |node| nodes.push(*node));
            let image = |node: &Node| {
                let space = functions::space(node, thread, &self.samples, &self.processes);
                self.image_at(space, node.address)
            };
            if let Some(image) = nodes.first().and_then(image) {
                uses.entry(image).or_default()[0] += node.count;
            }
            let images: BTreeSet<ImageIndex> = nodes.iter().filter_map(image).collect();
            for image in images {
                uses.entry(image).or_default()[1] += node.count;
            }
        }
        let mut modules: Vec<ModuleUse> = self
            .images
            .all()
            .filter_map(|(index, image)| {
                let [samples, stacks] = *uses.get(&index)?;
                Some(ModuleUse {
                    path: image.path.to_string(),
                    build_id: image.build_id.clone(),
                    windows: image.windows.clone(),
                    samples,
                    stacks,
                })
            })
            .collect();
        modules.sort_by(|one, other| {
            (other.samples, other.stacks)
                .cmp(&(one.samples, one.stacks))
                .then_with(|| one.path.cmp(&other.path))
        });
        modules
    }

    /// Returns the number of samples so far.
    pub fn sample_count(&self) -> u64 {
        self.samples.all.count
    }

    /// Returns the image at an address, if the trace does not name the function there.
    fn image_at(&self, space: Space, address: u64) -> Option<ImageIndex> {
        let image = match space {
            Space::Kernel(machine) if self.kernel_functions.find(machine, address).is_some() => None,
            Space::Kernel(machine) => self.images.find_in_kernel(machine, address),
            Space::Process(process, version) if self.methods.find(process, address, version).is_some() => {
                None
            }
            Space::Process(process, _) => self.images.find(process, address, &self.processes),
            Space::Unknown => None,
        };
        image.map(|(image, _)| image)
    }
}
