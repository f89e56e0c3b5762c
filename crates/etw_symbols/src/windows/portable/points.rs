//! Sequence points: where in IL code the lines of a method start.

use super::heap::Cursor;

/// A place in IL code from which on a line applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) offset: u32,
    /// Row of the document.
    pub(super) document: u32,
    /// The line, counted from 1; `None` for code that debuggers hide.
    pub(super) line: Option<u32>,
}

/// The points of a method, by offset. Ends at damage.
pub(super) struct Points<'b> {
    cursor: Cursor<'b>,
    document: u32,
    /// Offset of the last point.
    offset: Option<u32>,
    /// Line and column of the last point that is not hidden.
    place: Option<[u32; 2]>,
}

impl<'b> Points<'b> {
    /// Returns the points of a blob; `document` is that of the method, or 0 if the method is in several.
    pub(super) fn new(document: u32, blob: &'b [u8]) -> Points<'b> {
        let mut cursor = Cursor(blob);
        let _local_signature = cursor.number();
        let document = match document {
            0 => cursor.number().unwrap_or(0),
            document => document,
        };
        Points { cursor, document, offset: None, place: None }
    }

    fn read(&mut self) -> Option<Point> {
        let delta = loop {
            let delta = self.cursor.number()?;
            if delta != 0 || self.offset.is_none() {
                break delta;
            }
            self.document = self.cursor.number()?;
        };
        let offset = self.offset.unwrap_or(0).checked_add(delta)?;
        self.offset = Some(offset);
        let lines = self.cursor.number()?;
        let columns = match lines {
            0 => i64::from(self.cursor.number()?),
            _ => i64::from(self.cursor.signed()?),
        };
        let mut line = None;
        if (lines, columns) != (0, 0) {
            let place = match self.place {
                None => [self.cursor.number()?, self.cursor.number()?],
                Some([line, column]) => [
                    line.checked_add_signed(self.cursor.signed()?)?,
                    column.checked_add_signed(self.cursor.signed()?)?,
                ],
            };
            self.place = Some(place);
            line = Some(place[0]);
        }
        Some(Point { offset, document: self.document, line })
    }
}

impl Iterator for Points<'_> {
    type Item = Point;

    fn next(&mut self) -> Option<Point> {
        let point = self.read();
        if point.is_none() {
            self.cursor = Cursor(&[]);
        }
        point
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_of_several_documents() {
        let blob: &[&[u8]] = &[
            // Signature, first document.
            &[0, 2],
            // Offset 0, lines 10 to 10, columns 5 to 9.
            &[0, 0, 4, 10, 5],
            // Hidden at 3.
            &[3, 0, 0],
            // Offset 7 (+4), two lines, two columns less (-2), three lines up (-3), column +1.
            &[4, 2, 0x7D, 0x7B, 2],
            // The third document; offset 9, line +100 (two bytes).
            &[0, 3, 2, 0, 1, 0x80, 0xC8, 0],
        ];
        let blob = blob.concat();
        let point = |offset, document, line| Point { offset, document, line };
        let expected =
            [point(0, 2, Some(10)), point(3, 2, None), point(7, 2, Some(7)), point(9, 3, Some(107))];
        assert_eq!(Points::new(0, &blob).collect::<Vec<_>>(), expected);
        for len in 0..blob.len() {
            let cut: Vec<Point> = Points::new(0, &blob[..len]).collect();
            assert_eq!(cut, expected[..cut.len()], "{len}");
        }
        // Up from line 1: damaged.
        assert_eq!(Points::new(1, &[0, 0, 0, 1, 1, 1, 2, 0, 1, 0x7B, 0]).count(), 1);
    }
}
