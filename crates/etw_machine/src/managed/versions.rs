//! Code at one address over time.
//!
//! A runtime removes methods and puts others in their place, so an address alone does not identify a method. Samples
//! are counted by address and version: the number of the last change of the code there. Names are found at the end,
//! since methods from before the trace are described there.

use std::collections::BTreeMap;

use crate::maps::HashMap;
use crate::processes::ProcessIndex;

/// Maximum number of remembered changes. Beyond it, code at user addresses has no version, and methods no names.
const MAX_CHANGES: usize = 1 << 22;

/// The last change of the code at an address: the code went, or other code came after it. 0 if there was none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CodeVersion(u32);

impl CodeVersion {
    /// The version of code after more changes than are remembered.
    pub(crate) const UNKNOWN: CodeVersion = CodeVersion(u32::MAX);
}

/// The changes of code in the memory of all processes.
#[derive(Debug, Default)]
pub struct CodeVersions {
    last: CodeVersion,
    of_process: HashMap<ProcessIndex, Changes>,
    count: usize,
}

/// The changes in a process.
#[derive(Debug, Default)]
struct Changes {
    last: CodeVersion,
    /// Ranges without overlaps by start: the end, and the changes of the range in order.
    ranges: BTreeMap<u64, (u64, Vec<CodeVersion>)>,
}

impl CodeVersions {
    /// Adds a change of the code between two addresses; returns its number.
    pub(crate) fn change(&mut self, process: ProcessIndex, start: u64, end: u64) -> CodeVersion {
        if self.count >= MAX_CHANGES || start >= end {
            return CodeVersion::UNKNOWN;
        }
        self.last.0 += 1;
        let changes = self.of_process.entry(process).or_default();
        changes.last = self.last;
        self.count += changes.add(start, end, self.last);
        self.last
    }

    /// Returns the last change so far in a process, or in all if it is unknown.
    #[inline]
    pub fn now(&self, process: Option<ProcessIndex>) -> CodeVersion {
        if self.count >= MAX_CHANGES {
            return CodeVersion::UNKNOWN;
        }
        match process {
            _ if self.of_process.is_empty() => CodeVersion::default(),
            Some(process) => self.of_process.get(&process).map_or(CodeVersion::default(), |of| of.last),
            None => self.last,
        }
    }

    /// Returns the version that an address had when `then` was the last change.
    #[inline]
    pub fn at(&self, process: Option<ProcessIndex>, address: u64, then: CodeVersion) -> CodeVersion {
        if then == CodeVersion::default() || then == CodeVersion::UNKNOWN {
            return then;
        }
        let changes = process.and_then(|process| self.of_process.get(&process));
        changes.map_or(CodeVersion::default(), |changes| changes.at(address, then))
    }

    /// Whether there was a change anywhere between two addresses.
    pub(crate) fn has_changed(&self, process: ProcessIndex, start: u64, end: u64) -> bool {
        let last = self.of_process.get(&process).and_then(|of| of.ranges.range(..end).next_back());
        last.is_some_and(|(_, (last, _))| *last > start)
    }

    /// Whether there were more changes than are remembered.
    pub fn is_full(&self) -> bool {
        self.count >= MAX_CHANGES
    }
}

impl Changes {
    /// Adds a change; returns how often numbers of changes were stored for it.
    fn add(&mut self, start: u64, end: u64, version: CodeVersion) -> usize {
        let mut count = self.split(start) + self.split(end);
        let (mut at, mut gaps) = (start, Vec::new());
        for (from, (to, versions)) in self.ranges.range_mut(start..end) {
            if at < *from {
                gaps.push((at, *from));
            }
            at = *to;
            versions.push(version);
            count += 1;
        }
        if at < end {
            gaps.push((at, end));
        }
        count += gaps.len();
        self.ranges.extend(gaps.into_iter().map(|(from, to)| (from, (to, vec![version]))));
        count
    }

    /// Splits the range around an address; returns how many numbers were copied.
    fn split(&mut self, address: u64) -> usize {
        let before = self.ranges.range_mut(..address).next_back();
        let Some((_, (end, versions))) = before.filter(|(_, (end, _))| *end > address) else { return 0 };
        let (rest, count) = ((*end, versions.clone()), versions.len());
        *end = address;
        self.ranges.insert(address, rest);
        count
    }

    fn at(&self, address: u64, then: CodeVersion) -> CodeVersion {
        let Some((_, (end, versions))) = self.ranges.range(..=address).next_back() else {
            return CodeVersion::default();
        };
        let after = versions.partition_point(|version| *version <= then);
        let last = after.checked_sub(1).filter(|_| address < *end).and_then(|last| versions.get(last));
        last.copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_version_of_its_last_change() {
        let mut versions = CodeVersions::default();
        let (one, other) = (ProcessIndex(1), ProcessIndex(2));
        let zero = CodeVersion::default();
        assert_eq!(versions.now(Some(one)), zero);
        let first = versions.change(one, 0x1000, 0x2000);
        let second = versions.change(one, 0x1800, 0x3000);
        let third = versions.change(other, 0x1000, 0x2000);
        assert_eq!(
            (versions.now(Some(one)), versions.now(Some(other)), versions.now(None)),
            (second, third, third)
        );
        let check = |address, then, expected| {
            assert_eq!(versions.at(Some(one), address, then), expected, "{address:#x} {then:?}");
        };
        assert!(versions.has_changed(one, 0x2FFF, 0x5000) && !versions.has_changed(one, 0x3000, 0x5000));
        assert!(!versions.has_changed(one, 0, 0x1000) && versions.has_changed(one, 0, 0x9000));
        check(0xFFF, second, zero);
        check(0x1000, zero, zero);
        check(0x1000, second, first);
        check(0x17FF, third, first);
        check(0x1800, first, first);
        check(0x1800, second, second);
        check(0x2FFF, first, zero);
        check(0x2FFF, third, second);
        check(0x3000, third, zero);
        check(0x1000, CodeVersion::UNKNOWN, CodeVersion::UNKNOWN);
        assert_eq!(versions.at(None, 0x1000, third), zero);
        assert_eq!(versions.change(one, 5, 5), CodeVersion::UNKNOWN, "empty");
    }
}
