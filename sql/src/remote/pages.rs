//! Which parts of an object are there.

use std::ops::Range;

/// Bytes of a page, the least that is fetched.
const PAGE: u64 = 16 << 10;
/// Missing pages between wanted ones are fetched too if they are at most as many: a request costs more.
const GAP: u64 = 8;
/// Most pages of a request.
const REQUEST: u64 = 256;

/// The pages of an object that were fetched.
#[derive(Debug, Default)]
pub(super) struct Pages {
    bytes: u64,
    /// A bit for each page.
    there: Vec<u64>,
    missing: u64,
}

impl Pages {
    /// Returns those of an object of some size, of which none was fetched.
    pub(super) fn new(bytes: u64) -> Pages {
        let count = bytes.div_ceil(PAGE);
        Pages { bytes, there: vec![0; count.div_ceil(64) as usize], missing: count }
    }

    pub(super) fn are_all(&self) -> bool {
        self.missing == 0
    }

    fn is_there(&self, page: u64) -> bool {
        self.there.get((page / 64) as usize).is_some_and(|bits| bits >> (page % 64) & 1 == 1)
    }

    /// Returns what is to be fetched so that some places are there: each part at most as large as a request.
    pub(super) fn missing(&self, places: impl IntoIterator<Item = Range<u64>>) -> Vec<Range<u64>> {
        if self.missing == 0 {
            return Vec::new();
        }
        let pages = places.into_iter().filter(|place| place.start < place.end.min(self.bytes));
        let pages = pages.flat_map(|place| place.start / PAGE..place.end.min(self.bytes).div_ceil(PAGE));
        let mut wanted: Vec<u64> = pages.filter(|page| !self.is_there(*page)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut requests: Vec<Range<u64>> = Vec::new();
        for page in wanted {
            match requests.last_mut() {
                Some(last)
                    if page - last.end <= GAP
                        && page - last.start < REQUEST
                        && (last.end..page).all(|between| !self.is_there(between)) =>
                {
                    last.end = page + 1;
                }
                _ => requests.push(page..page + 1),
            }
        }
        requests.into_iter().map(|pages| pages.start * PAGE..(pages.end * PAGE).min(self.bytes)).collect()
    }

    /// Adds a part that was fetched. Only its whole pages count, and the end of the object.
    pub(super) fn add(&mut self, part: Range<u64>) {
        let end = if part.end == self.bytes { part.end.div_ceil(PAGE) } else { part.end / PAGE };
        for page in part.start.div_ceil(PAGE)..end {
            if !self.is_there(page)
                && let Some(bits) = self.there.get_mut((page / 64) as usize)
            {
                *bits |= 1 << (page % 64);
                self.missing -= 1;
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "places are ranges")]
mod tests {
    use super::*;

    #[test]
    fn places_are_fetched_once_in_few_requests() {
        let mut pages = Pages::new(1000 * PAGE + 5);
        assert!(!pages.are_all() && !pages.is_there(0));
        // Neighbours are one request, and what lies little apart.
        assert_eq!(pages.missing([5..6, PAGE..PAGE + 1, 9 * PAGE..9 * PAGE + 1]), [0..10 * PAGE]);
        pages.add(0..10 * PAGE);
        assert!(pages.is_there(9) && !pages.is_there(10));
        assert_eq!(pages.missing([5..10 * PAGE]), []);
        // What is there is not fetched again, also between two places.
        assert_eq!(pages.missing([9 * PAGE..12 * PAGE]), [10 * PAGE..12 * PAGE]);
        pages.add(12 * PAGE..13 * PAGE);
        assert_eq!(pages.missing([11 * PAGE..14 * PAGE]), [11 * PAGE..12 * PAGE, 13 * PAGE..14 * PAGE]);
        // A part of a page is not a page.
        pages.add(20 * PAGE + 1..22 * PAGE - 1);
        assert!(!pages.is_there(20) && !pages.is_there(21));
        // Large places are several requests, and the end is a part of a page.
        let rest = pages.missing([0..u64::MAX]);
        assert!(rest.iter().all(|place| place.end - place.start <= REQUEST * PAGE), "{rest:?}");
        assert_eq!(rest.last().unwrap().end, 1000 * PAGE + 5);
        rest.into_iter().for_each(|place| pages.add(place));
        assert!(pages.are_all() && pages.is_there(1000));
        assert!(Pages::new(0).are_all());
        assert_eq!(Pages::new(10).missing([20..30, 3..3]), []);
    }
}
