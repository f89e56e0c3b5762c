//! A program to be recorded: it does known things with files in its current directory.
//!
//! `file_acts` does one of each; `file_acts COUNT` reads and writes one byte more each time, COUNT times.

#[cfg(target_os = "linux")]
mod program {
    use std::fs::{self, File};
    use std::io::{IoSlice, Read, Seek, Write};
    use std::os::unix::fs::FileExt;

    use rustix::fs::{Mode, OFlags};

    pub(crate) fn run() -> std::io::Result<()> {
        match std::env::args().nth(1).and_then(|count| count.parse().ok()) {
            Some(count) => many(count),
            None => one_of_each(),
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
        // These go with the process.
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
