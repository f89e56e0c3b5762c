//! Names of code in images: from the trace, or else from the files of this machine.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use etw_consumer::Event;
use etw_etl::encode::RecordBuilder;
use etw_symbols::{Frame, IlPlace, Module, SourceLine, Symbol, SymbolError, Symbolizer};

use super::form::Encoder;
use super::identity::ModuleId;
use super::index::CodeIndex;
use crate::maps::HashMap;

/// Names of code in images.
#[derive(Debug, Default)]
pub struct ModuleNames {
    index: CodeIndex,
    kept: Option<Rc<RefCell<FoundNames>>>,
}

/// What files have named, for an embedding.
#[derive(Debug, Default)]
pub struct FoundNames {
    /// By the identity of the image or assembly.
    pub modules: HashMap<ModuleId, FoundModule>,
}

/// What a file has named.
#[derive(Debug, Default)]
pub struct FoundModule {
    /// Name of the file.
    source: String,
    /// Frames and the offset in the function, by offset from the image's base or place in IL code.
    places: BTreeMap<u64, (Vec<Frame>, Option<u64>)>,
}

impl ModuleNames {
    /// Adds the names that an event of the provider for symbols contains, if any.
    pub fn event(&mut self, event: &Event<'_>) {
        self.index.event(event);
    }

    /// Keeps what files name from now on.
    pub fn keep(&mut self, kept: &Rc<RefCell<FoundNames>>) {
        self.kept = Some(Rc::clone(kept));
    }

    /// Returns how many of these offsets, or places in IL code by [`il_place_number`], the trace knows, and the name of the file that
    /// its names are from.
    pub fn count(&self, module: &Module<'_>, places: &BTreeSet<u64>) -> (u64, Option<&Rc<str>>) {
        let Some(code) = self.index.of(module) else { return (0, None) };
        (places.iter().filter(|place| code.has(**place)).count() as u64, Some(code.source()))
    }

    /// Resolves offsets from an image's base, in their order, and returns why a file could not be read that some of them
    /// need.
    pub(crate) fn resolve(
        &self,
        module: &Module<'_>,
        offsets: &[u64],
        symbolizer: &Symbolizer,
    ) -> (Vec<Option<Symbol>>, Option<SymbolError>) {
        let ask = |offsets: &[u64]| {
            let found = symbolizer.resolve(module, offsets)?;
            if self.kept.is_some() {
                let places = offsets.iter().zip(&found);
                let places = places.map(|(offset, symbol)| match symbol {
                    Some(symbol) if symbol.is_named() => (*offset, (symbol.frames.clone(), symbol.offset)),
                    // Another machine may have the symbols that this one lacks.
                    _ => (*offset, (Vec::new(), None)),
                });
                self.keep_places(module, places, symbolizer);
            }
            Ok(found)
        };
        self.or_ask(
            module,
            offsets,
            |offset| *offset,
            |symbol| Some(symbol).filter(|symbol| !symbol.frames.is_empty()),
            ask,
        )
    }

    /// Resolves places in the IL code of an assembly, as [`ModuleNames::resolve`].
    pub(crate) fn lines(
        &self,
        module: &Module<'_>,
        places: &[IlPlace],
        symbolizer: &Symbolizer,
    ) -> (Vec<Option<SourceLine>>, Option<SymbolError>) {
        let ask = |places: &[IlPlace]| {
            let found = symbolizer.lines(module, places)?;
            if self.kept.is_some() {
                let lines = places.iter().zip(&found).map(|(place, line)| {
                    let frame = line.as_ref().map(|line| Frame {
                        function: String::new(),
                        file: Some(line.file.clone()),
                        line: Some(line.line),
                    });
                    (il_place_number(*place), (frame.into_iter().collect(), None))
                });
                self.keep_places(module, lines, symbolizer);
            }
            Ok(found)
        };
        let line = |symbol: Symbol| {
            let Frame { file, line, .. } = symbol.frames.into_iter().next()?;
            Some(SourceLine { file: file?, line: line? })
        };
        self.or_ask(module, places, |place| il_place_number(*place), line, ask)
    }

    /// Returns what the trace has for each place, and asks for the rest.
    fn or_ask<P: Copy, T: Clone>(
        &self,
        module: &Module<'_>,
        places: &[P],
        key: impl Fn(&P) -> u64,
        convert: impl Fn(Symbol) -> Option<T>,
        ask: impl Fn(&[P]) -> Result<Vec<Option<T>>, SymbolError>,
    ) -> (Vec<Option<T>>, Option<SymbolError>) {
        let embedded = if self.index.is_empty() { None } else { self.index.of(module) };
        let Some(embedded) = embedded else {
            return match ask(places) {
                Ok(found) => (found, None),
                Err(error) => (vec![None; places.len()], Some(error)),
            };
        };
        let mut found: Vec<Option<T>> = Vec::with_capacity(places.len());
        let mut missing: Vec<(usize, P)> = Vec::new();
        let mut has_unknown = false;
        for (number, place) in places.iter().enumerate() {
            let symbol = embedded.find(key(place));
            has_unknown |= symbol.is_none();
            found.push(symbol.and_then(&convert));
            // A file of this machine may name what the file of another machine did not.
            if found.last().is_some_and(Option::is_none) {
                missing.push((number, *place));
            }
        }
        if missing.is_empty() {
            return (found, None);
        }
        let rest: Vec<P> = missing.iter().map(|(_, place)| *place).collect();
        match ask(&rest) {
            Ok(named) => {
                for ((number, _), named) in missing.into_iter().zip(named) {
                    if let Some(found) = found.get_mut(number) {
                        *found = named;
                    }
                }
                (found, None)
            }
            Err(error) => (found, Some(error).filter(|_| has_unknown)),
        }
    }

    fn keep_places(
        &self,
        module: &Module<'_>,
        places: impl Iterator<Item = (u64, (Vec<Frame>, Option<u64>))>,
        symbolizer: &Symbolizer,
    ) {
        let Some(kept) = &self.kept else { return };
        let mut kept = kept.borrow_mut();
        let of_module = kept.modules.entry(ModuleId::from_module(module)).or_default();
        if of_module.source.is_empty() {
            let file = symbolizer.locate(module).ok();
            let name = file.as_ref().and_then(|path| path.file_name()).unwrap_or_default();
            of_module.source = name.to_string_lossy().into_owned();
        }
        of_module.places.extend(places);
    }
}

impl FoundModule {
    /// Returns the names at offsets in the image that a file of this name has.
    pub fn from_symbols(source: &str, symbols: impl IntoIterator<Item = (u64, Symbol)>) -> FoundModule {
        let named = symbols.into_iter().filter(|(_, symbol)| symbol.is_named());
        let places = named.map(|(offset, symbol)| (offset, (symbol.frames, symbol.offset)));
        FoundModule { source: source.to_owned(), places: places.collect() }
    }

    /// Returns the number of addresses that have names.
    pub fn named(&self) -> usize {
        self.places.values().filter(|(frames, _)| !frames.is_empty()).count()
    }

    /// Returns the names as events of at most this length, and the number of addresses whose names are too long for one.
    pub fn records(&self, id: &ModuleId, max_bytes: usize) -> (Vec<RecordBuilder>, u64) {
        let mut encoder = Encoder::new(id, &self.source, max_bytes);
        for (offset, (frames, offset_in_function)) in &self.places {
            encoder.add(*offset, frames, *offset_in_function);
        }
        let skipped = encoder.skipped;
        (encoder.finish(), skipped)
    }
}

/// Returns the number that stands for a place in IL code.
pub fn il_place_number(place: IlPlace) -> u64 {
    u64::from(place.token) << 32 | u64::from(place.offset)
}
