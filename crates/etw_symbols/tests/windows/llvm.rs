//! Programs of LLVM: a compiler and linker for Windows, and an independent reader of PDB files.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use etw_event::Guid;
use etw_symbols::{PdbId, WindowsImage};
use object::LittleEndian as LE;
use object::Object;
use object::read::pe::{ImageNtHeaders, ImageOptionalHeader, PeFile64};

/// Returns the name of an installed program, with or without LLVM's version at its end. Prints a message without one.
pub(crate) fn tool(name: &str) -> Option<String> {
    let names =
        [name.to_owned()].into_iter().chain((14..30).rev().map(|version| format!("{name}-{version}")));
    let runs = |name: &String| {
        let mut command = Command::new(name);
        command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let found = names.into_iter().find(runs);
    if found.is_none() {
        etw_testkit::skip!("{name} is not installed");
    }
    found
}

/// A program for Windows, its PDB, and the addresses of its functions.
pub(crate) struct Program {
    pub(crate) image: PathBuf,
    pub(crate) pdb: PathBuf,
    map: String,
}

pub(crate) const SOURCE: &str = r#"extern "C" int _fltused = 0;
static volatile int sink;
namespace shapes {
class Counter {
public:
    __attribute__((always_inline)) void bump(int by) {
        sink += by;
    }
    __attribute__((noinline)) int twice(int by);
};
__attribute__((always_inline)) static inline void both(Counter &counter, int by) {
    counter.bump(by);
    sink = 7;
}
int Counter::twice(int by) {
    both(*this, by);
    return sink * 2;
}
namespace {
__attribute__((noinline)) int hidden(int x) {
    return x + sink;
}
}
template <typename T> __attribute__((noinline)) T bigger(T a, T b) {
    return a > b + sink ? a : b;
}
int plain(int x);
int run(int x) {
    Counter counter;
    return counter.twice(x) + hidden(x) + bigger<int>(x, 3) + plain(x);
}
}
extern "C" __declspec(dllexport) int start() {
    return shapes::run(sink);
}
"#;

/// Is compiled without debug information, so that only public symbols name its function.
const PLAIN: &str = "static volatile int other;
namespace shapes { __attribute__((noinline)) int plain(int x) { other = x; return other + x; } }
";

/// Builds a program; `None` without the tools.
pub(crate) fn build(directory: &Path) -> Option<Program> {
    let (clang, link) = (tool("clang")?, tool("lld-link")?);
    let at = |name: &str| directory.join(name);
    let run = |command: &mut Command| {
        let output = command.current_dir(directory).output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    for (name, source, debug) in [("shapes", SOURCE, true), ("plain", PLAIN, false)] {
        std::fs::write(at(&format!("{name}.cpp")), source).unwrap();
        let mut command = Command::new(&clang);
        command.args(["--target=x86_64-pc-windows-msvc", "-O1", "-c"]);
        command.args(if debug { &["-g", "-gcodeview"][..] } else { &[] });
        run(command.arg(format!("{name}.cpp")).args(["-o", &format!("{name}.obj")]));
    }
    let mut command = Command::new(link);
    command.args(["/nologo", "/debug", "/nodefaultlib", "/entry:start", "/subsystem:console", "/map"]);
    run(command.args(["/out:shapes.exe", "/pdb:shapes.pdb", "shapes.obj", "plain.obj"]));
    let map = std::fs::read_to_string(at("shapes.map")).unwrap();
    Some(Program { image: at("shapes.exe"), pdb: at("shapes.pdb"), map })
}

impl Program {
    /// Returns the identity that a trace of Windows has.
    pub(crate) fn identity(&self) -> WindowsImage {
        let bytes = std::fs::read(&self.image).unwrap();
        let file = PeFile64::parse(&*bytes).unwrap();
        let pdb = file.pdb_info().unwrap().unwrap();
        WindowsImage {
            time_stamp: file.nt_headers().file_header().time_date_stamp.get(LE),
            len_bytes: file.nt_headers().optional_header().size_of_image(),
            pdb: PdbId::new(r"D:\build\shapes.pdb", Guid::from_bytes(pdb.guid()), pdb.age()),
        }
    }

    /// Returns the offset of a function from the image's base, by its decorated name in the linker's map.
    pub(crate) fn offset(&self, name: &str) -> u64 {
        let mut lines = self.map.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let line = lines.find(|words| words.get(1).is_some_and(|word| word.starts_with(name))).unwrap();
        u64::from_str_radix(line[2], 16).unwrap() - 0x1_4000_0000
    }
}
