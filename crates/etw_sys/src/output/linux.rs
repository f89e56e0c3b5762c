//! Output files of Linux.

use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, fstat, fstatfs, openat, readlinkat};
use rustix::io::Errno;

use super::OutputOptions;
use crate::credentials::effective_uid;
use crate::rights::{keeper, open_by};

/// Links that are followed before a path is refused, as by the kernel (`path_resolution(7)`).
const MAX_LINKS: usize = 40;

const WRITABLE_BY_OTHERS: u32 = 0o022;
const WRITABLE_BY_ALL: u32 = 0o002;
const RIGHTS_OF_ALL: u32 = 0o007;

pub(super) fn open(options: OutputOptions, path: &Path) -> io::Result<File> {
    match keeper() {
        Some(keeper) => open_by(keeper, options.to_parts(), path),
        None => open_here(options, path),
    }
}

/// Opens link by link, since a check of a path says nothing of what is there when it is opened.
fn open_here(options: OutputOptions, path: &Path) -> io::Result<File> {
    let mut flags = OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::CREATE;
    flags |= if options.keeps { OFlags::RDWR } else { OFlags::WRONLY };
    flags.set(OFlags::EXCL, options.is_new);
    flags.set(OFlags::NONBLOCK, options.nonblocking);
    let mode = Mode::from_raw_mode(if options.is_public { 0o666 } else { 0o600 });
    let mut directory: Option<OwnedFd> = None;
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let from = directory.as_ref().map_or(CWD, AsFd::as_fd);
        let Some(name) = path.file_name() else {
            // A directory, which the system refuses.
            return Ok(openat(from, &path, flags, mode)?.into());
        };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let within = openat(from, parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let error = match openat(&within, name, flags | OFlags::NOFOLLOW, mode) {
            Ok(file) => {
                check_file(&fstat(&file)?, &within)?;
                return prepare(options, file.into());
            }
            // The kernel may refuse what another user prepared, and says no more.
            Err(error @ (Errno::LOOP | Errno::ACCESS)) => error,
            Err(error) => return Err(described(error)),
        };
        let look = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(link) = openat(&within, name, look, Mode::empty()) else { return Err(error.into()) };
        let found = fstat(&link)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::Symlink {
            check_file(&found, &within)?;
            return Err(error.into());
        }
        check_link(&found, &within)?;
        if fstatfs(&link)?.f_type == PROC_SUPER_MAGIC {
            // A link to an open file, such as that of /dev/stdout, which has no path.
            return prepare(options, openat(&within, name, flags, mode).map_err(described)?.into());
        }
        path = PathBuf::from(OsString::from_vec(readlinkat(&link, "", Vec::new())?.into_bytes()));
        directory = Some(within);
    }
    Err(Errno::LOOP.into())
}

/// Checks a file that was opened by its name in a directory.
fn check_file(file: &Stat, directory: &OwnedFd) -> io::Result<()> {
    let owner = file.st_uid;
    match is_trusted(owner) || fstat(directory)?.st_mode & WRITABLE_BY_ALL == 0 {
        true => Ok(()),
        false => {
            Err(refused(&format!("it belongs to user {owner}, in a directory that all users may write to")))
        }
    }
}

fn check_link(link: &Stat, directory: &OwnedFd) -> io::Result<()> {
    let owner = link.st_uid;
    let is_private =
        |directory: Stat| is_trusted(directory.st_uid) && directory.st_mode & WRITABLE_BY_OTHERS == 0;
    match is_trusted(owner) || is_private(fstat(directory)?) {
        true => Ok(()),
        false => Err(refused(&format!(
            "it is a symbolic link of user {owner}, in a directory that others may write to"
        ))),
    }
}

fn described(error: Errno) -> io::Error {
    match error {
        Errno::WOULDBLOCK => io::Error::new(io::ErrorKind::WouldBlock, "another process holds a lease on it"),
        error => error.into(),
    }
}

fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == effective_uid()
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("{why}; remove it or name another file"))
}

/// Truncates a file, and sets its rights. Devices and pipes stay as they are.
fn prepare(options: OutputOptions, file: File) -> io::Result<File> {
    let found = file.metadata()?;
    if !found.is_file() {
        return Ok(file);
    }
    if !options.keeps {
        file.set_len(0)?;
    }
    let uid = effective_uid();
    match options.group {
        Some(group) if found.uid() == uid => {
            fchown(&file, None, Some(group))?;
            file.set_permissions(Permissions::from_mode(0o640))?;
        }
        _ if !options.is_public && uid == 0 && found.uid() == 0 && found.mode() & RIGHTS_OF_ALL != 0 => {
            file.set_permissions(Permissions::from_mode(found.mode() & 0o7777 & !RIGHTS_OF_ALL))?;
        }
        _ => {}
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::super::create;
    use super::*;
    use std::fs;
    use std::io::{Read, Write};
    use std::os::unix::fs::symlink;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn files_are_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new");
        create(&path).unwrap().write_all(b"text").unwrap();
        assert_eq!(mode(&path), 0o600);
        assert!(OutputOptions::new().create_new().open(&path).is_err());
        let mut kept = String::new();
        OutputOptions::new().keep(true).open(&path).unwrap().read_to_string(&mut kept).unwrap();
        assert_eq!(kept, "text");
        set_mode(&path, 0o644);
        create(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
        let is_root = effective_uid() == 0;
        assert_eq!(mode(&path), if is_root { 0o640 } else { 0o644 });
        set_mode(&path, 0o644);
        OutputOptions::new().public().open(&path).unwrap();
        assert_eq!(mode(&path), 0o644);
        OutputOptions::new().group(Some(crate::credentials::effective_gid())).open(&path).unwrap();
        assert_eq!(mode(&path), 0o640);
    }

    #[test]
    fn options_have_parts() {
        let options = OutputOptions::new().keep(true).nonblocking().group(Some(7));
        assert_eq!(options.to_parts(), (0b101, Some(7)));
        for options in [options, OutputOptions::new().create_new().public(), OutputOptions::new()] {
            let (bits, group) = options.to_parts();
            assert_eq!(OutputOptions::from_parts(bits, group), options);
        }
    }

    #[test]
    fn own_links_and_devices_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("below")).unwrap();
        symlink("below/second", at("first")).unwrap();
        symlink("../target", at("below/second")).unwrap();
        create(&at("first")).unwrap().write_all(b"1").unwrap();
        assert_eq!(fs::read(at("target")).unwrap(), b"1");
        symlink("loop", at("loop")).unwrap();
        assert_eq!(create(&at("loop")).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        create(Path::new("/dev/null")).unwrap().write_all(b"1").unwrap();
        let file = File::create(at("open")).unwrap();
        let open = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        symlink(&open, at("stdout")).unwrap();
        create(&at("stdout")).unwrap().write_all(b"2").unwrap();
        assert_eq!(fs::read(at("open")).unwrap(), b"2");
        for directory in ["/", ".", "..", "below/.."] {
            assert!(create(&folder.path().join(directory)).is_err(), "{directory}");
        }
        assert!(create(&at("none/file")).is_err());
    }
}
