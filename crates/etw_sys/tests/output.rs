//! Files that a program makes where others may have put something.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::Path;

use etw_sys::credentials::effective_uid;
use etw_sys::output::create;

const OTHER: u32 = 54321;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn links_and_files_of_others_are_refused() {
    if effective_uid() != 0 {
        etw_testkit::skip!("only root can give files away");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("victim"), "kept").unwrap();
    symlink("victim", at("link")).unwrap();
    lchown(at("link"), Some(OTHER), None).unwrap();
    symlink("link", at("own")).unwrap();
    fs::write(at("trap"), "").unwrap();
    lchown(at("trap"), Some(OTHER), None).unwrap();
    set_mode(folder.path(), 0o1777);
    for (name, text) in
        [("link", "symbolic link of user 54321"), ("own", "symbolic link"), ("trap", "belongs to")]
    {
        let error = create(&at(name)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(error.to_string().contains(text), "{name}: {error}");
    }
    assert_eq!(fs::read(at("victim")).unwrap(), b"kept");
    set_mode(folder.path(), 0o755);
    create(&at("link")).unwrap();
    create(&at("trap")).unwrap();
    assert_eq!(fs::read(at("victim")).unwrap(), b"");
    // A directory of another user, who could replace the link.
    lchown(folder.path(), Some(OTHER), None).unwrap();
    assert!(create(&at("link")).is_err());
}
