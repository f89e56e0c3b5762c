//! The sizes of a heap around a garbage collection.

use etw_schema::Struct;

use crate::managed::ClrEvent;

/// Generations 0 to 2, the large object heap and the pinned object heap.
pub const GENERATIONS: usize = 5;
/// Those of a runtime without a pinned object heap.
const OLD_GENERATIONS: usize = 4;

/// The sizes around a garbage collection, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Heap {
    /// Sizes after it; unknown without a GCHeapStats event.
    pub after: [Option<u64>; GENERATIONS],
    /// Bytes that survived in each generation.
    pub promoted: [Option<u64>; GENERATIONS],
    /// Details; unknown without a GCPerHeapHistory event.
    pub details: [Option<Generation>; GENERATIONS],
}

/// A generation around a garbage collection, summed over all heaps of a server.
#[derive(Debug, Clone, Copy, Default)]
pub struct Generation {
    /// Size before it in bytes.
    pub before: u64,
    free_before: u64,
    /// Size after it in bytes.
    pub after: u64,
    /// Bytes of that which are free.
    pub free_after: u64,
    survived: u64,
}

impl Heap {
    /// Whether there was a GCHeapStats event.
    pub(crate) fn has_stats(&self) -> bool {
        self.after.iter().any(Option::is_some)
    }

    /// Sets the sizes of a GCHeapStats event.
    pub(crate) fn set_stats(&mut self, event: &ClrEvent<'_>) {
        for ((after, promoted), number) in self.after.iter_mut().zip(&mut self.promoted).zip(0..) {
            *after = event.get(&format!("GenerationSize{number}"));
            *promoted = event.get(&format!("TotalPromotedSize{number}"));
        }
    }

    /// Adds the sizes of a heap (GCPerHeapHistory).
    pub(crate) fn add_details(&mut self, event: &ClrEvent<'_>) {
        // In the earlier layout of .NET Framework the fifth member is another view of generation 0.
        let (generations, count) = match event.get::<Vec<Struct<'_>>>("Values") {
            Some(generations) => (generations, GENERATIONS),
            None => (event.get::<Vec<Struct<'_>>>("Generations").unwrap_or_default(), OLD_GENERATIONS),
        };
        for (generation, sum) in generations.iter().take(count).zip(&mut self.details) {
            let sum = sum.get_or_insert_default();
            let get = |name: &str| generation.get::<u64>(name).unwrap_or(0);
            let survived = generation.get::<u64>("Out");
            let survived =
                survived.unwrap_or_else(|_| get("PinnedSurv").saturating_add(get("NonePinnedSurv")));
            let values = [
                (&mut sum.before, get("SizeBefore")),
                (&mut sum.free_before, get("FreeListBefore").saturating_add(get("FreeObjBefore"))),
                (&mut sum.after, get("SizeAfter")),
                (&mut sum.free_after, get("FreeListAfter").saturating_add(get("FreeObjAfter"))),
                (&mut sum.survived, survived),
            ];
            values.into_iter().for_each(|(sum, value)| *sum = sum.saturating_add(value));
        }
    }

    /// Returns the sum of all known generations, or `None` if none is known.
    pub fn sum(values: impl IntoIterator<Item = Option<u64>>) -> Option<u64> {
        values.into_iter().flatten().reduce(u64::saturating_add)
    }

    /// Returns the survived and the used bytes of the generations up to the collected one.
    pub fn survival(&self, generation: u32) -> (u64, u64) {
        let collected =
            self.details.iter().enumerate().filter(|(number, _)| is_collected(*number, generation));
        let parts = collected.filter_map(|(_, details)| details.as_ref().map(Generation::survival));
        parts.fold((0, 0), |(survived, used), part| {
            (survived.saturating_add(part.0), used.saturating_add(part.1))
        })
    }
}

impl Generation {
    /// Returns the survived bytes, and those of objects before.
    pub fn survival(&self) -> (u64, u64) {
        (self.survived, self.before.saturating_sub(self.free_before))
    }
}

/// Whether a collection of a generation includes another one; that of generation 2 is of everything.
pub fn is_collected(number: usize, generation: u32) -> bool {
    generation >= 2 || number as u64 <= u64::from(generation)
}
