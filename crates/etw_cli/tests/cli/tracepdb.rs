//! `tracepdb`: published PDB files, and one made of a published TMF file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::Etw;

fn data(path: &str) -> Option<PathBuf> {
    etw_testkit::data::data_dir().map(|data| data.join(path)).filter(|path| path.exists())
}

/// Builds a PDB of 4096-byte blocks whose one module has these annotations: header, its block list, the directory, DBI,
/// and the symbols.
fn pdb(annotations: &[Vec<&str>]) -> Vec<u8> {
    let mut symbols = 4u32.to_le_bytes().to_vec();
    for strings in annotations {
        let mut text: Vec<u8> = strings.iter().flat_map(|text| [text.as_bytes(), &[0]].concat()).collect();
        text.resize(text.len().next_multiple_of(4), 0);
        symbols.extend((10 + text.len() as u16).to_le_bytes());
        symbols.extend(0x1019u16.to_le_bytes());
        symbols.extend([0; 6]);
        symbols.extend((strings.len() as u16).to_le_bytes());
        symbols.extend(text);
    }
    let blocks = symbols.len().div_ceil(4096) as u32;
    let mut file = vec![0; 4096 * (4 + blocks as usize)];
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"Microsoft C/C++ MSF 7.00\r\n\x1aDS\0\0\0");
    // Streams 0 to 2 do not exist, 3 is DBI, 4 the symbols.
    let sizes = [5, u32::MAX, 0, 0, 160, symbols.len() as u32];
    let directory: Vec<u32> =
        sizes.into_iter().chain([3]).chain((0..blocks).map(|block| 4 + block)).collect();
    for (at, value) in [(32, 4096), (40, 4 + blocks), (44, 4 * directory.len() as u32), (52, 1), (4096, 2)] {
        put(at, &value.to_le_bytes());
    }
    for (at, value) in directory.iter().enumerate() {
        put(2 * 4096 + 4 * at, &value.to_le_bytes());
    }
    put(3 * 4096 + 24, &76u32.to_le_bytes());
    put(3 * 4096 + 64 + 34, &4u16.to_le_bytes());
    put(3 * 4096 + 64 + 36, &(symbols.len() as u32).to_le_bytes());
    put(3 * 4096 + 128, b"m.obj\0m.lib\0");
    put(4 * 4096, &symbols);
    file
}

/// The annotations of which `tracepdb` of Windows made a TMF file: one for each message.
fn annotations(tmf: &str) -> Vec<Vec<&str>> {
    let lines = tmf.lines().filter(|line| !line.starts_with("// PDB:"));
    let mut head = "";
    let mut annotations: Vec<Vec<&str>> = Vec::new();
    for line in lines {
        match line.starts_with("#typev") {
            true => annotations.push(vec!["TMF:", head, line]),
            false if annotations.is_empty() => head = line,
            false => annotations.last_mut().unwrap().push(line),
        }
    }
    annotations
}

#[test]
fn a_published_tmf_file_comes_out_as_it_was() {
    let Some(directory) = data("wpp/nefarius-Nefarius.Utilities.ETW") else { return };
    let etw = Etw::new();
    let mut count = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let sections: Vec<&str> = text.split_inclusive("\n// PDB:  Last").collect();
        // Some were made of two PDB files with the same messages.
        if sections.len() != 2 {
            continue;
        }
        count += 1;
        let name = text.lines().next().unwrap().strip_prefix("// PDB:  ").unwrap();
        std::fs::write(etw.path(name), pdb(&annotations(&text))).unwrap();
        etw.ok(&["tracepdb", "-f", name, "-p", "tmf"]);
        let written = Path::new(&etw.path("tmf")).join(path.file_name().unwrap());
        let written = std::fs::read_to_string(written).unwrap();
        // The second line is the time of the file.
        let lines = |text: &str| {
            text.lines()
                .enumerate()
                .filter(|line| line.0 != 1)
                .map(|line| line.1.to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(lines(&written), lines(&text), "{}", path.display());
        assert!(written.lines().nth(1).unwrap().ends_with(" (UTC) [Tracepdb]"));
    }
    assert_eq!(count, 41);
}

#[test]
fn tmf_files_of_a_published_pdb_have_all_its_messages() {
    let Some(pdb) = data("wpp/winsiderss-systeminformer/systeminformer-amd64.pdb") else { return };
    let etw = Etw::new();
    std::fs::create_dir(etw.path("symbols")).unwrap();
    std::fs::copy(&pdb, etw.path("symbols/systeminformer.pdb")).unwrap();
    let shown = etw.ok(&["tracepdb", "-s", "-v", "-p", "tmf"]);
    assert!(shown.contains("symbols/systeminformer.pdb: 637 message formats\n"), "{shown}");
    assert!(shown.ends_with("37 TMF files from 1 PDB files\n"), "{shown}");
    let files = std::fs::read_dir(etw.path("tmf")).unwrap();
    assert_eq!(files.count(), 37);
    // The store reads the same messages from them as from the PDB.
    let events = |schemas: &str, provider: &str| {
        let text = etw.ok(&["provider", "show", provider, "--schema", schemas, "--format", "json"]);
        text.replace(schemas, "")
    };
    for guid in ["282b8ebf-323b-3dae-ad75-6e46f290663c", "af91d442-93bc-399e-832f-80820ab44a49"] {
        let tmf = std::fs::read_to_string(etw.path(&format!("tmf/{guid}.tmf"))).unwrap();
        assert!(tmf.starts_with("// PDB:  systeminformer.pdb\n// PDB:  Last Updated :"), "{tmf}");
        let numbers: BTreeSet<&str> =
            tmf.lines().filter_map(|line| line.strip_prefix("#typev ")?.split(' ').nth(1)).collect();
        assert_eq!(numbers.len(), tmf.matches("#typev ").count());
        let guid = format!("{{{guid}}}");
        let (from_tmf, from_pdb) = (events(&etw.path("tmf"), &guid), events(pdb.to_str().unwrap(), &guid));
        let without_origin = |text: &str| {
            let mut value: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
            value.as_object_mut().unwrap().retain(|key, _| !key.eq_ignore_ascii_case("origin"));
            value
        };
        assert_eq!(without_origin(&from_tmf), without_origin(&from_pdb));
    }
    // A program names its PDB file.
    std::fs::write(etw.path("systeminformer.sys"), "MZ").unwrap();
    etw.ok(&["tracepdb", "-i", "systeminformer.sys", "-r", "symbols", "-p", "again"]);
    assert_eq!(std::fs::read_dir(etw.path("again")).unwrap().count(), 37);
}

#[test]
fn what_has_no_formats_is_refused() {
    let etw = Etw::new();
    std::fs::write(etw.path("empty.pdb"), pdb(&[])).unwrap();
    std::fs::write(etw.path("text.pdb"), "no PDB").unwrap();
    let annotation = vec![
        "TMF:",
        "37753236-c81f-505e-d40a-128d3bb2b5ff d // SRC=d.c MJ= MN=",
        "#typev d_c1 10 \"%0x\" // FUNC=f",
        "{",
        "}",
    ];
    std::fs::write(etw.path("one.pdb"), pdb(&[annotation.clone(), annotation])).unwrap();
    for (words, status, expected) in [
        (&["-f", "empty.pdb"][..], 144, "no message formats; public symbols lack them"),
        (&["-f", "text.pdb"], 144, "not a PDB file"),
        (&["-f", "missing.pdb"], 2, "missing.pdb: no such file"),
        (&["-f", "t*.pdb;one.pdb"], 31, "1 of 2 PDB files could not be read"),
        (&["-c"], 50, "TMC files are for TraceView"),
    ] {
        let output = etw.run(&[&["tracepdb"][..], words].concat());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(status) && text.contains(expected), "{words:?}: {output:?}");
    }
    // What could be read is written, and an annotation of two objects once.
    let text = std::fs::read_to_string(etw.path("37753236-c81f-505e-d40a-128d3bb2b5ff.tmf")).unwrap();
    assert_eq!(text.matches("#typev").count(), 1, "{text}");
}
