//! The files that programs in C and C++ need besides the library, for installers.

macro_rules! headers {
    ($($name:literal)*) => { &[$(($name, include_str!(concat!("../include/", $name)))),*] };
}

/// Name and text of each header.
const HEADERS: &[(&str, &str)] = headers![
    "TraceLoggingActivity.h" "TraceLoggingProvider.h" "conio.h" "evntcons.h" "evntprov.h"
    "evntrace.h" "netiodef.h" "ntverp.h" "openetw.h" "openetw_mc.h" "openetw_system.h" "openetw_text.h" "poppack.h"
    "process.h" "pshpack1.h" "pshpack2.h" "pshpack4.h" "pshpack8.h" "relogger.h" "sal.h" "strsafe.h" "tchar.h" "tdh.h"
    "unknwn.h" "versionhelpers.h" "windows.h" "winmeta.h" "winsock2.h" "winternl.h" "wmistr.h"
];

macro_rules! aliases {
    ($($header:literal: $($alias:literal)*;)*) => {
        &[$($(($alias, concat!("/* Another name of ", $header, ". */\n#include <", $header, ">\n"))),*),*]
    };
}

/// Other names of headers, which programs include: of parts of the Windows SDK, and with other cases. They are no files
/// here, since some file systems cannot tell cases apart.
const ALIASES: &[(&str, &str)] = aliases! {
    "TraceLoggingActivity.h": "traceloggingactivity.h";
    "TraceLoggingProvider.h": "traceloggingprovider.h";
    "evntcons.h": "Evntcons.h";
    "evntprov.h": "Evntprov.h";
    "evntrace.h": "Evntrace.h";
    "process.h": "Process.h";
    "relogger.h": "Relogger.h";
    "sal.h": "SpecStrings.h" "Specstrings.h" "specstrings.h" "driverspecs.h" "no_sal2.h";
    "strsafe.h": "StrSafe.h" "Strsafe.h";
    "tdh.h": "TDH.h" "Tdh.h";
    "unknwn.h": "comutil.h" "comdef.h" "Unknwn.h" "cguid.h" "combaseapi.h" "oaidl.h" "objbase.h" "ole2.h" "oleauto.h" "wbemcli.h" "wbemidl.h" "Wbemidl.h" "wtypes.h";
    "versionhelpers.h": "VersionHelpers.h";
    "windows.h": "Windows.h" "basetsd.h" "consoleapi.h" "debugapi.h" "errhandlingapi.h" "guiddef.h" "handleapi.h" "heapapi.h" "initguid.h" "minwindef.h" "ntstatus.h" "processthreadsapi.h" "profileapi.h" "rpc.h" "sddl.h" "sdkddkver.h" "stringapiset.h" "synchapi.h" "sysinfoapi.h" "timezoneapi.h" "winapifamily.h" "winbase.h" "windef.h" "winerror.h" "winnls.h" "winnt.h" "intsafe.h" "shellapi.h" "WINDOWS.H" "WinBase.h" "WinDef.h" "WinError.h" "WinNT.h" "WinNls.h" "WinUser.h" "Windef.h" "Sddl.h" "Rpc.h" "IntSafe.h" "Shellapi.h" "lmcons.h" "winuser.h";
    "winmeta.h": "Winmeta.h";
    "winsock2.h": "In6addr.h" "ifdef.h" "netioapi.h" "WinSock2.h" "Ws2ipdef.h" "Ws2tcpip.h" "Winsock2.h" "in6addr.h" "inaddr.h" "mstcpip.h" "ws2def.h" "ws2ipdef.h" "ws2tcpip.h";
    "winternl.h": "Winternl.h";
    "wmistr.h": "Wmistr.h";
};

/// Returns name and text of each header.
pub fn headers() -> impl Iterator<Item = (&'static str, &'static str)> {
    HEADERS.iter().chain(ALIASES).copied()
}

/// The pkg-config file; `@PREFIX@` and `@VERSION@` stand for the directory and the version.
pub const PKG_CONFIG: &str = include_str!("../dev/openetw.pc.in");

/// The CMake package (`openetwConfig.cmake`).
pub const CMAKE: &str = include_str!("../dev/openetwConfig.cmake");

/// The CMake package's version (`openetwConfigVersion.cmake`); `@VERSION@` stands for it.
pub const CMAKE_VERSION: &str = include_str!("../dev/openetwConfigVersion.cmake.in");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_header_is_listed() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
        let mut found: Vec<String> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        found.sort();
        assert_eq!(found, HEADERS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }
}
