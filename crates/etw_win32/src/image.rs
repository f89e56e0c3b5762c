//! The headers of the DLL, as Wine reads them from an ELF library.
//!
//! Wine's loader takes the symbol `__wine_spec_nt_header` for the headers of a PE image. It builds the image at
//! `ImageBase`, rounded up to 64 KiB, where one page must be free for it. Relative addresses in the tables count from the
//! headers, and the loader makes them count from the base; code is given by pointers, which become relative too.
//! (`map_so_dll` in Wine's `dlls/ntdll/unix/loader.c`.)
//!
//! A compiler cannot compute such addresses, so a constructor fills in the tables before the loader looks for the symbol.

// UNSAFETY: writes a static variable that Wine reads, and calls functions whose addresses Wine has written there.
#![expect(unsafe_code)]

use std::ffi::c_void;
use std::mem::{offset_of, size_of};

use crate::functions::EXPORTS;

/// Functions of Wine, by library. Their addresses are in [`Image::addresses`] in this order.
const IMPORTS: [(&str, &[&str]); 2] = [
    (
        "kernel32.dll",
        &[
            "CreateThread",
            "GetProcessHeap",
            "HeapFree",
            "IsBadReadPtr",
            "QueryPerformanceCounter",
            "QueryPerformanceFrequency",
            "VirtualProtect",
            "wine_get_dos_file_name",
            "wine_get_unix_file_name",
        ],
    ),
    ("ntdll.dll", &["RtlDllShutdownInProgress"]),
];

/// A function of Wine: its place in [`Image::addresses`].
#[derive(Debug, Clone, Copy)]
pub(crate) enum Import {
    CreateThread = 0,
    GetProcessHeap = 1,
    HeapFree = 2,
    IsBadReadPtr = 3,
    QueryPerformanceCounter = 4,
    QueryPerformanceFrequency = 5,
    VirtualProtect = 6,
    GetDosFileName = 7,
    GetUnixFileName = 8,
    // A zero ends the functions of a library.
    ShutdownInProgress = 10,
}

/// Functions of all libraries, with a zero after those of each.
const ADDRESSES: usize = 12;
/// Bytes of a name of an import.
const NAME: usize = 30;

// Room for the headers that Wine writes: 64 KiB to round the address up, and a page.
std::arch::global_asm!(
    ".section .init, \"ax\", @progbits",
    // The section is a part of the function `_init`.
    "jmp 2f",
    ".hidden openetw_pe_header",
    ".globl openetw_pe_header",
    "openetw_pe_header:",
    ".skip 69632",
    "2:",
    ".text",
);

unsafe extern "C" {
    static openetw_pe_header: u8;
}

/// `IMAGE_NT_HEADERS64`, and the tables that it refers to.
#[repr(C)]
struct Image {
    signature: u32,
    machine: u16,
    number_of_sections: u16,
    time_date_stamp: u32,
    symbols: [u32; 2],
    size_of_optional_header: u16,
    characteristics: u16,
    magic: u16,
    linker_version: u16,
    sizes: [u32; 3],
    /// `AddressOfEntryPoint` and `BaseOfCode`; the loader expects a pointer, null here.
    entry_point: u64,
    image_base: u64,
    section_alignment: u32,
    file_alignment: u32,
    versions: [u16; 6],
    win32_version: u32,
    size_of_image: u32,
    size_of_headers: u32,
    checksum: u32,
    subsystem: u16,
    dll_characteristics: u16,
    stack_and_heap: [u64; 4],
    loader_flags: u32,
    number_of_directories: u32,
    directories: [[u32; 2]; 16],
    exports: ExportDirectory,
    functions: [u64; EXPORTS.len()],
    names: [u32; EXPORTS.len()],
    ordinals: [u16; EXPORTS.len()],
    imports: [ImportDescriptor; IMPORTS.len() + 1],
    libraries: [[u8; 16]; IMPORTS.len()],
    import_names: [ImportName; ADDRESSES],
    lookup: [u64; ADDRESSES],
    addresses: [u64; ADDRESSES],
}

/// `IMAGE_EXPORT_DIRECTORY`.
#[repr(C)]
struct ExportDirectory {
    characteristics: u32,
    time_date_stamp: u32,
    version: u32,
    name: u32,
    base: u32,
    number_of_functions: u32,
    number_of_names: u32,
    functions: u32,
    names: u32,
    ordinals: u32,
}

/// `IMAGE_IMPORT_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy)]
struct ImportDescriptor {
    lookup: u32,
    time_date_stamp: u32,
    forwarder_chain: u32,
    name: u32,
    addresses: u32,
}

/// `IMAGE_IMPORT_BY_NAME`.
#[repr(C)]
#[derive(Clone, Copy)]
struct ImportName {
    hint: u16,
    name: [u8; NAME],
}

/// The headers, under the name that Wine's loader looks for.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the loader looks for this name")]
static mut __wine_spec_nt_header: Image = Image {
    signature: 0x4550,
    machine: 0x8664,
    number_of_sections: 0,
    time_date_stamp: 0,
    symbols: [0; 2],
    size_of_optional_header: 240,
    // A DLL, of an executable image, with large addresses.
    characteristics: 0x2022,
    magic: 0x20B,
    linker_version: 0,
    sizes: [0; 3],
    entry_point: 0,
    image_base: 0,
    section_alignment: 0x1000,
    file_alignment: 0x1000,
    versions: [4, 0, 0, 0, 4, 0],
    win32_version: 0,
    size_of_image: size_of::<Image>() as u32,
    size_of_headers: 0x1000,
    checksum: 0,
    // Console; data cannot be executed.
    subsystem: 3,
    dll_characteristics: 0x100,
    stack_and_heap: [0x10_0000, 0x1000, 0x10_0000, 0x1000],
    loader_flags: 0,
    number_of_directories: 16,
    directories: [[0; 2]; 16],
    exports: ExportDirectory {
        characteristics: 0,
        time_date_stamp: 0,
        version: 0,
        name: 0,
        base: 1,
        number_of_functions: EXPORTS.len() as u32,
        number_of_names: EXPORTS.len() as u32,
        functions: 0,
        names: 0,
        ordinals: 0,
    },
    functions: [0; EXPORTS.len()],
    names: [0; EXPORTS.len()],
    ordinals: [0; EXPORTS.len()],
    imports: [ImportDescriptor { lookup: 0, time_date_stamp: 0, forwarder_chain: 0, name: 0, addresses: 0 };
        IMPORTS.len() + 1],
    libraries: [[0; 16]; IMPORTS.len()],
    import_names: [ImportName { hint: 0, name: [0; NAME] }; ADDRESSES],
    lookup: [0; ADDRESSES],
    addresses: [0; ADDRESSES],
};

/// Runs when the library is loaded, before Wine's loader reads the headers.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = construct;

extern "C" fn construct() {
    let place = &raw mut __wine_spec_nt_header;
    // SAFETY: the loader of ELF runs this once, before anything else uses the image.
    fill(unsafe { &mut *place });
    crate::guest::install();
}

/// Fills in what depends on addresses.
fn fill(image: &mut Image) {
    let start = (&raw const *image).addr();
    let relative = |address: usize| address.wrapping_sub(start) as u32;
    image.image_base = (&raw const openetw_pe_header).addr() as u64;
    let mut sorted = EXPORTS;
    // The loader searches the names by halving.
    sorted.sort_unstable_by_key(|export| export.name);
    for (index, export) in sorted.iter().enumerate() {
        if let (Some(function), Some(name), Some(ordinal)) =
            (image.functions.get_mut(index), image.names.get_mut(index), image.ordinals.get_mut(index))
        {
            *function = export.function.0.addr() as u64;
            *name = relative(export.name.as_ptr().addr());
            *ordinal = index as u16;
        }
    }
    image.exports.name = relative(DLL_NAME.as_ptr().addr());
    image.exports.functions = offset_of!(Image, functions) as u32;
    image.exports.names = offset_of!(Image, names) as u32;
    image.exports.ordinals = offset_of!(Image, ordinals) as u32;
    let mut next = 0;
    let libraries = image.imports.iter_mut().zip(&mut image.libraries).enumerate();
    for ((index, (import, place)), (library, functions)) in libraries.zip(IMPORTS) {
        place.iter_mut().zip(library.bytes()).for_each(|(to, from)| *to = from);
        import.name = (offset_of!(Image, libraries) + 16 * index) as u32;
        import.lookup = (offset_of!(Image, lookup) + 8 * next) as u32;
        import.addresses = (offset_of!(Image, addresses) + 8 * next) as u32;
        for function in functions {
            let name = offset_of!(Image, import_names) + size_of::<ImportName>() * next;
            if let Some(place) = image.import_names.get_mut(next) {
                place.name.iter_mut().zip(function.bytes()).for_each(|(to, from)| *to = from);
            }
            [&mut image.lookup, &mut image.addresses]
                .into_iter()
                .filter_map(|table| table.get_mut(next))
                .for_each(|place| *place = name as u64);
            next += 1;
        }
        next += 1;
    }
    let [exports, imports, ..] = &mut image.directories;
    *exports = [offset_of!(Image, exports) as u32, size_of::<ExportDirectory>() as u32];
    *imports =
        [offset_of!(Image, imports) as u32, (size_of::<ImportDescriptor>() * (IMPORTS.len() + 1)) as u32];
}

/// The name of the DLL, with a zero.
const DLL_NAME: &str = "etw_win32.dll\0";

/// Returns the address of a function of Wine; null if the library was loaded by something else than Wine.
pub(crate) fn import(function: Import) -> *const c_void {
    let index = function as usize;
    let place = &raw const __wine_spec_nt_header;
    // SAFETY: Wine's loader wrote the table before it called any function of the library. Without Wine the value is the
    // offset that `fill` wrote.
    let address = unsafe { (&raw const (*place).addresses[index]).read_volatile() };
    if address < size_of::<Image>() as u64 { std::ptr::null() } else { address as *const c_void }
}
