//! The programs that processes run. Those of Windows run in Wine's loader, which is the image of their process.

use std::borrow::Cow;
use std::path::Path;

/// The loaders of Wine.
const LOADERS: [&[u8]; 5] = [b"wine", b"wine32", b"wine64", b"wine-preloader", b"wine64-preloader"];

/// Whether a running process, whose image has this path or file name, is one of Wine: its arguments and its name are then those
/// of a Windows program.
///
/// Only root's images count, or everybody could hide the path of a program by calling it like a loader.
pub fn is_of_wine(process_id: u32, image: &[u8]) -> bool {
    is_loader(image) && is_image_of_root(process_id)
}

#[cfg(unix)]
fn is_image_of_root(process_id: u32) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(format!("/proc/{process_id}/exe")).is_ok_and(|image| image.uid() == 0)
}

#[cfg(not(unix))]
fn is_image_of_root(_process_id: u32) -> bool {
    false
}

fn is_loader(path: &[u8]) -> bool {
    LOADERS.contains(&program_file_name(path))
}

/// Returns the path or name of the Windows program that a [process of Wine](is_of_wine) runs, according to its arguments, each of
/// which ends with a NUL. If `is_start`, these are as they were when the loader was started, which replaces them by those of the
/// program. Returns `None` if they do not tell.
///
/// ```
/// use etw_sys::program_of_wine;
///
/// let path = |arguments, is_start| program_of_wine(arguments, is_start).unwrap().into_owned();
/// assert_eq!(path(b"/usr/lib/wine/wine64\0C:\\tools\\node.exe\0-v\0", true), b"C:\\tools\\node.exe");
/// assert_eq!(path(b"/usr/lib/wine/wine64\0ping\0-n\0", true), b"ping.exe");
/// assert_eq!(path(b"C:\\tools\\node.exe\0-v\0", false), b"C:\\tools\\node.exe");
/// // A script that runs Wine, and a name that somebody else has chosen.
/// assert_eq!(program_of_wine(b"/bin/sh\0-e\0/usr/bin/wine\0a.exe\0", true), None);
/// assert_eq!(program_of_wine(b"C:\\b.exe\0a.exe\0", true), None);
/// ```
pub fn program_of_wine(arguments: &[u8], is_start: bool) -> Option<Cow<'_, [u8]>> {
    let mut words = arguments.split(|byte| *byte == 0);
    let first = words.next()?;
    let program = match is_loader(first) {
        true => words.find(|word| !is_loader(word))?,
        false if is_start || first.starts_with(b"/") => return None,
        false => first,
    };
    match program {
        [] => None,
        path if program_file_name(path).contains(&b'.') => Some(path.into()),
        path => Some([path, b".exe"].concat().into()),
    }
}

/// Returns the part of a path of Linux or Windows after its last separator.
pub fn program_file_name(path: &[u8]) -> &[u8] {
    let separators: &[u8] = if path.starts_with(b"/") || path.starts_with(b".") { b"/" } else { br"/\" };
    path.rsplit(|byte| separators.contains(byte)).next().unwrap_or_default()
}

/// Whether a program is started by a descriptor (`fexecve`), whose path does not name it.
pub fn is_descriptor(path: &[u8]) -> bool {
    [&b"/dev/fd/"[..], b"/proc/self/fd/"].iter().any(|directory| path.starts_with(directory))
}

/// Returns the path by which the program of a process was started: of a script, not of its interpreter, and of a link, not of
/// its target. `directory` is that of the process in `/proc`. Returns `None` if the process does not show its memory, and for
/// programs that were started by a descriptor.
///
/// Source: getauxval(3), `AT_EXECFN`.
#[cfg(target_os = "linux")]
pub fn path_of_start(directory: &Path) -> Option<Vec<u8>> {
    use std::os::unix::fs::FileExt;

    const AT_EXECFN: u64 = 31;
    const PATH_MAX: usize = 4096;
    let auxiliary = std::fs::read(directory.join("auxv")).ok()?;
    let of_64 = auxiliary.chunks_exact(16).filter_map(|pair| {
        let [key, value] =
            [pair.first_chunk::<8>()?, pair.last_chunk::<8>()?].map(|word| u64::from_ne_bytes(*word));
        Some((key, value))
    });
    let of_32 = auxiliary.chunks_exact(8).filter_map(|pair| {
        let [key, value] =
            [pair.first_chunk::<4>()?, pair.last_chunk::<4>()?].map(|word| u32::from_ne_bytes(*word));
        Some((key.into(), value.into()))
    });
    let (_, address) = of_64.chain(of_32).find(|(key, _)| *key == AT_EXECFN)?;
    let memory = std::fs::File::open(directory.join("mem")).ok()?;
    let mut path = vec![0; PATH_MAX];
    // The path lies at the end of the stack, so that fewer bytes may follow.
    let read = memory.read_at(&mut path, address).ok()?;
    path.truncate(path.get(..read)?.iter().position(|byte| *byte == 0)?);
    (!path.is_empty() && !is_descriptor(&path)).then_some(path)
}

#[cfg(not(target_os = "linux"))]
#[expect(missing_docs, reason = "documented for Linux")]
pub fn path_of_start(_directory: &Path) -> Option<Vec<u8>> {
    None
}

/// Returns the name of the program that a process of Linux runs: of the path by which it was started, or else of its file.
/// `directory` is that of the process in `/proc`. Returns `None` for kernel threads, for what does not show its program, and for
/// names that are not UTF-8.
pub fn program_name(directory: &Path) -> Option<String> {
    let file = || Some(std::fs::read_link(directory.join("exe")).ok()?.into_os_string().into_encoded_bytes());
    let path = path_of_start(directory).or_else(file)?;
    let path = path.strip_suffix(b" (deleted)").unwrap_or(&path);
    let name = str::from_utf8(program_file_name(path)).ok()?;
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, chown};
    use std::process::Command;

    #[test]
    fn a_running_program_has_the_path_of_its_start() {
        let directory = tempfile::tempdir().unwrap();
        let (link, script) = (directory.path().join("linked"), directory.path().join("script.sh"));
        std::os::unix::fs::symlink("/bin/sleep", &link).unwrap();
        std::fs::write(&script, "#!/bin/sh\nread line\n").unwrap();
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        for program in [&link, &script] {
            let mut process =
                Command::new(program).arg("60").stdin(std::process::Stdio::piped()).spawn().unwrap();
            let path = path_of_start(Path::new(&format!("/proc/{}", process.id())));
            process.kill().unwrap();
            process.wait().unwrap();
            assert_eq!(path.as_deref(), Some(program.as_os_str().as_encoded_bytes()));
        }
        assert_eq!(path_of_start(Path::new("/proc/2")), None);
    }

    /// A user without rights cannot hide a program by calling it like a loader.
    #[test]
    fn only_images_of_root_are_loaders() {
        let directory = tempfile::tempdir().unwrap();
        let loader = directory.path().join("wine64");
        std::fs::copy("/bin/sleep", &loader).unwrap();
        let is_root = loader.metadata().unwrap().uid() == 0;
        for (uid, expected) in [(0, true), (1000, false)].into_iter().filter(|_| is_root) {
            chown(&loader, Some(uid), None).unwrap();
            let mut process = Command::new(&loader).arg("60").spawn().unwrap();
            let found = is_of_wine(process.id(), loader.as_os_str().as_encoded_bytes());
            process.kill().unwrap();
            process.wait().unwrap();
            assert_eq!(found, expected, "{uid}");
        }
        assert!(!is_of_wine(std::process::id(), b"/usr/bin/bash"));
    }
}
