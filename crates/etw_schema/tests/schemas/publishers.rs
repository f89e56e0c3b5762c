//! The registry's list of publishers, in hives made for the test.

use etw_event::Guid;
use etw_schema::publishers::{self, PublishersError};
use etw_testkit::hive::{self, Publisher};

fn made(count: u32) -> Vec<Publisher> {
    let publisher = |number| Publisher {
        guid: Guid::from_u128(u128::from(number)),
        name: format!("Contoso-{number}-Größe"),
        resource_file: format!("%SystemRoot%\\System32\\{number}.dll"),
        message_file: if number % 2 == 0 { String::new() } else { "C:\\texts.dll".to_owned() },
    };
    (0..count).map(publisher).collect()
}

/// Returns the position of the cell of a publisher's key.
fn key_of(hive: &[u8], number: u32) -> usize {
    let name = Guid::from_u128(u128::from(number)).to_string();
    hive.windows(name.len()).position(|part| part == name.as_bytes()).unwrap() - 80
}

#[test]
fn publishers_with_names_and_files() {
    // More than one list of keys holds.
    for count in [0, 1, 3 * hive::MAX_LIST as u32] {
        let made = made(count);
        let read = publishers::read(&hive::software(&made)).unwrap();
        assert_eq!(read.problems, []);
        assert_eq!(read.publishers.len(), made.len());
        for (read, made) in read.publishers.iter().zip(&made) {
            assert_eq!((read.guid, &read.name), (made.guid, &made.name));
            assert_eq!(read.resource_file.as_ref(), Some(&made.resource_file));
            assert_eq!(read.message_file.as_ref(), Some(&made.message_file).filter(|file| !file.is_empty()));
        }
    }
}

#[test]
fn damage_costs_the_damaged_publisher() {
    let whole = hive::software(&made(5));
    let read = |damage: &dyn Fn(&mut Vec<u8>)| {
        let mut hive = whole.clone();
        damage(&mut hive);
        let read = publishers::read(&hive).unwrap();
        let numbers: Vec<u128> = read.publishers.iter().map(|publisher| publisher.guid.to_u128()).collect();
        (numbers, read.problems.len())
    };
    let key = key_of(&whole, 2);
    // The signature, the size of the cell, the name, the list of values.
    assert_eq!(read(&|hive| hive[key + 4] = b'x'), (vec![0, 1, 3, 4], 1));
    assert_eq!(read(&|hive| hive[key..key + 4].fill(0x7F)), (vec![0, 1, 3, 4], 1));
    assert_eq!(read(&|hive| hive[key + 80] = b'?'), (vec![0, 1, 3, 4], 1));
    assert_eq!(read(&|hive| hive[key + 44..key + 48].fill(0xEE)), (vec![0, 1, 2, 3, 4], 0));
}

#[test]
fn files_without_a_list() {
    let whole = hive::software(&made(2));
    assert_eq!(publishers::read(b"MZ").unwrap_err(), PublishersError::NotAHive);
    assert!(matches!(publishers::read(&whole[..4096]).unwrap_err(), PublishersError::Damaged { .. }));
    let at = whole.windows(6).position(|part| part == b"WINEVT").unwrap();
    let mut other = whole.clone();
    other[at] = b'X';
    let path = "Microsoft\\Windows\\CurrentVersion\\WINEVT".to_owned();
    assert_eq!(publishers::read(&other).unwrap_err(), PublishersError::NoList(path));

    // A list that consists of itself, as often as it has room for.
    let list = whole.windows(2).rposition(|part| part == b"lh").unwrap();
    let offset = (list - 4 - 4096) as u32;
    let mut cyclic = whole[..list].to_vec();
    cyclic[list - 4..].copy_from_slice(&(-300_000i32).to_le_bytes());
    cyclic.extend(b"ri\xFF\xFF");
    cyclic.extend(offset.to_le_bytes().repeat(75_000));
    assert!(matches!(publishers::read(&cyclic).unwrap_err(), PublishersError::NoList(_)));
}
