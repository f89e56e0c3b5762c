//! What differs between a Windows program and a Linux program.

// UNSAFETY: calls functions of the program by their address.
#![expect(unsafe_code)]

use std::ffi::c_void;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use etw_capi::guest::{Guest, set_guest};

use crate::{ids, relogger, system, threads};

/// Makes the runtime treat the program as one of Windows.
pub(crate) fn install() {
    set_guest(&Windows);
}

struct Windows;

impl Guest for Windows {
    unsafe fn call(&self, function: *const c_void, arguments: &[u64]) -> u64 {
        type One = unsafe extern "win64" fn(u64) -> u64;
        type Two = unsafe extern "win64" fn(u64, u64) -> u64;
        type Three = unsafe extern "win64" fn(u64, u64, u64) -> u64;
        type Four = unsafe extern "win64" fn(u64, u64, u64, u64) -> u64;
        type Seven = unsafe extern "win64" fn(u64, u64, u64, u64, u64, u64, u64) -> u64;
        // SAFETY: the caller promises that the function takes these arguments. Each has a register or eight bytes of the
        // stack, whatever its type.
        unsafe {
            match *arguments {
                [a] => std::mem::transmute::<*const c_void, One>(function)(a),
                [a, b] => std::mem::transmute::<*const c_void, Two>(function)(a, b),
                [a, b, c] => std::mem::transmute::<*const c_void, Three>(function)(a, b, c),
                [a, b, c, d] => std::mem::transmute::<*const c_void, Four>(function)(a, b, c, d),
                [a, b, c, d, e, f, g] => {
                    std::mem::transmute::<*const c_void, Seven>(function)(a, b, c, d, e, f, g)
                }
                _ => 0,
            }
        }
    }

    fn table_of(&self, functions: &[*const c_void]) -> *const c_void {
        relogger::table_of(functions)
    }

    fn on_own_thread(&self, work: &mut (dyn FnMut() + Send)) {
        threads::run(work);
    }

    fn path_of(&self, name: &str) -> String {
        system::unix_path(name).unwrap_or_else(|| name.to_owned())
    }

    fn name_of(&self, path: &str) -> String {
        system::windows_name(path).unwrap_or_else(|| path.to_owned())
    }

    fn performance_counter(&self) -> Option<(i64, i64)> {
        system::performance_counter()
    }

    fn ids_of(&self, process: u32, thread: u32) -> (u32, u32) {
        ids::of_windows(process, thread)
    }

    fn thread_of(&self, thread: u32) -> u32 {
        ids::thread_of_windows(thread)
    }

    fn process_of(&self, id: u32) -> u32 {
        ids::of_linux(id)
    }

    /// Starts `etw daemon`, which exits with its last session. On Windows the kernel hosts sessions.
    fn start_host(&self) -> Option<Child> {
        let mut command = Command::new(etw()?);
        // A new process group protects it from Ctrl-C, and `/` keeps it from pinning a directory.
        command.args(["daemon", "--while-used"]).current_dir("/").process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().ok()
    }
}

/// Returns the path of the program `etw`, which the installation wrote beside this library.
fn etw() -> Option<PathBuf> {
    let path = std::fs::read_to_string(ids::library()?.with_extension("path")).ok()?;
    Some(PathBuf::from(path.trim_end()))
}
