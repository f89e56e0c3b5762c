//! Releases of Windows, and sets of them.

use std::ops::RangeInclusive;

/// A release of Windows whose schemas are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The build number, as trace headers have it.
    pub build: u32,
    /// The usual name: `11 24H2`.
    pub name: String,
}

/// A set of releases, by their numbers in [`Pack::releases`](crate::Pack::releases).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Releases(pub u32);

/// Releases without schemas of their own in the pack, by name. Source: Microsoft's list of build numbers.
const OTHER_RELEASES: [(&str, u32); 10] = [
    ("7", 7600),
    ("7 SP1", 7601),
    ("8", 9200),
    ("8.1", 9600),
    ("10 21H2", 19_044),
    ("10 22H2", 19_045),
    ("Server 2016", 14_393),
    ("Server 2019", 17_763),
    ("Server 2022", 20_348),
    ("Server 2025", 26_100),
];

/// Returns the build number of a release: a number, or a name such as `11 24H2` or `10-22h2`.
pub(crate) fn build_of(releases: &[Release], text: &str) -> Option<u32> {
    let plain = |name: &str| {
        name.to_lowercase().replace(['-', '_'], " ").trim_start_matches("windows").trim().to_owned()
    };
    let wanted = plain(text);
    let known = releases.iter().map(|release| (release.name.as_str(), release.build));
    let named = known.chain(OTHER_RELEASES).find(|(name, _)| plain(name) == wanted).map(|(_, build)| build);
    // Smaller numbers are versions, not builds.
    named.or_else(|| wanted.parse().ok().filter(|build| *build >= 1_000))
}

/// Returns the number of the release with this build, or of the last one before it, else of the first.
pub(crate) fn nearest(builds: impl Iterator<Item = u32>, build: u32) -> usize {
    builds.take_while(|known| *known <= build).count().saturating_sub(1)
}

/// Builds of one set of system files: later releases only enable what earlier ones have. Source: Microsoft's pages on
/// feature updates by an enablement package.
const SAME_FILES: [(u32, u32); 3] = [(18_362, 18_363), (19_041, 19_045), (22_621, 22_631)];

/// Returns the builds, the first and the last, whose layouts are those of a build.
pub(crate) fn same_layouts(build: u32) -> RangeInclusive<u32> {
    let family = SAME_FILES.iter().find(|(first, last)| (*first..=*last).contains(&build));
    family.map_or(build..=build, |(first, last)| *first..=*last)
}

impl Releases {
    /// Returns whether the release with this number is in the set.
    pub fn contains(self, number: usize) -> bool {
        number < 32 && self.0 >> number & 1 != 0
    }

    /// Adds the release with this number; numbers from 32 on are ignored.
    pub fn add(&mut self, number: usize) {
        if number < 32 {
            self.0 |= 1 << number;
        }
    }

    /// Returns the releases of both sets.
    #[must_use]
    pub fn union(self, other: Releases) -> Releases {
        Releases(self.0 | other.0)
    }

    /// Returns the numbers in the set, ascending.
    pub fn numbers(self) -> impl Iterator<Item = usize> {
        (0..32).filter(move |number| self.contains(*number))
    }

    /// Returns how well the set suits a release: less is better. The release itself and those before it, the latest
    /// first, suit better than those after it, the earliest first.
    pub(crate) fn distance(self, number: usize) -> usize {
        let before = self.numbers().filter(|known| *known <= number).last();
        match (before, self.numbers().next()) {
            (Some(before), _) => number - before,
            (None, Some(after)) => 32 + after,
            (None, None) => usize::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_have_names_and_numbers() {
        let releases = [(10_240, "10 1507"), (19_043, "10 21H1"), (26_100, "11 24H2")];
        let releases = releases.map(|(build, name)| Release { build, name: name.to_owned() });
        let check = |text, expected| assert_eq!(build_of(&releases, text), expected, "{text}");
        check("11 24H2", Some(26_100));
        check("Windows-11-24h2", Some(26_100));
        check("10-22H2", Some(19_045));
        check("7", Some(7_600));
        check("22631", Some(22_631));
        check("12", None);
        check("10 23H9", None);
        let nearest = |build| nearest(releases.iter().map(|release| release.build), build);
        assert_eq!([7_600, 10_240, 19_045, 26_100, 99_999].map(nearest), [0, 0, 1, 2, 2]);
    }

    #[test]
    fn releases_by_enablement_packages_have_the_same_layouts() {
        assert!(same_layouts(19_045).contains(&19_043));
        assert!(!same_layouts(19_045).contains(&22_000));
        assert_eq!(same_layouts(9_600), 9_600..=9_600);
    }

    #[test]
    fn the_nearest_release_before_goes_first() {
        let set = |numbers: &[usize]| {
            let mut set = Releases::default();
            numbers.iter().for_each(|number| set.add(*number));
            set
        };
        let check = |number, best: &[usize], other: &[usize]| {
            let (best, other) = (set(best).distance(number), set(other).distance(number));
            assert!(best < other, "release {number}: {best} {other}");
        };
        check(5, &[5], &[4, 6]);
        check(5, &[1, 4], &[3, 6]);
        check(5, &[0], &[6]);
        check(5, &[6, 9], &[7]);
        check(5, &[31], &[]);
    }
}
