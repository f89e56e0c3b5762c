//! The programs that processes run. Those of Windows run in Wine's loader, which is the image of their process.

use std::borrow::Cow;

/// The loaders of Wine, one of which may be a script that runs another.
const LOADERS: [&[u8]; 5] = [b"wine", b"wine32", b"wine64", b"wine-preloader", b"wine64-preloader"];

/// Whether an image, by its path or file name, loads programs of Windows.
pub fn is_wine_loader(image: &[u8]) -> bool {
    LOADERS.contains(&program_file_name(image))
}

/// Returns the path of the program that a process with this image runs: the image's or, if that is a loader of Wine, the path or
/// name of the Windows program in the arguments, each of which ends with a NUL.
///
/// ```
/// let path = |image: &'static [u8], arguments| etw_sys::program_path(image, arguments);
/// assert_eq!(*path(b"/bin/bash", b"wine64\0a.exe\0"), *b"/bin/bash");
/// assert_eq!(*path(b"/usr/lib/wine/wine64", b"C:\\tools\\node.exe\0wine\0"), *b"C:\\tools\\node.exe");
/// assert_eq!(*path(b"wine64-preloader", b"/usr/lib/wine/wine64\0ping\0-n\0"), *b"ping.exe");
/// assert_eq!(*path(b"/usr/bin/wine", b"/bin/sh\0-e\0/usr/bin/wine\0a.exe\0"), *b"a.exe");
/// assert_eq!(*path(b"wine64", b""), *b"wine64");
/// ```
pub fn program_path<'a>(image: &'a [u8], arguments: &'a [u8]) -> Cow<'a, [u8]> {
    if !is_wine_loader(image) {
        return image.into();
    }
    let mut words = arguments.split(|byte| *byte == 0);
    // A loader replaces its arguments by those of the program once that runs; a script's begin with its interpreter.
    let first = words.next().unwrap_or_default();
    let program = if is_wine_loader(first) {
        words.find(|word| !is_wine_loader(word))
    } else if first.starts_with(b"/") {
        words.skip_while(|word| !is_wine_loader(word)).find(|word| !is_wine_loader(word))
    } else {
        Some(first)
    };
    match program {
        None | Some([]) => image.into(),
        Some(path) if program_file_name(path).contains(&b'.') => path.into(),
        Some(path) => [path, b".exe"].concat().into(),
    }
}

/// Returns the part of a path of Linux or Windows after its last separator.
pub fn program_file_name(path: &[u8]) -> &[u8] {
    let separators: &[u8] = if path.starts_with(b"/") || path.starts_with(b".") { b"/" } else { br"/\" };
    path.rsplit(|byte| separators.contains(byte)).next().unwrap_or_default()
}
