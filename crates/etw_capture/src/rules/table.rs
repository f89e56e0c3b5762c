//! The table of rules, in memory that the kernel's programs read (`bpf/rules.h`).

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};

use etw_sys::SharedWords;

/// The rules of the code that stacks have led through, for all processes together. Clones share the table.
#[derive(Debug, Clone)]
pub struct RuleTable(Arc<SharedWords>);

/// Number of ways per set. A unit of code has its rules in ways of its set, each of two words: the unit and the rule.
const WAYS: usize = 8;
const SET_BITS: u32 = 16;

impl RuleTable {
    /// Size of the table in words.
    pub(crate) const LEN_WORDS: usize = (2 * WAYS) << SET_BITS;

    /// Creates a table in this memory, which has [`RuleTable::LEN_WORDS`] words.
    pub(crate) fn new(memory: SharedWords) -> RuleTable {
        RuleTable(Arc::new(memory))
    }

    fn ways(&self, unit: u64) -> &[[AtomicU64; 2]] {
        let set = (unit.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - SET_BITS)) as usize;
        &self.0.as_chunks().0[set * WAYS..][..WAYS]
    }

    /// Returns whether there is a rule for a byte of a unit.
    pub(crate) fn has(&self, unit: u64, byte: u8) -> bool {
        let is_it = |[tag, bits]: &[AtomicU64; 2]| {
            tag.load(Relaxed) == unit && super::bytes_of(bits.load(Relaxed)).contains(&byte)
        };
        self.ways(unit).iter().any(is_it)
    }

    /// Stores a rule of a unit. If its set is full, the way with the number `replaced` is overwritten. Returns whether
    /// one was.
    pub(crate) fn put(&self, unit: u64, bits: u64, replaced: usize) -> bool {
        let ways = self.ways(unit);
        let is_there = |[tag, kept]: &[AtomicU64; 2]| tag.load(Relaxed) == unit && kept.load(Relaxed) == bits;
        if ways.iter().any(is_there) {
            return false;
        }
        let free = ways.iter().find(|[tag, _]| tag.load(Relaxed) == 0);
        let [tag, kept] = free.unwrap_or(&ways[replaced % WAYS]);
        // A unit must never be visible with the rule of another one.
        tag.store(0, Release);
        kept.store(bits, Release);
        tag.store(unit, Release);
        free.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::super as rules;
    use super::*;

    #[test]
    fn a_full_set_gives_the_way_that_is_next() {
        let (memory, _) = SharedWords::create("rules", RuleTable::LEN_WORDS).unwrap();
        let table = RuleTable::new(memory);
        let bits = |first: u8| rules::bits(Some(rules::Rule::End), first..=first);
        let ways = WAYS as u8;
        assert!((0..ways).all(|byte| !table.put(7, bits(byte), 0)));
        assert!(!table.put(7, bits(3), 0));
        assert!((0..ways).all(|byte| table.has(7, byte)) && !table.has(7, ways) && !table.has(8, 0));
        assert!(table.put(7, bits(ways), WAYS + 2));
        assert!(table.has(7, ways) && !table.has(7, 2) && table.has(7, 3));
    }
}
