//! The collections, and the order in which they are read: what is read later replaces names read earlier.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use etw_schema_windows::Release;
use openetw::Guid;
use openetw::schema::{Provider, manifest};

use super::collect::Collected;
use super::tsv;

/// Build, name, folder of exported manifests, folder of lists of fields.
const RELEASES: [(u32, &str, &str, &str); 20] = [
    (7600, "7", "Manifests-Win7-7600", ""),
    (10_240, "10 1507", "Manifests-Win10-10240", ""),
    (10_586, "10 1511", "", OF_1511),
    (14_393, "10 1607", "", "Windows-10-1607"),
    (15_063, "10 1703", "", "Windows-10-1703"),
    (16_299, "10 1709", "", "Windows-10-1709"),
    (17_134, "10 1803", "Manifests-Win10-17134", "Windows-10-1803"),
    (17_763, "10 1809", "", "Windows-10-1809"),
    (18_362, "10 1903", "", "Windows-10-1903"),
    (18_363, "10 1909", "", "Windows-10-1909"),
    (18_990, "10 Insider 18990", "Manifests-Win10-18990", ""),
    (19_041, "10 2004", "", "Windows-10-2004"),
    (19_042, "10 20H2", "", "Windows-10-2009"),
    (19_043, "10 21H1", "", "Windows-10-21H1"),
    (22_000, "11 21H2", "", "Windows-11-21H2"),
    (22_621, "11 22H2", "", "Windows-11-22H2"),
    (22_631, "11 23H2", "", "Windows-11-23H2"),
    (26_100, "11 24H2", "", "Windows-11-24H2"),
    (26_200, "11 25H2", "", "Windows-11-25H2"),
    (28_000, "11 26H1", "", "Windows-11-26H1"),
];

/// This folder's version.txt names 25H2, whose tables have replaced its own. Only the tables that 25H2 lacks are those
/// of 1511.
const OF_1511: &str = "Windows-10-1511";
const REPLACED_BY: &str = "Windows-11-25H2";

/// Published manifests of providers that ship with Windows.
const MANIFESTS: [&str; 7] = [
    "microsoft-Tx/HTTP_Server.man",
    "microsoft-Tx/IE_Client.man",
    "microsoft-Tx/SystemEvents.man",
    "microsoft-Tx/asp.man",
    "microsoft-Tx/tcp.man",
    "microsoft-Tx/eventing.man",
    "microsoft-msquic/MsQuicEtw.man",
];

/// The .NET runtimes' providers, which are not part of Windows: etw_schema has them, in all versions.
const NOT_OF_WINDOWS: [Guid; 4] = [
    Guid::from_u128(0xe13c0d23_ccbc_4e12_931b_d9cc2eee27e4),
    Guid::from_u128(0xa669021c_c450_4609_a035_5af59af4df18),
    Guid::from_u128(0x763fd754_7086_4dfe_95eb_c01a46faf4ca),
    Guid::from_u128(0xcc2bcbba_16b6_4cf3_8990_d74c2e8af500),
];

/// GUIDs of providers that no manifest names, from public lists of registered providers.
const GUIDS: &str = include_str!("guids.txt");

/// Returns the releases that the pack tells apart.
pub(super) fn releases() -> Vec<Release> {
    RELEASES.iter().map(|(build, name, ..)| Release { build: *build, name: (*name).to_owned() }).collect()
}

/// Reads all collections.
pub(super) fn read(data: &Path) -> Result<Collected> {
    let unpacked = tempfile::tempdir()?;
    for archive in files(&data.join("windows-providers"), "zst")? {
        unpack(&archive, unpacked.path())?;
    }
    let tables = unpacked.path().join("jdu");
    let mut collected = Collected::default();
    for line in GUIDS.lines().filter(|line| !line.starts_with('#')) {
        let (guid, name) = line.split_once(' ').context("guids.txt")?;
        collected.name(name, guid.parse::<Guid>().with_context(|| line.to_owned())?);
    }
    for file in MANIFESTS {
        let path = data.join("manifests").join(file);
        let label = Path::new(file).file_name().unwrap_or_default().to_string_lossy();
        for provider in manifest_of(&path, &label)? {
            collected.add(provider, None, &label);
        }
    }
    for (number, (.., folder, _)) in
        RELEASES.iter().enumerate().filter(|(_, (.., folder, _))| !folder.is_empty())
    {
        for path in files(&unpacked.path().join(folder), "xml")? {
            for provider in manifest_of(&path, "exported manifests")? {
                collected.add(provider, Some(number), "exported manifests");
            }
        }
    }
    let replaced = names_of(&tables.join(REPLACED_BY))?;
    for (number, (.., folder)) in RELEASES.iter().enumerate().filter(|(_, (.., folder))| !folder.is_empty()) {
        for (kind, parse) in [("manifest", tsv::manifest as fn(&str) -> Result<_>), ("mof", tsv::classic)] {
            for path in files(&tables.join(folder).join(kind), "tsv")? {
                if *folder == OF_1511 && replaced.contains(path.file_name().unwrap_or_default()) {
                    continue;
                }
                let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
                let rows = parse(&text).with_context(|| path.display().to_string())?;
                collected.add_rows(rows, number);
            }
        }
    }
    NOT_OF_WINDOWS.iter().for_each(|guid| collected.remove(guid));
    Ok(collected)
}

fn manifest_of(path: &Path, origin: &str) -> Result<Vec<Provider>> {
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    Ok(manifest::read(&bytes, origin).providers)
}

fn unpack(archive: &Path, into: &Path) -> Result<()> {
    let command = "zstd -d -q --long=28 -c \"$0\" | tar x -C \"$1\"";
    let status = Command::new("sh").args(["-e", "-c", command]).arg(archive).arg(into).status()?;
    ensure!(status.success(), "cannot unpack {}: zstd and tar are needed", archive.display());
    Ok(())
}

/// Returns the files of a directory with an extension, sorted by name.
fn files(directory: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let mut by_name = BTreeMap::new();
    for entry in entries {
        let entry = entry?;
        if entry.path().extension().is_some_and(|found| found == extension) {
            by_name.insert(entry.file_name(), entry.path());
        }
    }
    Ok(by_name.into_values().collect())
}

/// Returns the names of the tables of a release.
fn names_of(release: &Path) -> Result<BTreeSet<std::ffi::OsString>> {
    let mut names = BTreeSet::new();
    for kind in ["manifest", "mof"] {
        let tables = files(&release.join(kind), "tsv")?;
        names.extend(tables.iter().filter_map(|path| Some(path.file_name()?.to_owned())));
    }
    Ok(names)
}
