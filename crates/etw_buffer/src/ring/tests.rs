//! Tests of rings with the standard library's atomics.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::*;

type Words = Arc<[AtomicU64]>;

fn words(len: usize) -> Words {
    (0..len).map(|_| AtomicU64::new(0)).collect()
}

fn ring(data_words: usize) -> (RingWriter<Words, Words>, RingReader<Words, Words>, Words, Words) {
    let (data, position) = (words(data_words), words(POSITION_WORDS));
    let writer = RingWriter::format(data.clone(), position.clone()).unwrap();
    let reader = RingReader::attach(data.clone(), position.clone()).unwrap();
    (writer, reader, data, position)
}

fn bytes_of(reader: &RingReader<Words, Words>, entry: &Entry) -> Vec<u8> {
    let mut words = Vec::new();
    reader.copy(entry.words(), &mut words);
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    assert!(bytes[entry.len_bytes..].iter().all(|byte| *byte == 0), "padding is zero");
    bytes.truncate(entry.len_bytes);
    bytes
}

/// Pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

#[test]
fn entries_come_out_as_they_went_in() {
    for data_words in [MIN_DATA_WORDS, 200, 1000, 70_000] {
        let (mut writer, mut reader, ..) = ring(data_words);
        let (mut numbers, mut expected, mut taken) = (Numbers(7), VecDeque::new(), VecDeque::new());
        let (mut full, mut entries) = (0, 0);
        for _ in 0..20_000 {
            match numbers.below(4) {
                0 | 1 => {
                    let most = writer.max_entry_bytes() as u64;
                    let bytes: Vec<u8> =
                        (0..numbers.below(most + 1)).map(|_| numbers.below(256) as u8).collect();
                    let cuts = [numbers.below(bytes.len() as u64 + 1), numbers.below(bytes.len() as u64 + 1)];
                    let (from, to) = (cuts[0].min(cuts[1]) as usize, cuts[0].max(cuts[1]) as usize);
                    match writer.try_push(&[&bytes[..from], &bytes[from..to], &bytes[to..]]).unwrap() {
                        Push::Done => expected.push_back(bytes),
                        Push::Full => full += 1,
                        Push::TooLarge => panic!("an entry of the largest size is too large"),
                    }
                }
                2 => {
                    writer.publish();
                    while let Some(entry) = reader.next_entry().unwrap() {
                        assert_eq!(Some(bytes_of(&reader, &entry)), expected.pop_front());
                        taken.push_back(entry.end);
                        entries += 1;
                    }
                    assert!(expected.is_empty());
                }
                _ => {
                    let count = numbers.below(taken.len() as u64 + 1) as usize;
                    if let Some(end) = taken.drain(..count).next_back() {
                        reader.release(end);
                    }
                }
            }
        }
        assert!(full > 0 && entries > 1000, "{data_words} words: {full} times full, {entries} entries");
    }
}

#[test]
fn the_largest_entry_always_has_room_in_an_empty_ring() {
    let (mut writer, mut reader, ..) = ring(MIN_DATA_WORDS);
    let largest = vec![7; writer.max_entry_bytes()];
    assert_eq!(writer.try_push(&[&largest, &[0]]), Ok(Push::TooLarge));
    for shift in 0..200 {
        for bytes in [&largest[..], &largest[..shift % 90]] {
            assert_eq!(writer.try_push(&[bytes]), Ok(Push::Done));
            writer.publish();
            let entry = reader.next_entry().unwrap().unwrap();
            assert_eq!(bytes_of(&reader, &entry), bytes);
            reader.release(entry.end);
        }
    }
}

#[test]
fn a_reader_that_keeps_up_is_kept_in_the_caches() {
    let (mut writer, mut reader, ..) = ring(1 << 20);
    let mut last = 0;
    for _ in 0..1000 {
        assert_eq!(writer.try_push(&[&[1; 60_000]]), Ok(Push::Done));
        writer.publish();
        let entry = reader.next_entry().unwrap().unwrap();
        last = last.max(entry.words().end);
        reader.release(entry.end);
    }
    assert!(last < 1 << 16, "the ring was used up to word {last}");
}

#[test]
fn sleepers_are_reported() {
    let (mut writer, mut reader, ..) = ring(MIN_DATA_WORDS);
    assert!(!writer.publish(), "nothing to publish");
    assert!(reader.sleeps());
    writer.try_push(&[&[1; 100]]).unwrap();
    assert!(writer.publish());
    assert!(!reader.sleeps(), "there is an entry");
    let first = reader.next_entry().unwrap().unwrap();
    writer.try_push(&[&[2; 100]]).unwrap();
    assert!(!writer.publish(), "the reader is awake");
    assert_eq!(writer.waits(250), Ok(true));
    assert!(reader.release(first.end));
    writer.awake();
    let second = reader.next_entry().unwrap().unwrap();
    assert!(!reader.release(second.end));
    assert_eq!(writer.waits(250), Ok(false), "the ring is empty");
}

#[test]
fn a_hostile_position_is_refused() {
    let check = |position: u64, is_right: bool| {
        let (mut writer, mut reader, _, words) = ring(MIN_DATA_WORDS);
        writer.try_push(&[&[1; 100]]).unwrap();
        writer.publish();
        let first = reader.next_entry().unwrap().unwrap();
        reader.release(first.end);
        assert_eq!(writer.used_bytes(), Ok(0));
        writer.try_push(&[&[1; 100]]).unwrap();
        writer.publish();
        writer.try_push(&[&[1; 20]]).unwrap();
        words[POSITION].store(position, Relaxed);
        let result = writer.used_bytes();
        assert_eq!(result.is_ok(), is_right, "{position}: {result:?}");
    };
    check(0, false);
    check(13, false);
    check(14, true);
    check(20, true);
    check(28, true);
    check(29, false);
    check(u64::MAX, false);
}

#[test]
fn a_hostile_writer_is_refused() {
    let check = |at: usize, word: u64, expected: &[Result<usize, &str>]| {
        let (mut writer, mut reader, data, _) = ring(MIN_DATA_WORDS);
        writer.try_push(&[&[1; 100]]).unwrap();
        writer.try_push(&[&[2; 80]]).unwrap();
        writer.publish();
        data[at].store(word, Relaxed);
        for expected in expected {
            let found = match reader.next_entry() {
                Ok(entry) => Ok(entry.map_or(0, |entry| entry.len_bytes)),
                Err(RingError::Head { .. }) => Err("head"),
                Err(RingError::Entry { .. }) => Err("entry"),
                Err(_) => Err("other"),
            };
            assert_eq!(found, *expected, "word {at} = {word:#x}");
        }
    };
    check(HEAD, 25, &[Ok(100), Ok(80), Ok(0)]);
    check(HEAD, 65, &[Err("head"), Err("head")]);
    check(HEAD, u64::MAX, &[Err("head")]);
    check(HEAD, 64, &[Ok(100), Ok(80), Ok(0), Ok(0)]);
    check(DATA_START, 101, &[Ok(101), Ok(80)]);
    check(DATA_START, 24 * 8, &[Ok(192), Ok(0)]);
    check(DATA_START, 24 * 8 + 1, &[Err("entry"), Err("entry")]);
    check(DATA_START, SKIP, &[Err("entry")]);
    check(DATA_START, 1 << 62, &[Err("entry")]);
    check(DATA_START + 14, u64::MAX - 1, &[Ok(100), Err("entry")]);
}

#[test]
fn two_threads_pass_entries() {
    let (mut writer, mut reader, ..) = ring(4096 + DATA_START);
    const ENTRIES: u64 = 200_000;
    let writes = std::thread::spawn(move || {
        let mut numbers = Numbers(3);
        for number in 0..ENTRIES {
            let bytes = vec![number as u8; numbers.below(300) as usize];
            while writer.try_push(&[&number.to_ne_bytes(), &bytes]).unwrap() == Push::Full {
                writer.publish();
                std::thread::yield_now();
            }
            if number % 7 == 0 {
                writer.publish();
            }
        }
        writer.publish();
    });
    let mut expected = 0;
    while expected < ENTRIES {
        let Some(entry) = reader.next_entry().unwrap() else {
            std::thread::yield_now();
            continue;
        };
        let bytes = bytes_of(&reader, &entry);
        assert_eq!(bytes[..8], expected.to_ne_bytes());
        assert!(bytes[8..].iter().all(|byte| *byte == expected as u8));
        expected += 1;
        if expected % 5 == 0 || entry.end % 3 == 0 {
            reader.release(entry.end);
        }
    }
    writes.join().unwrap();
}
