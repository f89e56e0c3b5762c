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

/// Whether this is the name that the first thread of a program has on Linux, unless it sets another one: the first 15 bytes of
/// the program's (`TASK_COMM_LEN`, without the NUL).
pub fn is_thread_name(name: &[u8], program: &[u8]) -> bool {
    const MAX_BYTES: usize = 15;
    !program.is_empty() && program.get(..MAX_BYTES).unwrap_or(program) == name
}

/// Returns the path of the file that a process of Linux runs, also if it was deleted or replaced since; `directory` is that of
/// the process in `/proc`. Returns `None` for kernel threads, and for what does not show its program.
pub fn program_file(directory: &Path) -> Option<Vec<u8>> {
    let mut path = std::fs::read_link(directory.join("exe")).ok()?.into_os_string().into_encoded_bytes();
    // Appended by the kernel.
    if path.ends_with(b" (deleted)") {
        path.truncate(path.len() - b" (deleted)".len());
    }
    (!path.is_empty()).then_some(path)
}

/// Returns the name by which a running program of Linux was started: of a script, not of its interpreter, and of a link, not of
/// its target. Of the program's file and the first of its arguments, each of which ends with a NUL, that is the one whose first
/// bytes are the name of the process's first thread, which the kernel takes from there; of a program that has renamed this
/// thread it is the file.
///
/// Only these are asked, since reading the memory of a process may block for as long as the process wants.
///
/// ```
/// use etw_sys::name_of_start;
///
/// assert_eq!(name_of_start(b"/usr/bin/dash", b"dash", b"sh\0-c\0"), b"dash");
/// assert_eq!(name_of_start(b"/usr/bin/dash", b"a_script_with_a", b"/bin/sh\0./a_script_with_a_name\0"), b"a_script_with_a_name");
/// assert_eq!(name_of_start(b"/usr/bin/dash", b"renamed", b"sh\0./script\0"), b"dash");
/// ```
pub fn name_of_start<'a>(file: &'a [u8], thread_name: &[u8], arguments: &'a [u8]) -> &'a [u8] {
    /// An interpreter, its argument and the script, or one that runs another one.
    const MAX_WORDS: usize = 4;
    let of_file = program_file_name(file);
    let words = arguments.split(|byte| *byte == 0).take(MAX_WORDS).map(program_file_name);
    let mut names = std::iter::once(of_file).chain(words);
    names.find(|name| is_thread_name(thread_name, name)).unwrap_or(of_file)
}

/// Returns the [name](name_of_start) of the program that a process of Linux runs; `directory` is that of the process in
/// `/proc`. Returns `None` for kernel threads, for what does not show its program, and for names that are not UTF-8.
pub fn program_name(directory: &Path) -> Option<String> {
    let file = program_file(directory)?;
    let read = |name| std::fs::read(directory.join(name)).unwrap_or_default();
    let (thread, arguments) = (read("comm"), read("cmdline"));
    let name = str::from_utf8(name_of_start(&file, thread.trim_ascii_end(), &arguments)).ok()?;
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, chown};
    use std::process::Command;

    #[test]
    fn a_running_program_has_the_name_of_its_start() {
        let directory = tempfile::tempdir().unwrap();
        let (link, script) = (directory.path().join("linked"), directory.path().join("script.sh"));
        std::os::unix::fs::symlink("/bin/sleep", &link).unwrap();
        std::fs::write(&script, "#!/bin/sh\nread line\n").unwrap();
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        for program in [&link, &script] {
            let mut process =
                Command::new(program).arg("60").stdin(std::process::Stdio::piped()).spawn().unwrap();
            let directory = format!("/proc/{}", process.id());
            // The thread gets its name a moment after the process counts as started.
            let wanted = program.file_name().unwrap().to_str();
            let mut name = None;
            for _ in 0..1000 {
                name = program_name(Path::new(&directory));
                if name.as_deref() == wanted {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            process.kill().unwrap();
            process.wait().unwrap();
            assert_eq!(name.as_deref(), wanted);
        }
        assert_eq!(program_name(Path::new("/proc/2")), None);
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
