//! Which modules are parts of the system.

/// Returns whether the file at a path is a part of the system or of .NET, and not of a program on it.
///
/// On Windows these are the files below `Windows`, on Linux those below `/lib` and `/usr/lib` (and `/lib64`,
/// `/usr/libexec`, …), and on both the shared files of .NET (`dotnet/shared`).
pub(crate) fn is_system_path(path: &str) -> bool {
    let parts = path.split(['/', '\\']).filter(|part| !part.is_empty());
    let parts: Vec<String> = parts.map(str::to_ascii_lowercase).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    if parts.windows(2).any(|pair| pair == ["dotnet", "shared"]) {
        return true;
    }
    if path.starts_with('/') {
        return match parts.as_slice() {
            ["usr", second, ..] => second.starts_with("lib"),
            [first, ..] => first.starts_with("lib"),
            [] => false,
        };
    }
    let mut parts = parts.as_slice();
    // A volume: `C:`, `\??\C:`, `\Device\HarddiskVolume2`.
    if let ["??", rest @ ..] = parts {
        parts = rest;
    }
    match parts {
        ["device", _, rest @ ..] => parts = rest,
        [volume, rest @ ..] if volume.ends_with(':') => parts = rest,
        _ => {}
    }
    // The last part is the file.
    matches!(parts, ["windows" | "systemroot", _, ..] | ["[vdso]"])
}

/// Returns whether an assembly of .NET is a part of .NET.
pub(crate) fn is_system_assembly(name: &str) -> bool {
    let is_one = |known: &str| name.eq_ignore_ascii_case(known);
    let starts = |start: &str| name.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start));
    starts("System.") || starts("Microsoft.") || ["System", "mscorlib", "netstandard"].into_iter().any(is_one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_system_and_of_programs() {
        for path in [
            r"\Windows\System32\ntdll.dll",
            r"C:\Windows\System32\drivers\tcpip.sys",
            r"\Device\HarddiskVolume2\Windows\SysWOW64\kernel32.dll",
            r"\??\C:\WINDOWS\system32\win32k.sys",
            r"\SystemRoot\system32\ntoskrnl.exe",
            r"C:\Program Files\dotnet\shared\Microsoft.NETCore.App\8.0.0\coreclr.dll",
            "/usr/lib/x86_64-linux-gnu/libc.so.6",
            "/lib64/ld-linux-x86-64.so.2",
            "/usr/share/dotnet/shared/Microsoft.NETCore.App/8.0.0/libcoreclr.so",
            "[vdso]",
        ] {
            assert!(is_system_path(path), "{path}");
        }
        for path in [
            r"C:\Users\me\Windows\tool.exe",
            r"\Device\HarddiskVolume2\Program Files\Tool\tool.dll",
            r"C:\windows",
            "/usr/bin/make",
            "/usr/local/lib/libmine.so",
            "/home/me/lib/libmine.so",
            "tool.exe",
            "",
        ] {
            assert!(!is_system_path(path), "{path}");
        }
    }

    #[test]
    fn assemblies_of_dotnet() {
        for name in ["System.Private.CoreLib", "mscorlib", "system", "Microsoft.Extensions.Logging"] {
            assert!(is_system_assembly(name), "{name}");
        }
        for name in ["Systematic", "MyApp", "é", ""] {
            assert!(!is_system_assembly(name), "{name}");
        }
    }
}
