//! Functions and lines from DWARF.

use std::borrow::Cow;
use std::convert::Infallible;

use gimli::{DwarfSections, EndianSlice, RunTimeEndian};

use crate::demangle;
use crate::elf::Elf;
use crate::frame::Frame;
use crate::guard::guarded;

/// The bytes of a file's DWARF sections.
pub(crate) struct Sections<'d> {
    own: DwarfSections<Cow<'d, [u8]>>,
    shared: Option<DwarfSections<Cow<'d, [u8]>>>,
    endian: RunTimeEndian,
}

impl<'d> Sections<'d> {
    /// Loads the sections of a file, and of the file that it shares debug information with.
    pub(crate) fn new(elf: &Elf<'d>, shared: Option<&Elf<'d>>) -> Sections<'d> {
        let endian = if elf.is_big_endian() { RunTimeEndian::Big } else { RunTimeEndian::Little };
        Sections { own: load(elf), shared: shared.map(load), endian }
    }

    /// Returns an index of functions by address; `None` if the DWARF is damaged.
    pub(crate) fn context(&self) -> Option<Context<'_>> {
        let borrow = |section| EndianSlice::new(Cow::as_ref(section), self.endian);
        let dwarf = self.own.borrow_with_sup(self.shared.as_ref(), borrow);
        guarded(|| addr2line::Context::from_dwarf(dwarf)).ok().map(|context| Context { context })
    }
}

fn load<'d>(elf: &Elf<'d>) -> DwarfSections<Cow<'d, [u8]>> {
    match DwarfSections::load(|id| Ok::<_, Infallible>(elf.section(id.name()))) {
        Ok(sections) => sections,
        Err(never) => match never {},
    }
}

/// An index of functions by address.
pub(crate) struct Context<'s> {
    context: addr2line::Context<EndianSlice<'s, RunTimeEndian>>,
}

impl Context<'_> {
    /// Returns the functions at an address: inlined functions first, each followed by the function that it is inlined
    /// into. Empty if DWARF describes no function there, or is damaged.
    pub(crate) fn find(&self, address: u64) -> Vec<Frame> {
        guarded(|| Ok::<_, Infallible>(self.find_checked(address))).unwrap_or_default()
    }

    fn find_checked(&self, address: u64) -> Vec<Frame> {
        let mut found = Vec::new();
        let Ok(mut frames) = self.context.find_frames(address).skip_all_loads() else { return found };
        while let Ok(Some(frame)) = frames.next() {
            let Some(function) = frame.function else { return Vec::new() };
            let Ok(name) = function.raw_name() else { return Vec::new() };
            let location = frame.location.as_ref();
            found.push(Frame {
                function: demangle(&name).into_owned(),
                file: location.and_then(|location| location.file).map(str::to_owned),
                line: location.and_then(|location| location.line),
            });
        }
        found
    }
}
