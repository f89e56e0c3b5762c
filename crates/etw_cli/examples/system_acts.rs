//! A program to be recorded: it asks the kernel for known things, and says what.
//!
//! `system_acts calls COUNT` makes so many system calls of one kind, and some that fail. `system_acts waits` has threads
//! that wait, each in its own way.

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
            _ => waits(),
        }
    }

    fn say(what: &str) {
        println!("{what} {:#x}", threads::gettid().as_raw_nonzero());
    }

    /// System calls that hardly anybody makes, then some that fail.
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
