//! Runs the commands of the documentation as they stand there: each page in a directory of its own, with small programs in
//! the place of those that the page records.
//!
//! Times are shorter, what goes on until it is interrupted is interrupted, and the live view is shown once as text, since it
//! needs a terminal otherwise.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Etw;
use crate::jit::which;
use crate::record::{program, wait_until};

/// The `etw` of the pages.
const ETW: &str = r#"#!/bin/sh
for argument do
    shift
    [ "$last" = --for ] && argument=300ms
    set -- "$@" "$argument"
    last=$argument
done
case " $* " in
*" --batch "*) exec REAL "$@" ;;
" watch "*" --speed "*)
    timeout 2 script -qec "REAL $*" /dev/null
    [ $? = 124 ]
    ;;
" watch "*) exec REAL "$@" --batch 1 ;;
" dump -s "*)
    timeout --signal INT 1 REAL "$@"
    [ $? = 124 ]
    ;;
*) exec REAL "$@" ;;
esac
"#;

/// Programs that the pages record or call.
const PROGRAMS: [(&str, &str); 6] = [
    ("bin/sudo", "exec \"$@\""),
    (
        "bin/make",
        "for unit in 1 2 3; do cc1 $unit; done; dd if=/dev/zero of=out bs=128k count=8 2>/dev/null; sync out",
    ),
    ("bin/cc1", "seq 2000 | sort -n | tail -1 >/dev/null"),
    ("bin/node", "sleep 0.1"),
    ("bin/ssh", "shift; exec \"$@\""),
    ("app", "sleep 0.05; make"),
];

/// What no page's commands are run of: they start containers and install software, or need a browser.
const NOT_RUN: [&str; 4] = ["docker ", "cargo ", "install ", "etw view "];

/// Returns the commands of a page that are about `etw`, one a line.
fn commands(page: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page).with_extension("md");
    let text = fs::read_to_string(&path).unwrap();
    let blocks = text.split("```sh\n").skip(1).filter_map(|block| block.split("```").next());
    let lines = blocks.flat_map(|block| block.split('\n').map(str::to_owned).collect::<Vec<_>>());
    let is_run = |line: &String| {
        let of_etw = line.starts_with("etw ") || line.contains(" etw ");
        of_etw && !line.starts_with([' ', '#']) && !NOT_RUN.iter().any(|part| line.contains(part))
    };
    lines.filter(is_run).collect()
}

/// A directory with the programs and files of the pages, and a running daemon.
struct Desk {
    etw: Etw,
    path: String,
}

impl Desk {
    fn new() -> Desk {
        let etw = Etw::new();
        let write = |name: &str, text: &str| {
            let path = etw.path(name);
            fs::create_dir_all(Path::new(&path).parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        write("bin/etw", &ETW.replace("REAL", env!("CARGO_BIN_EXE_etw")));
        PROGRAMS.iter().for_each(|(name, text)| write(name, &format!("#!/bin/sh\n{text}\n")));
        for name in ["target/release/examples/numbered_events", "target/release/myapp"] {
            write(name, &format!("#!/bin/sh\nexec {} 50\n", program()));
        }
        let path = format!("{}:{}", etw.path("bin"), std::env::var("PATH").unwrap());
        let desk = Desk { etw, path };
        for file in ["before.etl", "trace.etl"] {
            desk.ok(&format!("etw record -p Example.Numbers -o {file} -- target/release/myapp"));
        }
        desk.ok("zstd -q trace.etl");
        desk
    }

    fn command(&self, line: &str) -> Command {
        let of_session = self.etw.session_command(&[]);
        let mut command = Command::new("timeout");
        command.envs(of_session.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.args(["60", "sh", "-c", line]).env("PATH", &self.path).current_dir(self.etw.path(""));
        command.stdin(Stdio::null());
        command
    }

    fn ok(&self, line: &str) {
        let output = self.command(line).output().unwrap();
        let text =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        assert!(output.status.success(), "{line}\n{text}");
    }

    /// Runs the commands of a page. The daemon that it starts is there from its beginning.
    fn run(&self, page: &str) {
        let mut daemon = self.command("exec etw daemon").spawn().unwrap();
        let commands = commands(page);
        assert!(commands.len() > 2, "{page}: {commands:?}");
        wait_until("the daemon runs", || Path::new(&self.etw.path("run/etwd.sock")).exists());
        for name in ["Other", "Before"] {
            self.ok(&format!("etw session start {name} --real-time -p MyProvider"));
        }
        if !commands.iter().any(|line| line.contains("session start MySession")) {
            self.ok("etw session start MySession --real-time -p MyProvider");
        }
        commands.iter().filter(|line| *line != "etw daemon &").for_each(|line| self.ok(line));
        let stop = Command::new("kill").arg(daemon.id().to_string()).status().unwrap();
        assert!(stop.success() && daemon.wait().is_ok());
    }
}

/// Whether the tests may record kernel events.
fn may_record_the_kernel() -> bool {
    let etw = Etw::new();
    crate::kernel::record(&etw, "PROC_THREAD", &["true"]).is_some()
}

macro_rules! pages {
    ($($name:ident: $page:literal;)+) => { $(
        #[test]
        fn $name() {
            if may_record_the_kernel() {
                Desk::new().run($page);
            }
        }
    )+ };
}

pages! {
    recording_runs: "recording";
    providers_runs: "providers";
    sessions_runs: "sessions";
    kernel_runs: "kernel";
    watch_runs: "watch";
    report_runs: "report";
    containers_runs: "containers";
    tracepoints_runs: "tracepoints";
}

#[test]
fn perf_data_runs() {
    if which("perf").is_none() {
        etw_testkit::skip!("there is no perf");
        return;
    }
    let desk = Desk::new();
    desk.ok("perf record -q -B -e cpu-clock -g -o perf.data -- make");
    commands("perf-data")
        .iter()
        .filter(|line| !line.starts_with("perf record -g"))
        .for_each(|line| desk.ok(line));
}
