//! The files that programs in C and C++ need besides the library, for installers.

macro_rules! headers {
    ($($name:literal)*) => { &[$(($name, include_str!(concat!("../include/", $name)))),*] };
}

/// Name and text of each header.
pub const HEADERS: &[(&str, &str)] = headers![
    "TraceLoggingActivity.h" "TraceLoggingProvider.h" "Windows.h" "evntcons.h" "evntprov.h" "evntrace.h" "guiddef.h"
    "openetw.h" "openetw_mc.h" "strsafe.h" "tchar.h" "tdh.h" "windows.h" "winmeta.h" "wmistr.h"
];

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
