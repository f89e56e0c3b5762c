//! Makes a directory like that of Windows, to measure `etw schema add`:
//!
//! ```sh
//! cargo run -p etw_cli --example windows_disk -- /tmp/disk 20000
//! time etw schema add /tmp/disk/Windows --store /tmp/schemas
//! ```
//!
//! Of a hundred files, 6 are programs with providers, 12 their language files, 62 other programs, and 20 other files.

#![allow(clippy::unwrap_used, reason = "a tool for development")]

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use etw_testkit::compiled_manifest::{compiled_manifest_of, message_table};
use etw_testkit::hive::{self, Publisher};
use etw_testkit::pe::{self, ResourceType};
use openetw::Guid;

/// Size of programs. The part after the resources is a hole.
const PROGRAM_BYTES: u64 = 300 << 10;

fn main() {
    let mut args = std::env::args().skip(1);
    let top = PathBuf::from(args.next().unwrap());
    let count: usize = args.next().unwrap().parse().unwrap();
    let system = top.join("Windows/System32");
    for directory in ["config", "drivers/en-US", "drivers/de-DE", "en-US", "de-DE"] {
        fs::create_dir_all(system.join(directory)).unwrap();
    }
    let texts =
        pe::file(0x409, &[(ResourceType::Name("MUI"), b"x"), (ResourceType::Id(11), &message_table())]);
    let icons = vec![0x5A; 4 << 10];
    let other = pe::file(0, &[(ResourceType::Name("MUI"), b"x"), (ResourceType::Id(3), &icons)]);
    let xml = format!("<assembly>{}</assembly>", "<file name=\"x\"/>".repeat(500)).into_bytes();
    let mut publishers = Vec::new();
    for number in 0..count {
        let directory = if number % 3 == 0 { system.join("drivers") } else { system.clone() };
        match number % 100 {
            0..6 => {
                let guid = Guid::from_u128(number as u128 + 1);
                let manifest = compiled_manifest_of(guid, (number % 2 == 0).then_some("Made"));
                let name = format!("made{number}.dll");
                write(
                    &directory.join(&name),
                    &pe::file(0, &[(ResourceType::Name("WEVT_TEMPLATE"), &manifest)]),
                );
                for language in ["en-US", "de-DE"] {
                    write(&directory.join(language).join(format!("{name}.mui")), &texts);
                }
                let below = if number % 3 == 0 { "drivers\\" } else { "" };
                let file = format!("%SystemRoot%\\system32\\{below}{name}");
                publishers.push(Publisher {
                    guid,
                    name: format!("Made-{number}"),
                    resource_file: file.clone(),
                    message_file: file,
                });
            }
            // The language files.
            6..18 => {}
            18..80 => write(&directory.join(format!("program{number}.exe")), &other),
            80..90 => write(&directory.join(format!("component{number}.xml")), &xml),
            _ => write(&directory.join(format!("data{number}.bin")), &icons),
        }
    }
    fs::write(system.join("config/SOFTWARE"), hive::software(&publishers)).unwrap();
}

fn write(path: &Path, bytes: &[u8]) {
    let mut file = File::create(path).unwrap();
    file.write_all(bytes).unwrap();
    if path.extension().is_some_and(|extension| extension == "exe" || extension == "dll") {
        file.set_len(PROGRAM_BYTES).unwrap();
    }
}
