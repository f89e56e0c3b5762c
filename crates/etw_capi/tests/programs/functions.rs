//! The table of functions in `docs/c.md`: as complete as Microsoft's list, and true of the headers and the library.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{Workshop, has};

/// The functions of ETW in Microsoft's metadata of Windows.
const FUNCTIONS: &str = "
    CloseTrace ControlTraceA ControlTraceW CreateTraceInstanceId CveEventWrite EnableTrace EnableTraceEx
    EnableTraceEx2 EnumerateTraceGuids EnumerateTraceGuidsEx EventAccessControl EventAccessQuery
    EventAccessRemove EventActivityIdControl EventEnabled EventProviderEnabled EventRegister
    EventSetInformation EventUnregister EventWrite EventWriteEx EventWriteString EventWriteTransfer
    FlushTraceA FlushTraceW GetTraceEnableFlags GetTraceEnableLevel GetTraceLoggerHandle OpenTraceA
    OpenTraceFromBufferStream OpenTraceFromFile OpenTraceFromRealTimeLogger
    OpenTraceFromRealTimeLoggerWithAllocationOptions OpenTraceW ProcessTrace
    ProcessTraceAddBufferToBufferStream ProcessTraceBufferDecrementReference
    ProcessTraceBufferIncrementReference QueryAllTracesA QueryAllTracesW QueryTraceA
    QueryTraceProcessingHandle QueryTraceW RegisterTraceGuidsA RegisterTraceGuidsW RemoveTraceCallback
    SetTraceCallback StartTraceA StartTraceW StopTraceA StopTraceW TdhAggregatePayloadFilters
    TdhCleanupPayloadEventFilterDescriptor TdhCloseDecodingHandle TdhCreatePayloadFilter
    TdhDeletePayloadFilter TdhEnumerateManifestProviderEvents TdhEnumerateProviderFieldInformation
    TdhEnumerateProviderFilters TdhEnumerateProviders TdhEnumerateProvidersForDecodingSource TdhFormatProperty
    TdhGetAllEventsInformation TdhGetDecodingParameter TdhGetEventInformation TdhGetEventMapInformation TdhGetManifestEventInformation
    TdhGetProperty TdhGetPropertySize TdhGetWppMessage TdhGetWppProperty TdhLoadManifest
    TdhLoadManifestFromBinary TdhLoadManifestFromMemory TdhOpenDecodingHandle TdhQueryProviderFieldInformation
    TdhSetDecodingParameter TdhUnloadManifest TdhUnloadManifestFromMemory TraceEvent TraceEventInstance
    TraceMessage TraceMessageVa TraceQueryInformation TraceSetInformation UnregisterTraceGuids UpdateTraceA
    UpdateTraceW
";

/// Of TraceLogging, what is a template in C++ and not a macro.
const CLASSES: [&str; 2] = ["TraceLoggingActivity", "TraceLoggingThreadActivity"];

/// Reads the table: what is written in code, and its state. Names of headers have a dot, and types of COM start with `I`.
fn table() -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/c.md");
    let text = fs::read_to_string(path).unwrap();
    let (_, rest) = text.split_once("## What there is").unwrap();
    let mut names = BTreeMap::new();
    for line in
        rest.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'))
    {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        for name in cells[3].split('`').skip(1).step_by(2) {
            assert_eq!(names.insert(name.to_owned(), cells[2].to_owned()), None, "{name} is listed twice");
        }
    }
    names
}

fn is_function(name: &str) -> bool {
    FUNCTIONS.split_whitespace().any(|one| one == name)
}

#[test]
fn the_table_has_every_function_of_windows() {
    let table = table();
    for name in FUNCTIONS.split_whitespace() {
        let both = name.strip_suffix(['A', 'W']).filter(|both| is_function(&format!("{both}A")));
        let listed = both.unwrap_or(name);
        assert!(table.contains_key(listed), "{listed} is not in docs/c.md");
    }
}

/// What is complete, partly there or refused compiles and links; what is absent is in no header.
#[test]
fn the_table_is_true_of_the_headers_and_the_library() {
    if !has("gcc") || !has("g++") {
        return;
    }
    let workshop = Workshop::new();
    let (mut functions, mut macros) = (String::new(), String::new());
    for (name, state) in table() {
        match state.as_str() {
            "absent" => {
                for (header, text) in etw_capi::development::headers() {
                    assert!(!text.contains(&name), "{name} is in {header}");
                }
            }
            "complete" | "partly" | "refused" => {
                for suffix in
                    ["", "A", "W"].into_iter().filter(|suffix| is_function(&format!("{name}{suffix}")))
                {
                    // A macro or a function.
                    writeln!(functions, "#ifndef {name}{suffix}\n  use((void *)&{name}{suffix});\n#endif")
                        .unwrap();
                }
                if name.to_lowercase().starts_with("tracelogging") && !CLASSES.contains(&name.as_str()) {
                    writeln!(macros, "#ifndef {name}\n#error {name} is missing\n#endif").unwrap();
                }
            }
            other => panic!("{name} is '{other}'"),
        }
    }
    assert!(functions.len() > 2000 && macros.len() > 500, "the table is not read");
    let program = format!(
        "#include <evntcons.h>\n#include <evntrace.h>\n#include <tdh.h>\n\
         static int use(void *function) {{ return function == 0; }}\nint main(void) {{\n{functions}return 0;\n}}\n"
    );
    fs::write(workshop.path("functions.c"), program).unwrap();
    let built = workshop.compile(&["gcc", "-Wno-pedantic"], &workshop.path("functions.c"));
    assert_eq!(workshop.run(&built, &[]), "");
    let program = format!("#include <TraceLoggingActivity.h>\n{macros}int main() {{}}\n");
    fs::write(workshop.path("macros.cpp"), program).unwrap();
    let output = Command::new("g++")
        .arg("-fsyntax-only")
        .arg("-I")
        .arg(workshop.path("include"))
        .arg(workshop.path("macros.cpp"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
