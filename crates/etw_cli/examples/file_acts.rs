//! Test program to record: performs known file operations in its current directory.
//!
//! `file_acts` performs each common operation once; `file_acts COUNT` reads and writes COUNT times, one byte more each
//! time; `file_acts more` performs rare operations; `file_acts together` keeps many files open; `file_acts exec` leaves
//! files open when it runs another program.

#[cfg(target_os = "linux")]
mod program {
    use std::fs::{self, File};
    use std::io::{IoSlice, Read, Seek, Write};
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::FileExt;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    use rustix::pipe::{SpliceFlags, pipe, splice};

    pub(crate) fn run() -> std::io::Result<()> {
        match std::env::args().nth(1).as_deref() {
            None => one_of_each(),
            Some("more") => more(),
            Some("together") => together(),
            Some("exec") => exec(),
            Some(count) => many(count.parse().map_err(std::io::Error::other)?),
        }
    }

    fn many(count: usize) -> std::io::Result<()> {
        let mut file = File::create_new("many")?;
        let reader = File::open("many")?;
        let mut bytes = [7; 64];
        for number in 0..count {
            let len = 1 + number % 64;
            file.write_all(&bytes[..len])?;
            let _ = reader.read_at(&mut bytes[..len], 0)?;
        }
        Ok(())
    }

    fn together() -> std::io::Result<()> {
        let open = |number: u32| File::create(format!("file {number}"));
        let files = (0..900).map(open).collect::<std::io::Result<Vec<_>>>()?;
        files.iter().try_for_each(|mut file| file.write_all(b"1"))?;
        files.into_iter().rev().for_each(drop);
        Ok(())
    }

    fn more() -> std::io::Result<()> {
        let mode = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let file = openat2(CWD, "second way", mode, Mode::RWXU, ResolveFlags::empty())?;
        let file = File::from(file);
        (&file).write_all(&[7; 30])?;
        let (from, to) = pipe()?;
        assert_eq!(splice(&file, Some(&mut 10), &to, None, 20, SpliceFlags::empty())?, 20);
        assert_eq!(splice(&from, None, &file, Some(&mut 100), 20, SpliceFlags::empty())?, 20);
        let mut other = OwnedFd::from(File::create("replaced")?);
        rustix::io::dup2(&file, &mut other)?;
        drop(other);
        drop(file);
        for _ in 0..70 {
            fs::create_dir("d")?;
            std::env::set_current_dir("d")?;
        }
        File::create("deep").map(drop)
    }

    fn exec() -> std::io::Result<()> {
        let left = File::create("left")?;
        let twice = File::create("twice")?;
        let copy = twice.try_clone()?;
        // The other program closes these two at its exit; the others are closed before.
        let kept = rustix::fs::open("kept", OFlags::WRONLY | OFlags::CREATE, Mode::RUSR)?;
        let same = rustix::io::dup(&kept)?;
        let error = Command::new("true").exec();
        drop((left, copy, same));
        Err(error)
    }

    fn one_of_each() -> std::io::Result<()> {
        let missing = File::open("missing");
        assert!(missing.is_err());
        let mut file = File::options().read(true).write(true).create_new(true).open("first")?;
        file.write_all(&[1; 1000])?;
        let _ = file.write_vectored(&[IoSlice::new(&[2; 5]), IoSlice::new(&[3; 7])])?;
        let _ = file.read_at(&mut [0; 100], 950)?;
        file.rewind()?;
        file.read_exact(&mut [0; 77])?;
        let _ = file.write_at(&[4; 9], 300)?;
        file.sync_all()?;
        file.set_len(500)?;
        file.metadata()?;
        let copy = rustix::io::dup(&file)?;
        drop(file);
        let to = File::create("second")?;
        assert_eq!(rustix::fs::sendfile(&to, &copy, Some(&mut 0), 200)?, 200);
        assert_eq!(rustix::fs::copy_file_range(&copy, Some(&mut 20), &to, None, 50)?, 50);
        drop(copy);
        fs::create_dir("directory")?;
        let mode = OFlags::RDONLY | OFlags::DIRECTORY;
        let directory = rustix::fs::open("directory", mode, Mode::empty())?;
        let mode = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND;
        let mut inner = File::from(rustix::fs::openat(&directory, "inner", mode, Mode::RUSR)?);
        inner.write_all(b"123")?;
        inner.write_all(b"45")?;
        assert_eq!(fs::read_dir("directory")?.count(), 1);
        fs::rename("first", "third")?;
        fs::metadata("third")?;
        fs::remove_file("third")?;
        assert!(fs::remove_file("third").is_err());
        // These are closed when the process exits.
        std::mem::forget((to, inner));
        Ok(())
    }
}

#[cfg(target_os = "linux")]
fn main() -> std::io::Result<()> {
    program::run()
}

#[cfg(not(target_os = "linux"))]
fn main() {}
