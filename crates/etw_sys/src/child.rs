//! Programs that this process starts and that must not outlive it.

// UNSAFETY: a function that runs between fork and exec.
#![cfg_attr(target_os = "linux", expect(unsafe_code))]

use std::process::Command;

/// Lets the system kill the program when the thread that starts it ends, however it ends. Only on Linux; elsewhere the
/// command stays as it is.
///
/// The thread must wait for the program: its end, not that of the process, is what the system watches.
pub fn end_with_parent(command: &mut Command) {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
        use std::os::unix::process::CommandExt;
        let parent = getpid();
        let prepare = move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have ended before.
            match getppid() == Some(parent) {
                true => Ok(()),
                false => Err(std::io::ErrorKind::Interrupted.into()),
            }
        };
        // SAFETY: between fork and exec only system calls are made; nothing allocates or locks.
        unsafe { command.pre_exec(prepare) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command;
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_program_ends_with_the_thread_that_started_it() {
        let start = || {
            let mut command = Command::new("sleep");
            command.arg("100");
            end_with_parent(&mut command);
            command.spawn().unwrap()
        };
        let mut child = std::thread::spawn(start).join().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }
}
