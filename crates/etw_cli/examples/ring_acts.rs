//! Test program to record: performs known file operations in its current directory, with io_uring and with system calls
//! that the standard library does not use.
#![allow(unsafe_code, reason = "the kernel is given the addresses of what it reads and writes")]

#[cfg(target_os = "linux")]
mod program {
    use std::ffi::CStr;
    use std::fs::File;
    use std::io::{Error, IoSlice, Result};
    use std::mem::MaybeUninit;
    use std::os::fd::IntoRawFd;

    use io_uring::squeue::Entry;
    use io_uring::{IoUring, opcode, types};

    const HERE: types::Fd = types::Fd(libc::AT_FDCWD);

    /// Submits a request, and returns its result.
    fn request(ring: &mut IoUring, entry: &Entry) -> Result<i32> {
        // SAFETY: the memory that the request points to lives until it is done, and this function waits for that.
        unsafe { ring.submission().push(entry) }.map_err(Error::other)?;
        ring.submit_and_wait(1)?;
        let result = ring.completion().next().map_or(0, |entry| entry.result());
        if result < 0 { Err(Error::from_raw_os_error(-result)) } else { Ok(result) }
    }

    fn open(ring: &mut IoUring, path: &CStr, flags: i32) -> Result<i32> {
        request(ring, &opcode::OpenAt::new(HERE, path.as_ptr()).flags(flags).mode(0o600).build())
    }

    pub(crate) fn run() -> Result<()> {
        let ring = &mut IoUring::new(8)?;
        let missing = open(ring, c"ring missing", libc::O_RDONLY);
        assert_eq!(missing.map_err(|error| error.raw_os_error()), Err(Some(libc::ENOENT)));
        let number = open(ring, c"ring", libc::O_RDWR | libc::O_CREAT | libc::O_EXCL)?;
        let file = types::Fd(number);
        let mut bytes = [1; 1000];
        assert_eq!(request(ring, &opcode::Write::new(file, bytes.as_ptr(), 1000).build())?, 1000);
        let parts = [IoSlice::new(&[2; 5]), IoSlice::new(&[3; 7])];
        let writev = opcode::Writev::new(file, parts.as_ptr().cast(), 2).offset(1000);
        assert_eq!(request(ring, &writev.build())?, 12);
        let read = opcode::Read::new(file, bytes.as_mut_ptr(), 100).offset(950);
        assert_eq!(request(ring, &read.build())?, 62);
        ring.submitter().register_files(&[number])?;
        let read = opcode::Read::new(types::Fixed(0), bytes.as_mut_ptr(), 77).offset(0);
        assert_eq!(request(ring, &read.build())?, 77);
        ring.submitter().unregister_files()?;
        request(ring, &opcode::Fsync::new(file).build())?;
        request(ring, &opcode::Fallocate::new(file, 8192).mode(libc::FALLOC_FL_KEEP_SIZE).build())?;
        let mut found = MaybeUninit::<libc::statx>::uninit();
        request(ring, &opcode::Statx::new(HERE, c"ring".as_ptr(), found.as_mut_ptr().cast()).build())?;
        request(ring, &opcode::MkDirAt::new(HERE, c"ring directory".as_ptr()).mode(0o700).build())?;
        let renamed = c"ring directory/renamed";
        request(ring, &opcode::RenameAt::new(HERE, c"ring".as_ptr(), HERE, renamed.as_ptr()).build())?;
        request(ring, &opcode::UnlinkAt::new(HERE, renamed.as_ptr()).build())?;
        let unlink = opcode::UnlinkAt::new(HERE, c"ring directory".as_ptr()).flags(libc::AT_REMOVEDIR);
        request(ring, &unlink.build())?;
        request(ring, &opcode::Close::new(file).build())?;
        close_range()
    }

    /// Closes two descriptors of one file and one of another at once.
    fn close_range() -> Result<()> {
        let one = File::create("one")?;
        let same = one.try_clone()?.into_raw_fd();
        let other = File::create("other")?.into_raw_fd();
        let first = one.into_raw_fd();
        assert!(first < same && same < other);
        // SAFETY: nothing else uses these descriptors, whose owners gave them up.
        let done = unsafe { libc::syscall(libc::SYS_close_range, first, other, 0) };
        if done == 0 { Ok(()) } else { Err(Error::last_os_error()) }
    }
}

#[cfg(target_os = "linux")]
fn main() -> std::io::Result<()> {
    program::run()
}

#[cfg(not(target_os = "linux"))]
fn main() {}
