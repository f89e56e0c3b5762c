//! Test program to record: makes known requests to the kernel, and prints them.
//!
//! `system_acts calls COUNT` makes COUNT system calls of one kind, and some that fail. `system_acts waits` has threads
//! that wait, each in a different way. `system_acts memory FILE` allocates, touches and frees memory, and does the same
//! with a mapping of FILE, whose pages are read from the disk.

#[cfg(target_os = "linux")]
mod program {
    use std::io::{Read, Result, Write};
    use std::os::fd::AsFd;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, epoll, poll};
    use rustix::{pipe, process, thread as threads};

    pub(crate) fn run() -> Result<()> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        match arguments.first().map(String::as_str) {
            Some("calls") => calls(arguments.get(1).and_then(|count| count.parse().ok()).unwrap_or(1000)),
            Some("memory") => memory(arguments.get(1).map_or("system_acts.tmp", String::as_str)),
            _ => waits(),
        }
    }

    fn say(what: &str) {
        println!("{what} {:#x}", threads::gettid().as_raw_nonzero());
    }

    /// Rare system calls, then some that fail.
    fn calls(count: u32) -> Result<()> {
        say("thread");
        for _ in 0..count {
            process::getpriority_process(None)?;
        }
        for _ in 0..10 {
            assert!(std::fs::File::open("/no/such/file").is_err());
        }
        Ok(())
    }

    const PAGE: usize = 4096;
    /// Pages of the file, and from one that is touched to the next.
    const FILE_PAGES: usize = 256;
    const STEP: usize = 32;

    fn memory(path: &str) -> Result<()> {
        say("thread");
        let mut taken = Vec::new();
        for number in 0..20 {
            let memory = memmap2::MmapMut::map_anon((300 + number) * PAGE)?;
            println!("memory {:#x} {:#x}", memory.as_ptr().addr(), memory.len());
            taken.push(memory);
        }
        let first = &mut taken[0];
        for page in 0..100 {
            first[page * PAGE] = 1;
        }
        drop(taken);
        let mut file = std::fs::File::options().read(true).write(true).create_new(true).open(path)?;
        file.write_all(&vec![7; FILE_PAGES * PAGE])?;
        file.sync_all()?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        let map = etw_sys::FileMap::new(&file)?;
        let before = major_faults()?;
        let sum = (0..FILE_PAGES).step_by(STEP).map(|page| u32::from(map[page * PAGE])).sum::<u32>();
        assert_eq!(sum as usize, FILE_PAGES / STEP * 7);
        println!("faults {}", major_faults()? - before);
        println!("file {:#x} {:#x}", map.as_ptr().addr(), map.len());
        Ok(())
    }

    /// Number of this process's page faults that read from a disk.
    fn major_faults() -> Result<u64> {
        let stat = std::fs::read_to_string("/proc/self/stat")?;
        // After the name in parentheses: state, five ids, flags, and two counts of faults without disk reads.
        let field = stat.rsplit(')').next().and_then(|rest| rest.split_ascii_whitespace().nth(9));
        field.and_then(|field| field.parse().ok()).ok_or_else(|| std::io::Error::other("no count of faults"))
    }

    const WAITS: u32 = 20;
    const PAUSE: Duration = Duration::from_millis(2);

    fn waits() -> Result<()> {
        let sleeping = thread::spawn(|| {
            say("sleep");
            (0..WAITS).for_each(|_| thread::sleep(PAUSE));
        });
        let (sender, receiver) = mpsc::channel();
        let locking = thread::spawn(move || {
            say("futex");
            receiver.iter().for_each(|()| {});
        });
        let (read_end, write_end) = std::io::pipe()?;
        let reading = waiting(read_end, |mut end| {
            say("read");
            while end.read(&mut [0])? > 0 {}
            Ok(())
        });
        let (polled, polled_end) = std::io::pipe()?;
        let polling = waiting(polled, |mut end| {
            say("poll");
            loop {
                poll(&mut [PollFd::new(&end, PollFlags::IN)], None)?;
                if end.read(&mut [0])? == 0 {
                    return Ok(());
                }
            }
        });
        let (queued, queued_end) = pipe::pipe()?;
        let queueing = thread::spawn(move || -> Result<()> {
            say("epoll");
            let queue = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            epoll::add(&queue, queued.as_fd(), epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
            let mut events = Vec::with_capacity(1);
            loop {
                epoll::wait(&queue, rustix::buffer::spare_capacity(&mut events), None)?;
                events.clear();
                if rustix::io::read(&queued, &mut [0])? == 0 {
                    return Ok(());
                }
            }
        });
        for _ in 0..WAITS {
            thread::sleep(PAUSE);
            let _ = sender.send(());
            (&write_end).write_all(&[1])?;
            (&polled_end).write_all(&[1])?;
            rustix::io::write(&queued_end, &[1])?;
        }
        drop((sender, write_end, polled_end, queued_end));
        for thread in [reading, polling, queueing] {
            thread.join().map_err(|_| std::io::Error::other("a thread panicked"))??;
        }
        for thread in [sleeping, locking] {
            thread.join().map_err(|_| std::io::Error::other("a thread panicked"))?;
        }
        Ok(())
    }

    fn waiting(
        end: std::io::PipeReader,
        wait: impl FnOnce(std::io::PipeReader) -> Result<()> + Send + 'static,
    ) -> thread::JoinHandle<Result<()>> {
        thread::spawn(move || wait(end))
    }
}

#[cfg(target_os = "linux")]
fn main() -> std::io::Result<()> {
    program::run()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("the system is recorded on Linux");
}
