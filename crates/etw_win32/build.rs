//! Chooses the linker.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ARCH", "x86_64") {
        // Wine needs the room for the headers of a DLL (`image.rs`) at a lower address than all code. GNU ld places the
        // section `.init` first.
        println!("cargo::rustc-cdylib-link-arg=-fuse-ld=bfd");
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,etw_win32.dll,-Bsymbolic");
    }
}
