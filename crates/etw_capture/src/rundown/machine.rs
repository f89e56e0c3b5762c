//! The machine: processors, memory, disks, file systems, network interfaces and interrupts.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use etw_kernel_events::classes::{
    BuildInfo, Cpu, Irq, LogDisk, Nic, PhyDisk, Platform, ProcGroup, Processor,
};

use super::process::mask;
use super::{Out, number_of, text_of};
use crate::linux;

/// Writes all events of the machine.
pub(super) fn run(proc: &Path, sys: &Path, out: &mut Out<'_>) {
    out.put(&BuildInfo { build: &text_of(&proc.join("version")) });
    processors(proc, sys, out);
    disks_and_volumes(proc, sys, out);
    interfaces(proc, sys, out);
    interrupts(proc, out);
    let firmware = sys.join("class/dmi/id");
    if firmware.is_dir() {
        let [manufacturer, product_name, bios_date, bios_version] =
            ["sys_vendor", "product_name", "bios_date", "bios_version"]
                .map(|name| text_of(&firmware.join(name)));
        out.put(&Platform {
            manufacturer: &manufacturer,
            product_name: &product_name,
            bios_date: &bios_date,
            bios_version: &bios_version,
        });
    }
}

/// Writes the disks, and the file systems on them.
pub(super) fn disks_and_volumes(proc: &Path, sys: &Path, out: &mut Out<'_>) {
    disks(sys, out);
    volumes(proc, sys, out);
}

/// Returns a mask of the online processors for each group of 64.
fn online(sys: &Path) -> Vec<u64> {
    let text = std::fs::read_to_string(sys.join("devices/system/cpu/online")).unwrap_or_default();
    let mut groups = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) else { continue };
        for number in first..=last.min(4095) {
            if groups.len() <= number / 64 {
                groups.resize(number / 64 + 1, 0);
            }
            groups[number / 64] |= 1 << (number % 64);
        }
    }
    groups
}

/// Returns the number of online processors.
pub(super) fn online_processors(sys: &Path) -> u32 {
    online(sys).iter().map(|group| group.count_ones()).sum()
}

/// A processor as described in `cpuinfo`.
#[derive(Default)]
struct Info {
    mhz: u32,
    family: u16,
    model: u16,
    stepping: u16,
    vendor: String,
    name: String,
    has_nx: bool,
    has_pae: bool,
}

impl Info {
    fn set(&mut self, key: &str, value: &str) {
        match key {
            "cpu MHz" => self.mhz = value.parse::<f64>().unwrap_or(0.0) as u32,
            "cpu family" => self.family = value.parse().unwrap_or(0),
            "model" => self.model = value.parse().unwrap_or(0),
            "stepping" => self.stepping = value.parse().unwrap_or(0),
            "vendor_id" => self.vendor = value.to_owned(),
            "model name" => self.name = value.to_owned(),
            "flags" => {
                let has = |flag| value.split(' ').any(|known| known == flag);
                (self.has_nx, self.has_pae) = (has("nx"), has("pae"));
            }
            // ARM.
            "CPU implementer" => self.vendor = value.to_owned(),
            "CPU part" => self.model = hex16(value),
            "CPU revision" => self.stepping = value.parse().unwrap_or(0),
            "CPU architecture" => self.family = value.parse().unwrap_or(0),
            _ => {}
        }
    }
}

fn hex16(text: &str) -> u16 {
    u16::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or(0)
}

fn processors(proc: &Path, sys: &Path, out: &mut Out<'_>) {
    let text = String::from_utf8_lossy(&std::fs::read(proc.join("cpuinfo")).unwrap_or_default()).into_owned();
    let mut all: Vec<(u32, Info)> = Vec::new();
    for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let (key, value) = (key.trim(), value.trim());
        if key == "processor"
            && let Ok(index) = value.parse()
        {
            all.push((index, Info::default()));
        } else if let Some((_, info)) = all.last_mut() {
            info.set(key, value);
        }
    }
    let groups = online(sys);
    let memory = std::fs::read_to_string(proc.join("meminfo")).unwrap_or_default();
    let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0);
    let domain_name = text_of(&proc.join("sys/kernel/domainname"));
    let page_size = page_size(proc);
    let none = Info::default();
    let first = all.first().map_or(&none, |(_, info)| info);
    out.put(&Cpu {
        mhz: first.mhz,
        processors: groups.iter().map(|group| group.count_ones()).sum(),
        memory_mib: (kib / 1024) as u32,
        page_size,
        allocation_granularity: page_size,
        computer_name: &text_of(&proc.join("sys/kernel/hostname")),
        domain_name: if domain_name == b"(none)" { b"" } else { &domain_name },
        has_hyper_threading: number_of(&sys.join("devices/system/cpu/smt/active")) == Some(1),
        highest_user_address: HIGHEST_USER_ADDRESS,
        architecture: ARCHITECTURE,
        level: first.family,
        revision: first.model << 8 | first.stepping & 0xFF,
        has_pae: first.has_pae,
        has_nx: first.has_nx,
    });
    out.put(&ProcGroup { affinities: &groups });
    for (index, info) in &all {
        let identifier = format!("Family {} Model {} Stepping {}", info.family, info.model, info.stepping);
        out.put(&Processor {
            index: *index,
            mhz: info.mhz,
            name: info.name.as_bytes(),
            vendor: info.vendor.as_bytes(),
            identifier: identifier.as_bytes(),
        });
    }
}

/// `PROCESSOR_ARCHITECTURE_*`; all ones for those that Windows has no number for.
const ARCHITECTURE: u16 = if cfg!(target_arch = "x86_64") {
    9
} else if cfg!(target_arch = "aarch64") {
    12
} else {
    0xFFFF
};

/// Highest address that programs get unless they ask for more, on systems with four levels of page tables.
const HIGHEST_USER_ADDRESS: u64 =
    if cfg!(target_arch = "x86_64") { 0x7FFF_FFFF_EFFF } else { 0xFFFF_FFFF_FFFF };

/// Returns the page size in bytes from this process's auxiliary vector; 4096 if that cannot be read.
pub(super) fn page_size(proc: &Path) -> u32 {
    const AT_PAGESZ: u64 = 6;
    let bytes = std::fs::read(proc.join("self/auxv")).unwrap_or_default();
    let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    let words: Vec<u64> = words.collect();
    let found = words.as_chunks::<2>().0.iter().find(|[key, _]| *key == AT_PAGESZ);
    found.map_or(4096, |[_, size]| *size as u32)
}

/// Parses `major:minor`.
fn device(text: &[u8]) -> Option<(u32, u32)> {
    let (major, minor) = str::from_utf8(text).ok()?.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Writes the disks: block devices of hardware, and others with a size.
fn disks(sys: &Path, out: &mut Out<'_>) {
    let Ok(disks) = std::fs::read_dir(sys.join("block")) else { return };
    for disk in disks.filter_map(Result::ok) {
        let directory = disk.path();
        let Some((major, minor)) = device(&text_of(&directory.join("dev"))) else { continue };
        let sectors = number_of(&directory.join("size")).unwrap_or(0);
        if sectors == 0 {
            continue;
        }
        let parts = std::fs::read_dir(&directory).map_or(0, |entries| {
            entries.filter_map(Result::ok).filter(|entry| entry.path().join("partition").is_file()).count()
        });
        let [vendor, model] = ["device/vendor", "device/model"].map(|name| text_of(&directory.join(name)));
        let model = model.trim_ascii();
        let mut manufacturer = disk.file_name().into_encoded_bytes();
        // A vendor without a model is a number.
        if !model.is_empty() {
            let of_model = [b" (", vendor.trim_ascii(), b" ", model, b")"].concat();
            manufacturer.extend(of_model);
        }
        out.put(&PhyDisk {
            disk_number: linux::disk_number(major, minor),
            bytes_per_sector: number_of(&directory.join("queue/logical_block_size")).unwrap_or(512) as u32,
            // Sizes are in sectors of 512 bytes, whatever the disk's own.
            len_bytes: sectors.saturating_mul(512),
            scsi: scsi_address(&directory),
            manufacturer: &manufacturer,
            partitions: parts as u32,
            has_write_cache: text_of(&directory.join("queue/write_cache")) == b"write back",
        });
    }
}

/// Host, channel, target and unit, which name the device of a disk that is addressed like SCSI; else zeros.
fn scsi_address(disk: &Path) -> [u32; 4] {
    let address = || {
        let link = std::fs::read_link(disk.join("device")).ok()?;
        let mut parts = link.file_name()?.to_str()?.split(':').map(str::parse);
        let address = [parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?];
        parts.next().is_none().then_some(address)
    };
    address().unwrap_or_default()
}

/// Writes the file systems on block devices, each at its first mount point.
fn volumes(proc: &Path, sys: &Path, out: &mut Out<'_>) {
    let Ok(mounts) = File::open(proc.join("self/mountinfo")) else { return };
    let mut seen = Vec::new();
    for line in BufReader::new(mounts).split(b'\n').map_while(Result::ok) {
        // id, parent, major:minor, root, mount point, options, …, "-", file system.
        let mut fields = line.split(|byte| *byte == b' ');
        let Some((major, minor)) = fields.nth(2).and_then(device) else { continue };
        let Some(mount_point) = fields.nth(1) else { continue };
        let Some(file_system) = fields.skip_while(|field| *field != b"-").nth(1) else { continue };
        let directory = sys.join(format!("dev/block/{major}:{minor}"));
        if seen.contains(&(major, minor)) || !directory.is_dir() {
            continue;
        }
        seen.push((major, minor));
        let partition = number_of(&directory.join("partition"));
        let disk = if partition.is_some() { directory.join("..") } else { directory.clone() };
        let Some((disk_major, disk_minor)) = device(&text_of(&disk.join("dev"))) else { continue };
        let bytes = |name| number_of(&directory.join(name)).unwrap_or(0).saturating_mul(512);
        out.put(&LogDisk {
            start_offset: bytes("start"),
            len_bytes: bytes("size"),
            disk_number: linux::disk_number(disk_major, disk_minor),
            mount_point,
            partition_number: partition.unwrap_or(0) as u32,
            bytes_per_sector: number_of(&disk.join("queue/logical_block_size")).unwrap_or(512) as u32,
            file_system,
        });
    }
}

fn interfaces(proc: &Path, sys: &Path, out: &mut Out<'_>) {
    let Ok(interfaces) = std::fs::read_dir(sys.join("class/net")) else { return };
    let text = |name| std::fs::read_to_string(proc.join(name)).unwrap_or_default();
    let v4 = addresses_v4(&text("net/route"), &text("net/fib_trie"));
    let v6 = addresses_v6(&text("net/if_inet6"));
    for interface in interfaces.filter_map(Result::ok) {
        let name = interface.file_name().to_string_lossy().into_owned();
        let Some(index) = number_of(&interface.path().join("ifindex")) else { continue };
        let mut physical_address = [0; 8];
        let address = String::from_utf8_lossy(&text_of(&interface.path().join("address"))).into_owned();
        let bytes = address.split(':').map_while(|byte| u8::from_str_radix(byte, 16).ok());
        let len = physical_address.iter_mut().zip(bytes).map(|(to, byte)| *to = byte).count();
        let own = v4.iter().chain(&v6).filter(|(owner, _)| *owner == name);
        let addresses = own.map(|(_, address)| address.to_string()).collect::<Vec<_>>().join(";");
        out.put(&Nic {
            physical_address,
            physical_address_len: len as u32,
            index: index as u32,
            name: name.as_bytes(),
            ip_addresses: addresses.as_bytes(),
            dns_servers: b"",
        });
    }
}

/// The machine's IPv4 addresses with their interfaces.
///
/// `fib_trie` has the addresses; their interfaces follow from the routes to networks without a gateway, the narrowest
/// first. An address in none of them, as of a point-to-point link, is left out.
fn addresses_v4(routes: &str, trie: &str) -> Vec<(String, IpAddr)> {
    let address =
        |digits: &str| u32::from_str_radix(digits, 16).map(|number| Ipv4Addr::from(number.to_le_bytes()));
    let mut networks = Vec::new();
    for line in routes.lines() {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [name, destination, gateway, _, _, _, _, mask, ..] = fields[..] else { continue };
        let (Ok(destination), Ok(mask)) = (address(destination), address(mask)) else { continue };
        if gateway == "00000000" {
            networks.push((name.to_owned(), u32::from(destination), u32::from(mask)));
        }
    }
    networks.push(("lo".to_owned(), 0x7F00_0000, 0xFF00_0000));
    networks.sort_by_key(|(_, _, mask)| std::cmp::Reverse(*mask));
    let mut found: Vec<(String, IpAddr)> = Vec::new();
    let mut last = None;
    for line in trie.lines() {
        let line = line.trim_start();
        if let Some(text) = line.strip_prefix("|-- ") {
            last = text.trim_end().parse::<Ipv4Addr>().ok();
        } else if line.starts_with("/32 host LOCAL")
            && let Some(local) = last.take()
            && let number = u32::from(local)
            && let Some((name, ..)) = networks.iter().find(|(_, network, mask)| number & mask == *network)
            && !found.contains(&(name.clone(), local.into()))
        {
            found.push((name.clone(), local.into()));
        }
    }
    found
}

/// The machine's IPv6 addresses with their interfaces.
fn addresses_v6(text: &str) -> Vec<(String, IpAddr)> {
    let of_line = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let address = u128::from_str_radix(fields.next()?, 16).ok()?;
        Some((fields.last()?.to_owned(), Ipv6Addr::from(address).into()))
    };
    text.lines().filter_map(of_line).collect()
}

/// Writes the interrupts that have a device.
fn interrupts(proc: &Path, out: &mut Out<'_>) {
    let Ok(mut lines) = File::open(proc.join("interrupts")).map(|file| BufReader::new(file).lines()) else {
        return;
    };
    // The first line counts the columns.
    let Some(Ok(columns)) = lines.next() else { return };
    let columns = columns.split_ascii_whitespace().count();
    for line in lines.map_while(Result::ok) {
        let Some((number, rest)) = line.trim_start().split_once(':') else { continue };
        let Ok(number) = number.parse() else { continue };
        let description: Vec<&str> = rest.split_ascii_whitespace().skip(columns).collect();
        let affinity = mask(&text_of(&proc.join(format!("irq/{number}/smp_affinity"))));
        out.put(&Irq { affinity, number, description: description.join(" ").as_bytes() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_belong_to_interfaces() {
        let routes = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n\
            eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\n\
            eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\n\
            br0\t800200C0\t00000000\t0001\t0\t0\t0\t80FFFFFF\t0\n";
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 127.0.0.1\n        /32 host LOCAL\n     \
            |-- 192.0.2.0\n        /24 link UNICAST\n     |-- 192.0.2.2\n        /32 host LOCAL\n     \
            |-- 192.0.2.129\n        /32 host LOCAL\nLocal:\n     |-- 192.0.2.2\n        /32 host LOCAL\n     \
            |-- 198.51.100.1\n        /32 host LOCAL\n";
        let found: Vec<_> = addresses_v4(routes, trie)
            .into_iter()
            .map(|(name, address)| format!("{name} {address}"))
            .collect();
        assert_eq!(found, ["lo 127.0.0.1", "eth0 192.0.2.2", "br0 192.0.2.129"]);
        let v6 = addresses_v6("fe8000000000000000fc00fffe000001 04 40 20 80     eth0\n\nx\n");
        assert_eq!(v6, [("eth0".to_owned(), "fe80::fc:ff:fe00:1".parse().unwrap())]);
    }
}
