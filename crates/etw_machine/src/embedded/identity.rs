//! What identifies the image that names belong to.

use etw_symbols::{Module, PdbId, WindowsImage};

/// Identity of an image or assembly, as a trace has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ModuleId {
    pub(crate) path: String,
    pub(crate) build_id: Vec<u8>,
    pub(crate) windows: Option<WindowsImage>,
    pub(crate) is_managed: bool,
}

impl ModuleId {
    /// Returns the identity of a module.
    pub fn from_module(module: &Module<'_>) -> ModuleId {
        ModuleId {
            path: module.path.to_owned(),
            build_id: module.build_id.to_vec(),
            windows: module.windows.cloned(),
            is_managed: module.is_managed,
        }
    }

    /// Returns a key that puts images in an order.
    pub fn order(&self) -> (&str, &[u8], Option<(u32, u32, Option<&PdbId>)>, bool) {
        let windows = self.windows.as_ref();
        let windows = windows.map(|image| (image.time_stamp, image.len_bytes, image.pdb.as_ref()));
        (&self.path, &self.build_id, windows, self.is_managed)
    }

    pub(crate) fn module(&self) -> Module<'_> {
        Module {
            path: &self.path,
            build_id: &self.build_id,
            windows: self.windows.as_ref(),
            is_managed: self.is_managed,
        }
    }
}
