//! Maps from the machine code of methods to their IL code.
//!
//! The event with a map does not say which code of the method it is about, and a method may be compiled several times.
//! The runtime writes it right after the load of the code; rundowns at the end write it right before the method.

use super::event::ClrEvent;
use super::methods::MethodIndex;
use crate::maps::HashMap;
use crate::processes::ThreadIndex;

/// Maximum number of entries of all maps. Beyond it, methods have no lines.
const MAX_ENTRIES: usize = 1 << 22;

/// Offsets in machine code and the offsets in IL code that start there, sorted.
pub(super) type IlMap = Box<[(u32, u32)]>;

/// Pairs maps with methods.
#[derive(Debug, Default)]
pub(super) struct IlMaps {
    entries: usize,
    /// The last method that each thread described, and its id.
    described: HashMap<ThreadIndex, (u64, MethodIndex)>,
    /// The map of each thread that precedes its method, and the method's id.
    pending: HashMap<ThreadIndex, (u64, IlMap)>,
}

impl IlMaps {
    /// Adds an event with a map (MethodILToNativeMap). Returns the map if it belongs to a method before it.
    ///
    /// `is_first` says that the method comes after its map, `has_map` whether a method has one already.
    pub(super) fn map(
        &mut self,
        event: &ClrEvent<'_>,
        is_first: bool,
        has_map: impl Fn(MethodIndex) -> bool,
    ) -> Option<(MethodIndex, IlMap)> {
        let id = event.get::<u64>("MethodID")?;
        let map = self.read(event)?;
        match self.described.get(&event.thread) {
            Some((described, method)) if !is_first && *described == id && !has_map(*method) => {
                Some((*method, map))
            }
            _ => {
                self.pending.insert(event.thread, (id, map));
                None
            }
        }
    }

    /// Adds an event that describes a method. Returns the map before it, if that is of this method.
    pub(super) fn method(&mut self, thread: ThreadIndex, id: u64, method: MethodIndex) -> Option<IlMap> {
        self.described.insert(thread, (id, method));
        let (of, map) = self.pending.remove(&thread)?;
        (of == id).then_some(map)
    }

    fn read(&mut self, event: &ClrEvent<'_>) -> Option<IlMap> {
        let [il, native] = ["ILOffsets", "NativeOffsets"].map(|name| event.get::<Vec<u32>>(name));
        let (il, native) = (il?, native?);
        if native.len() > MAX_ENTRIES - self.entries {
            return None;
        }
        // Negative offsets in IL code stand for the start and end of the method, and for code without IL.
        let places = native.into_iter().zip(il).filter(|(_, il)| i32::try_from(*il).is_ok());
        let mut map: Vec<(u32, u32)> = places.collect();
        map.sort_by_key(|(native, _)| *native);
        self.entries += map.len();
        Some(map.into())
    }
}

/// Returns the offset in IL code for one in machine code; before the first entry, that of the first one.
pub(super) fn il_offset(map: &[(u32, u32)], native: u32) -> Option<u32> {
    let after = map.partition_point(|(start, _)| *start <= native);
    map.get(after.saturating_sub(1)).map(|(_, il)| *il)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_between_entries_is_of_the_one_before() {
        let map = [(8, 0), (20, 7), (31, 3)];
        let offsets = [0, 8, 19, 20, 30, 31, 1000].map(|native| il_offset(&map, native));
        assert_eq!(offsets, [0, 0, 0, 7, 7, 3, 3].map(Some));
        assert_eq!(il_offset(&[], 3), None);
    }
}
