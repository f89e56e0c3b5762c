//! Text as UTF-16 with a zero at its end.

use std::io;

/// Returns a text as UTF-16 with a zero at its end.
///
/// # Errors
///
/// Returns `InvalidInput` if the text contains a zero.
pub(super) fn wide(text: &str) -> io::Result<Vec<u16>> {
    if text.contains('\0') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a text with a zero in it"));
    }
    Ok(text.encode_utf16().chain([0]).collect())
}

/// Returns the text up to the first zero.
pub(super) fn text_of(units: &[u16]) -> String {
    let end = units.iter().position(|unit| *unit == 0).unwrap_or(units.len());
    String::from_utf16_lossy(units.get(..end).unwrap_or_default())
}

/// Copies a text with its zero into a place of fixed size.
///
/// # Errors
///
/// Returns `InvalidInput` if it does not fit, or contains a zero.
pub(super) fn put(place: &mut [u16], text: &str) -> io::Result<()> {
    let units = wide(text)?;
    let place = place.get_mut(..units.len()).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "a name or path of more than 1023 characters")
    })?;
    place.copy_from_slice(&units);
    Ok(())
}
