//! Capture files are read back by the independent crate `pcap-file`.

use etw_etl::encode::RecordBuilder;
use etw_event::{Clock, EventDescriptor, FileTime, Guid, Keyword, Origin, PointerSize, Record, Ticks};
use etw_schema::Undecoded;
use pcap_file::DataLink;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};

use super::*;

const FIRST: u64 = 0x4000_0000;
const LAST: u64 = 0x8000_0000;

/// A packet as read back.
#[derive(Debug, PartialEq)]
struct Packet {
    interface: u32,
    nanos: u64,
    bytes: Vec<u8>,
    original_len: u32,
    comment: String,
}

struct Capture {
    writer: PcapngWriter<Vec<u8>>,
}

impl Capture {
    fn new() -> Capture {
        Capture { writer: PcapngWriter::new(Vec::new()).unwrap() }
    }

    fn put(&mut self, provider: Guid, id: u16, keyword: u64, processor: u16, payload: &[u8]) {
        let descriptor = EventDescriptor { id, keyword: Keyword(keyword), ..EventDescriptor::default() };
        let time = FileTime::from_civil(2026, 1, 2, 3, 4, 5, 1_234_567).unwrap();
        let record = RecordBuilder::event(PointerSize::Eight, provider, &descriptor)
            .time(Ticks(time.0))
            .process(7, 8)
            .payload(payload);
        let bytes = record.build().unwrap();
        let origin = Origin {
            clock: Clock::system_time(),
            processor,
            logger_id: 1,
            source: 0,
            is_private: false,
            buffer: None,
        };
        let record = Record::parse(&bytes, &origin, Ticks(0)).unwrap();
        let reason = Undecoded::NamelessMessage;
        let event = Event { process: Some("x.exe"), ..Event::new(&record, Err(&reason)) };
        self.writer.put(&event).unwrap();
    }

    /// Adds a piece of a packet of interface 3.
    fn piece(&mut self, keyword: u64, processor: u16, bytes: &[u8]) {
        let mut payload = [3u32, 1, bytes.len() as u32].map(u32::to_le_bytes).concat();
        payload.extend_from_slice(bytes);
        self.put(NDIS_PACKET_CAPTURE, 1001, keyword, processor, &payload);
    }

    /// Returns the packets, the interfaces, and the summary.
    fn read(self) -> (Vec<Packet>, Vec<(DataLink, String)>, PcapngSummary) {
        let PcapngWriter { out, .. } = &self.writer;
        let bytes = out.clone();
        let summary = self.writer.finish().unwrap();
        let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
        let (mut packets, mut interfaces) = (Vec::new(), Vec::new());
        while let Some(block) = reader.next_block() {
            match block.unwrap() {
                Block::InterfaceDescription(interface) => {
                    let name = interface.options.iter().find_map(|option| match option {
                        InterfaceDescriptionOption::IfName(name) => Some(name.to_string()),
                        _ => None,
                    });
                    assert!(interface.options.contains(&InterfaceDescriptionOption::IfTsResol(9)));
                    interfaces.push((interface.linktype, name.unwrap()));
                }
                Block::EnhancedPacket(packet) => {
                    let comment = packet.options.iter().find_map(|option| match option {
                        EnhancedPacketOption::Comment(text) => Some(text.to_string()),
                        _ => None,
                    });
                    packets.push(Packet {
                        interface: packet.interface_id,
                        nanos: packet.timestamp.as_nanos() as u64,
                        bytes: packet.data.to_vec(),
                        original_len: packet.original_len,
                        comment: comment.unwrap(),
                    });
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(packets.len() as u64, summary.packets);
        (packets, interfaces, summary)
    }
}

#[test]
fn packets_of_one_piece_and_of_several() {
    let mut capture = Capture::new();
    capture.piece(1 | FIRST | LAST, 0, b"whole");
    // Two processors each assemble a packet at the same time.
    capture.piece(1 | FIRST, 0, b"one ");
    capture.piece(1 | FIRST, 1, b"another ");
    capture.piece(1, 0, b"in ");
    capture.piece(1 | LAST, 1, b"in two");
    capture.piece(1 | LAST, 0, b"three");
    let (packets, interfaces, summary) = capture.read();
    let texts: Vec<&[u8]> = packets.iter().map(|packet| &packet.bytes[..]).collect();
    assert_eq!(texts, [&b"whole"[..], b"another in two", b"one in three"]);
    assert_eq!(interfaces, [(DataLink::ETHERNET, "NDIS interface 3 over 1".to_owned())]);
    // 2026-01-02T03:04:05.1234567Z.
    let first = &packets[0];
    assert_eq!((first.nanos, first.original_len), (1_767_323_045_123_456_700, 5));
    assert_eq!(first.comment, "PID=7 x.exe");
    assert_eq!(summary, PcapngSummary { packets: 3, fragments: 6, ..PcapngSummary::default() });
}

#[test]
fn what_is_not_whole_is_counted() {
    let mut capture = Capture::new();
    capture.piece(1 | LAST, 0, b"no beginning");
    capture.piece(1 | FIRST, 0, b"no end");
    capture.piece(1, 0, b"no end");
    capture.piece(1 | FIRST, 0, b"no end");
    capture.put(NDIS_PACKET_CAPTURE, 1001, 1 | FIRST | LAST, 0, &[0; 11]);
    capture.put(NDIS_PACKET_CAPTURE, 1001, 1 | FIRST | LAST, 0, &[0xFF; 20]);
    capture.put(NDIS_PACKET_CAPTURE, 1011, 0, 0, b"a rule");
    capture.put(PKTMON, 160, 0x10, 0, b"no schema");
    capture.put(Guid::ZERO, 1001, 1 | FIRST | LAST, 0, b"another provider");
    let (packets, interfaces, summary) = capture.read();
    assert!(packets.is_empty() && interfaces.is_empty());
    let expected = PcapngSummary { incomplete: 4, unreadable: 3, others: 2, ..PcapngSummary::default() };
    assert_eq!(summary, expected);
}

#[test]
fn links_and_switches() {
    let mut capture = Capture::new();
    let whole = FIRST | LAST;
    capture.piece(0x200 | whole, 0, b"mobile");
    capture.piece(0x1_0000 | whole, 0, b"wireless");
    let text = |text: &str| text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let mut payload = [3u32, 1, 9].map(u32::to_le_bytes).concat();
    for name in ["port", "nic", ""] {
        payload.extend(text(name));
    }
    payload.extend(2u32.to_le_bytes());
    payload.extend([0xDD; 16]);
    payload.extend(6u32.to_le_bytes());
    payload.extend(b"switch");
    payload.extend(0u32.to_le_bytes());
    capture.put(NDIS_PACKET_CAPTURE, 1003, 0x100_0001 | whole, 0, &payload);
    let (packets, interfaces, _) = capture.read();
    let interface = |packet: &Packet| interfaces[packet.interface as usize].0;
    let found: Vec<_> = packets.iter().map(|packet| (interface(packet), &packet.bytes[..])).collect();
    assert_eq!(
        found,
        [
            (DataLink::RAW, &b"mobile"[..]),
            (DataLink::IEEE802_11, b"wireless"),
            (DataLink::ETHERNET, b"switch")
        ]
    );
    assert_eq!(interfaces[2].1, "NDIS interface 3 over 1, switch port 9");
}

#[test]
fn a_packet_beyond_what_readers_take_is_cut() {
    let mut capture = Capture::new();
    let piece = vec![0xAB; 60_000];
    capture.piece(1 | FIRST, 0, &piece);
    for _ in 0..4 {
        capture.piece(1, 0, &piece);
    }
    capture.piece(1 | LAST, 0, &piece);
    let (packets, _, summary) = capture.read();
    assert_eq!((packets[0].bytes.len(), packets[0].original_len), (MAX_PACKET_BYTES, 360_000));
    assert_eq!((summary.cut, summary.fragments, summary.incomplete), (1, 6, 0));
}
