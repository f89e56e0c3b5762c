//! Class SystemConfig: the machine.

use super::field::{Fixed, Wide};
use super::layout;
use crate::ids;

/// The machine as a whole (`SystemConfig_V3_CPU`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cpu<'a> {
    /// Clock rate in MHz; 0 if unknown.
    pub mhz: u32,
    /// Number of processors.
    pub processors: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Page size in bytes.
    pub page_size: u32,
    /// Granularity of mappings in bytes.
    pub allocation_granularity: u32,
    /// Name of the machine.
    pub computer_name: &'a [u8],
    /// Its domain; empty if it has none.
    pub domain_name: &'a [u8],
    /// Whether processors share cores.
    pub has_hyper_threading: bool,
    /// Highest address of user mode.
    pub highest_user_address: u64,
    /// `PROCESSOR_ARCHITECTURE_*`: 9 for x86-64, 12 for ARM64.
    pub architecture: u16,
    /// Family of the processor.
    pub level: u16,
    /// Model (high byte) and stepping (low byte).
    pub revision: u16,
    /// Whether physical addresses may be wider than 32 bits.
    pub has_pae: bool,
    /// Whether pages can be protected from execution.
    pub has_nx: bool,
}

layout! {
    Cpu<'_>, version 3, |e| System64 ids::SystemConfig::CPU;
    e.mhz, e.processors, e.memory_mib, e.page_size, e.allocation_granularity, Fixed::<256>(e.computer_name),
    Fixed::<134>(e.domain_name), u64::from(e.has_hyper_threading), e.highest_user_address, e.architecture, e.level,
    e.revision, u8::from(e.has_pae), u8::from(e.has_nx), 0_u32,
}

/// A disk (`SystemConfig_V2_PhyDisk`).
///
/// The geometry is the usual one for sizes in cylinders: 255 heads of 63 sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PhyDisk<'a> {
    /// The disk: on Linux, its major and minor number.
    pub disk_number: u32,
    /// Sector size in bytes.
    pub bytes_per_sector: u32,
    /// Size of the disk in bytes.
    pub len_bytes: u64,
    /// Host, channel, target and unit of a disk that is addressed like SCSI.
    pub scsi: [u32; 4],
    /// The name of its device, with vendor and model in parentheses.
    pub manufacturer: &'a [u8],
    /// Number of partitions.
    pub partitions: u32,
    /// Whether it has a write cache.
    pub has_write_cache: bool,
}

const SECTORS_PER_TRACK: u32 = 63;
const TRACKS_PER_CYLINDER: u32 = 255;

layout! {
    PhyDisk<'_>, version 2, |e| System64 ids::SystemConfig::PHY_DISK;
    e.disk_number, e.bytes_per_sector, SECTORS_PER_TRACK, TRACKS_PER_CYLINDER,
    e.len_bytes / (u64::from(SECTORS_PER_TRACK * TRACKS_PER_CYLINDER) * u64::from(e.bytes_per_sector.max(1))),
    e.scsi, Fixed::<256>(e.manufacturer), e.partitions, u8::from(e.has_write_cache), 0_u8, Fixed::<3>(b""),
    Fixed::<2>(b""),
}

/// A file system on a disk (`SystemConfig_V2_LogDisk`).
///
/// Clusters are those of the file system; the number of free ones is not reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogDisk<'a> {
    /// Position on its disk in bytes.
    pub start_offset: u64,
    /// Size in bytes.
    pub len_bytes: u64,
    /// The disk: on Linux, its major and minor number.
    pub disk_number: u32,
    /// Mount point in place of the drive letter; up to two characters, such as `/`.
    pub mount_point: &'a [u8],
    /// Number of the partition; 0 for a whole disk.
    pub partition_number: u32,
    /// Sector size in bytes.
    pub bytes_per_sector: u32,
    /// Name of the file system.
    pub file_system: &'a [u8],
}

/// Size of the fields up to the file system's name, which the record contains.
const LOG_DISK_SIZE: u32 = 112;
/// `DRIVE_FIXED` less one, as Windows writes it here. Observed: fixture net.4.5.2.x64.
const DRIVE_TYPE: u32 = 1;

layout! {
    LogDisk<'_>, version 2, |e| System64 ids::SystemConfig::LOG_DISK;
    e.start_offset, e.len_bytes, e.disk_number, LOG_DISK_SIZE, DRIVE_TYPE, Fixed::<4>(e.mount_point), 0_u32,
    e.partition_number, 0_u32, e.bytes_per_sector, 0_u32, 0_i64, 0_i64, Fixed::<16>(e.file_system), 0_u32, 0_u32,
}

/// A network interface (`SystemConfig_V2_NIC`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Nic<'a> {
    /// Hardware address.
    pub physical_address: [u8; 8],
    /// Length of the hardware address in bytes.
    pub physical_address_len: u32,
    /// Index of the interface.
    pub index: u32,
    /// Its name.
    pub name: &'a [u8],
    /// Its addresses, separated by semicolons.
    pub ip_addresses: &'a [u8],
    /// Its name servers, likewise.
    pub dns_servers: &'a [u8],
}

layout! {
    Nic<'_>, version 2, |e| System64 ids::SystemConfig::NIC;
    e.physical_address, e.physical_address_len, e.index, e.index, Wide(e.name), Wide(e.ip_addresses),
    Wide(e.dns_servers),
}

/// An interrupt and the device that it belongs to (`SystemConfig_V3_IRQ`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Irq<'a> {
    /// The processors that may serve it, of the first 64.
    pub affinity: u64,
    /// Number, as in [`Isr`](super::Isr).
    pub number: u32,
    /// Units of the description, with its terminator.
    pub description: &'a [u8],
}

layout! {
    Irq<'_>, version 3, |e| System64 ids::SystemConfig::IRQ;
    e.affinity, 0_u16, 0_u16, e.number,
    1 + String::from_utf8_lossy(e.description).encode_utf16().count() as u32, Wide(e.description),
}

/// Manufacturer, model and firmware of the machine (`SystemConfig_V2_Platform`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Platform<'a> {
    /// Its manufacturer.
    pub manufacturer: &'a [u8],
    /// Its name.
    pub product_name: &'a [u8],
    /// Date of its firmware.
    pub bios_date: &'a [u8],
    /// Version of its firmware.
    pub bios_version: &'a [u8],
}

layout! {
    Platform<'_>, version 2, |e| System64 ids::SystemConfig::CONFIG_PLATFORM;
    Wide(e.manufacturer), Wide(e.product_name), Wide(e.bios_date), Wide(e.bios_version),
}

/// The processors by groups (`SystemConfig_V2_ProcGroup`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcGroup<'a> {
    /// A mask of the existing processors for each group of 64; up to 64 groups.
    pub affinities: &'a [u64],
}

layout! {
    ProcGroup<'_>, version 2, |e| System64 ids::SystemConfig::CONFIG_PROCESSORGROUP;
    e.affinities.len().min(64) as u32, e.affinities[..e.affinities.len().min(64)],
}

/// A processor (`SystemConfig_V2_Processors`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Processor<'a> {
    /// Its number.
    pub index: u32,
    /// Its clock rate in MHz; 0 if unknown.
    pub mhz: u32,
    /// Its name.
    pub name: &'a [u8],
    /// Its manufacturer.
    pub vendor: &'a [u8],
    /// Family, model and stepping in words.
    pub identifier: &'a [u8],
}

layout! {
    Processor<'_>, version 2, |e| System64 ids::SystemConfig::PROCESSORS;
    e.index, 0_u32, e.mhz, Fixed::<64>(e.name), Fixed::<16>(e.vendor), Fixed::<128>(e.identifier),
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, text_of};
    use super::*;

    #[test]
    fn fields_are_read_back() {
        let cpu = Cpu {
            mhz: 2596,
            processors: 2,
            memory_mib: 24106,
            page_size: 4096,
            allocation_granularity: 4096,
            computer_name: b"host",
            domain_name: b"example.org",
            has_hyper_threading: true,
            highest_user_address: 0x7FFF_FFFF_EFFF,
            architecture: 9,
            level: 26,
            revision: 0x0201,
            has_pae: true,
            has_nx: true,
        };
        check(
            &cpu,
            &[
                ("MHz", "2596"),
                ("NumberOfProcessors", "2"),
                ("MemSize", "24106"),
                ("PageSize", "4096"),
                ("AllocationGranularity", "4096"),
                ("ComputerName", "host"),
                ("DomainName", "example.org"),
                ("HyperThreadingFlag", "0x1"),
                ("HighestUserAddress", "0x7fffffffefff"),
                ("ProcessorArchitecture", "9"),
                ("ProcessorLevel", "26"),
                ("ProcessorRevision", "513"),
                ("PaeEnabled", "1"),
                ("NxEnabled", "1"),
                ("MemorySpeed", "0"),
            ],
        );
        let disk = PhyDisk {
            disk_number: 8,
            bytes_per_sector: 512,
            len_bytes: 136_365_211_648,
            scsi: [1, 2, 3, 4],
            manufacturer: b"ACME Disk",
            partitions: 2,
            has_write_cache: true,
        };
        check(
            &disk,
            &[
                ("DiskNumber", "8"),
                ("BytesPerSector", "512"),
                ("SectorsPerTrack", "63"),
                ("TracksPerCylinder", "255"),
                ("Cylinders", "16578"),
                ("SCSIPort", "1"),
                ("SCSIPath", "2"),
                ("SCSITarget", "3"),
                ("SCSILun", "4"),
                ("Manufacturer", "ACME Disk"),
                ("PartitionCount", "2"),
                ("WriteCacheEnabled", "1"),
                ("Pad", "0"),
                ("BootDriveLetter", ""),
                ("Spare", ""),
            ],
        );
        let volume = LogDisk {
            start_offset: 1 << 20,
            len_bytes: 1 << 40,
            disk_number: 8,
            mount_point: b"/",
            partition_number: 1,
            bytes_per_sector: 512,
            file_system: b"ext4",
        };
        check(
            &volume,
            &[
                ("StartOffset", "1048576"),
                ("PartitionSize", "1099511627776"),
                ("DiskNumber", "8"),
                ("Size", "112"),
                ("DriveType", "1"),
                ("DriveLetterString", "/"),
                ("Pad1", "0"),
                ("PartitionNumber", "1"),
                ("SectorsPerCluster", "0"),
                ("BytesPerSector", "512"),
                ("Pad2", "0"),
                ("NumberOfFreeClusters", "0"),
                ("TotalNumberOfClusters", "0"),
                ("FileSystem", "ext4"),
                ("VolumeExt", "0"),
                ("Pad3", "0"),
            ],
        );
        let nic = Nic {
            physical_address: [2, 0, 0, 1, 2, 3, 0, 0],
            physical_address_len: 6,
            index: 2,
            name: b"eth0",
            ip_addresses: b"192.0.2.2;fe80::1",
            dns_servers: b"",
        };
        check(
            &nic,
            &[
                ("PhysicalAddr", "0x30201000002"),
                ("PhysicalAddrLen", "6"),
                ("Ipv4Index", "2"),
                ("Ipv6Index", "2"),
                ("NICDescription", "eth0"),
                ("IpAddresses", "192.0.2.2;fe80::1"),
                ("DnsServerAddresses", ""),
            ],
        );
        check(
            &Irq { affinity: 3, number: 36, description: "virtio1-größe".as_bytes() },
            &[
                ("IRQAffinity", "0x3"),
                ("IRQGroup", "0"),
                ("Reserved", "0"),
                ("IRQNum", "36"),
                ("DeviceDescriptionLen", "14"),
                ("DeviceDescription", "virtio1-größe"),
            ],
        );
        let platform = Platform {
            manufacturer: b"ACME",
            product_name: b"One",
            bios_date: b"01/02/2026",
            bios_version: b"7",
        };
        check(
            &platform,
            &[
                ("SystemManufacturer", "ACME"),
                ("SystemProductName", "One"),
                ("BiosDate", "01/02/2026"),
                ("BiosVersion", "7"),
            ],
        );
        check(
            &ProcGroup { affinities: &[u64::MAX, 3] },
            &[("GroupCount", "2"), ("Affinity", "[0xffffffffffffffff, 0x3]")],
        );
        let processor = Processor {
            index: 1,
            mhz: 2596,
            name: b"EPYC",
            vendor: b"AuthenticAMD",
            identifier: b"Family 26",
        };
        check(
            &processor,
            &[
                ("ProcessorIndex", "1"),
                ("FeatureSet", "0"),
                ("ProcessorSpeed", "2596"),
                ("ProcessorName", "EPYC"),
                ("VendorIdentifier", "AuthenticAMD"),
                ("ProcessorIdentifier", "Family 26"),
            ],
        );
    }

    #[test]
    fn fixed_texts_are_cut_within_their_field() {
        let name = "ä".repeat(500);
        let processor =
            Processor { name: name.as_bytes(), vendor: b"0123456789abcdef", ..Processor::default() };
        assert_eq!(text_of(&processor, "ProcessorName"), format!("{}…", "ä".repeat(62)));
        assert_eq!(text_of(&processor, "VendorIdentifier"), "0123456789abcd…");
    }
}
