//! Security identifiers.

use std::fmt;

use crate::Fields;

/// A security identifier as it lies in memory: `u8` revision 1, `u8` sub-authority count, six bytes of authority
/// (big-endian), then the sub-authorities as `u32`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Sid<'a>(&'a [u8]);

impl<'a> Sid<'a> {
    /// Parses the SID at the start of `bytes`, which may be longer; `None` if it does not fit.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Option<Sid<'a>> {
        let count = usize::from(bytes.u8_at(1)?);
        bytes.get(..8 + 4 * count).map(Sid)
    }

    /// Returns the bytes of the SID.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }
}

impl fmt::Display for Sid<'_> {
    /// Formats as `S-1-5-18`; authorities of 2^32 and above are hexadecimal, as Windows writes them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority =
            self.0.get(2..8).unwrap_or_default().iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
        write!(f, "S-{}-", self.0.first().copied().unwrap_or(0))?;
        if authority >> 32 == 0 {
            write!(f, "{authority}")?
        } else {
            write!(f, "{authority:#014x}")?
        }
        for sub in self.0.get(8..).unwrap_or_default().chunks_exact(4) {
            write!(f, "-{}", sub.u32_at(0).unwrap_or(0))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Sid<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text() {
        let check = |bytes: &[u8], text: &str| assert_eq!(Sid::parse(bytes).unwrap().to_string(), text);
        check(&[1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0, 9, 9], "S-1-5-18");
        check(&[1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 32, 2, 0, 0], "S-1-5-32-544");
        check(&[1, 0, 1, 0, 0, 0, 0, 5], "S-1-0x010000000005");
        assert_eq!(Sid::parse(&[1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0]), None);
        assert_eq!(Sid::parse(&[]), None);
    }
}
