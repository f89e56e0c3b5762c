#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::Cursor;

use etw_etl::encode::RecordBuilder;
use etw_etl::{EtlWriter, WriterOptions};
use etw_event::{
    Clock, ClockType, EventDescriptor, ExtendedType, FileTime, Guid, HookId, PointerSize, Ticks,
};

use super::*;

const EIGHT: PointerSize = PointerSize::Eight;
const PROVIDER: Guid = Guid::from_u128(0x5e5bf9c8_1b0e_4a5c_8b0b_1f7b1c1d9e11);
const DOTNET: Guid = Guid::from_u128(0xe13c0d23_ccbc_4e12_931b_d9cc2eee27e4);
const START: FileTime = FileTime(133_000_000_000_000_000);

/// Returns the bytes of a trace with these records of processors.
fn bytes_of(records: &[(u16, &RecordBuilder)]) -> Vec<u8> {
    let clock = Clock::new(ClockType::Qpc, Ticks(0), START, 10_000_000);
    let mut writer = EtlWriter::new(Cursor::new(Vec::new()), WriterOptions::new(clock, 64 << 10, 2)).unwrap();
    for (processor, record) in records {
        writer.write(*processor, &record.build().unwrap()).unwrap();
    }
    writer.finish(FileTime(START.0 + 100_000)).unwrap().out.into_inner()
}

/// Returns the stacks of the events that are not stacks themselves, with the time of each, and what was found.
fn stacks_of(records: &[RecordBuilder]) -> (Vec<(i64, Vec<u64>)>, StackCounts) {
    stacks_on(&records.iter().map(|record| (0, record)).collect::<Vec<_>>())
}

/// The same of records of several processors.
fn stacks_on(records: &[(u16, &RecordBuilder)]) -> (Vec<(i64, Vec<u64>)>, StackCounts) {
    let bytes = bytes_of(records);
    // A filter does not matter to what is collected.
    let mut trace = Trace::builder().bytes("made", bytes).limit(10_000_000).open().unwrap();
    let stacks = trace.stacks().unwrap();
    let mut found = Vec::new();
    let of_stack = |record: &Record<'_>| {
        collect::stack_walk(record).is_some() || record.descriptor().id == 82 || record.raw_time().0 == 0
    };
    trace
        .for_each_record(|record| {
            let stack = stacks.of(record);
            if !of_stack(record) {
                found.push((record.raw_time().0, stack.addresses().collect()));
            }
        })
        .unwrap();
    (found, stacks.counts())
}

fn event(time: i64, thread: u32) -> RecordBuilder {
    let descriptor = EventDescriptor { id: 7, ..EventDescriptor::default() };
    RecordBuilder::event(EIGHT, PROVIDER, &descriptor).time(Ticks(time)).process(4, thread)
}

fn of_dotnet(time: i64, thread: u32, id: u16, payload: &[u8]) -> RecordBuilder {
    let descriptor = EventDescriptor { id, ..EventDescriptor::default() };
    RecordBuilder::event(EIGHT, DOTNET, &descriptor).time(Ticks(time)).process(4, thread).payload(payload)
}

/// An event of the kernel without a thread in its header.
fn kernel(time: i64, hook: u16, payload: &[u8]) -> RecordBuilder {
    RecordBuilder::perf_info(EIGHT, HookId(hook), 2).time(Ticks(time)).payload(payload)
}

/// A stack of the event of a thread at a time, or its key.
fn walk(time: i64, kind: u16, event: (i64, u32), words: &[u64]) -> RecordBuilder {
    let mut payload = event.0.to_le_bytes().to_vec();
    payload.extend(4u32.to_le_bytes());
    payload.extend(event.1.to_le_bytes());
    payload.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    kernel(time, 0x1800 | kind, &payload)
}

fn sample(time: i64, thread: u32) -> RecordBuilder {
    let mut payload = 0xAAAAu64.to_le_bytes().to_vec();
    payload.extend(thread.to_le_bytes());
    payload.extend(1u32.to_le_bytes());
    kernel(time, 0x0F2E, &payload)
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn halves_that_come_late_are_joined_to_the_event_of_their_thread() {
    let (found, counts) = stacks_of(&[
        event(10, 1),
        event(10, 2),
        walk(11, 32, (10, 2), &[0xFFFF_8000_0000_0020]),
        event(12, 1),
        walk(13, 32, (10, 1), &[0x11, 0x12]),
        walk(5000, 32, (10, 2), &[0x21, 0x22]),
        event(5001, 2),
    ]);
    assert_eq!(
        found,
        [(10, vec![0x11, 0x12]), (10, vec![0xFFFF_8000_0000_0020, 0x21, 0x22]), (12, vec![]), (5001, vec![]),]
    );
    assert_eq!(counts, StackCounts { apart: 3, ..StackCounts::default() });
}

#[test]
fn kernel_events_have_their_thread_in_the_payload_or_not_at_all() {
    let (found, _) = stacks_of(&[
        sample(10, 1),
        sample(10, 2),
        kernel(20, 0x0524, &[3, 0, 0, 0, 4, 0, 0, 0]),
        // Linux: the stack of the thread that goes.
        kernel(25, 0x0524, &[3, 0, 0, 0, 4, 0, 0, 0]),
        // An interrupt has no thread.
        kernel(30, 0x0F43, &[0; 17]),
        walk(31, 32, (10, 2), &[2]),
        walk(31, 32, (10, 1), &[1]),
        walk(32, 32, (20, 3), &[3]),
        walk(32, 32, (25, 4), &[4]),
        walk(33, 32, (30, 9), &[9]),
    ]);
    assert_eq!(found, [(10, vec![1]), (10, vec![2]), (20, vec![3]), (25, vec![4]), (30, vec![9])]);
}

#[test]
fn keys_stand_for_the_frames_that_their_next_definition_has() {
    let define = |time, kind: u16, key: u64, frames: &[u64]| {
        kernel(time, 0x1800 | kind, &words(&[&[key], frames].concat()))
    };
    let (found, counts) = stacks_of(&[
        sample(10, 1),
        walk(10, 37, (10, 1), &[0xE1]),
        walk(10, 38, (10, 1), &[0xE2]),
        sample(20, 1),
        walk(20, 38, (20, 1), &[0xE2]),
        define(25, 35, 0xE2, &[0x21, 0x22]),
        sample(30, 1),
        walk(30, 38, (30, 1), &[0xE2]),
        event(35, 1).item(ExtendedType::STACK_KEY64, &words(&[0, 0xE1])),
        event(36, 1).item(ExtendedType::STACK_KEY64, &words(&[0, 0xE9])),
        define(40, 36, 0xE1, &[0xFFFF_8000_0000_0011]),
        define(40, 36, 0xE2, &[0x31]),
    ]);
    let kernel = 0xFFFF_8000_0000_0011;
    assert_eq!(
        found,
        [
            (10, vec![kernel, 0x21, 0x22]),
            (20, vec![0x21, 0x22]),
            (30, vec![0x31]),
            (35, vec![kernel]),
            (36, vec![]),
        ]
    );
    assert_eq!(counts.undefined_keys, 1);
}

#[test]
fn stacks_in_events_and_their_other_halves() {
    let (found, _) = stacks_of(&[
        event(10, 1).stack(0, &[1, 2]),
        // Not needed: the event has its whole stack.
        walk(11, 32, (10, 1), &[7]),
        event(20, 1).stack(5, &[0xFFFF_8000_0000_0001]),
        event(30, 1).stack(5, &[3, 4]),
    ]);
    assert_eq!(found, [(10, vec![1, 2]), (20, vec![0xFFFF_8000_0000_0001, 3, 4]), (30, vec![3, 4])]);
}

#[test]
fn stacks_of_the_dotnet_runtime_belong_to_the_event_before() {
    let walk = |frames: &[u64]| {
        let mut payload = vec![9, 0, 0, 0];
        payload.extend((frames.len() as u32).to_le_bytes());
        payload.extend(words(frames));
        payload
    };
    let (found, counts) = stacks_of(&[
        of_dotnet(10, 1, 80, &[]),
        of_dotnet(11, 2, 80, &[]),
        of_dotnet(12, 1, 82, &walk(&[0x51, 0x52])),
        of_dotnet(13, 2, 82, &walk(&[0x61])),
        // Its event is not in the trace.
        of_dotnet(14, 3, 82, &walk(&[0x71])),
        of_dotnet(15, 2, 10, &[]),
        // Cut short.
        of_dotnet(16, 2, 82, &[9, 0, 0, 0, 2, 0, 0, 0, 1]),
    ]);
    assert_eq!(found, [(10, vec![0x51, 0x52]), (11, vec![0x61]), (15, vec![])]);
    assert_eq!((counts.apart, counts.damaged), (2, 1));
}

#[test]
fn more_stacks_than_are_sorted_at_a_time() {
    // In memory are 2^18; each belongs to an event before many others.
    let count: i64 = 600_000;
    let late = 1000;
    let mut records = Vec::new();
    for number in 0..count + late {
        if number < count {
            records.push(event(10 + number, 1));
        }
        if number >= late {
            let of = number - late;
            records.push(walk(10 + number, 32, (10 + of, 1), &[of as u64 % 5000]));
        }
    }
    let (found, counts) = stacks_of(&records);
    assert_eq!(found.len() as u64, counts.apart);
    assert_eq!(counts.apart, count as u64);
    assert!(found.iter().all(|(time, stack)| *stack == [(time - 10) as u64 % 5000]));
}

#[test]
fn records_in_any_order() {
    let mut records = Vec::new();
    for number in 0..1000 {
        records.push(event(10 * number, 1 + number as u32 % 3));
        // Two threads at one time; two halves; none.
        match number % 4 {
            0 => records.push(walk(
                10 * number + 1,
                32,
                (10 * number, 1 + number as u32 % 3),
                &[number as u64],
            )),
            1 => records.extend([
                walk(10 * number + 1, 32, (10 * number, 7), &[1]),
                walk(10 * number + 2, 32, (10 * number, 1 + number as u32 % 3), &[2]),
                walk(10 * number + 3, 32, (10 * number, 1 + number as u32 % 3), &[3]),
            ]),
            _ => {}
        }
    }
    let records: Vec<_> = records.iter().map(|record| (0, record)).collect();
    let mut trace = Trace::builder().bytes("made", bytes_of(&records)).open().unwrap();
    let stacks = trace.stacks().unwrap();
    let mut events = Vec::new();
    trace
        .for_each_record(|record| {
            if record.descriptor().id == 7 && record.kind().is_event_header() {
                events.push(etw_event::OwnedRecord::from(record));
            }
        })
        .unwrap();
    assert_eq!(events.len(), 1000);
    let check = |number: usize| {
        let expected: &[u64] = match number % 4 {
            0 => &[number as u64],
            1 => &[2, 3],
            _ => &[],
        };
        let stack: Vec<u64> = stacks.of(&events[number].record()).addresses().collect();
        assert_eq!(stack, expected, "{number}");
    };
    (0..1000).for_each(check);
    (0..1000).rev().for_each(check);
    (0..1000).map(|number| number * 617 % 1000).for_each(check);
    (0..1000).for_each(|number| (0..3).for_each(|_| check(number)));
}

#[test]
fn events_without_a_thread_take_the_stack_of_their_processor() {
    const IN_KERNEL: u64 = 0xFFFF_8000_0000_1000;
    let call = &kernel(1000, 0x0F33, &[0; 8]);
    let at = |thread: u32, frames: &[u64]| walk(1001, 32, (1000, thread), frames);
    // On both processors at the same time; the user half comes later, from another one.
    let [one, other, user] = [at(7, &[IN_KERNEL]), at(6, &[IN_KERNEL + 1]), at(7, &[0x10])];
    let (found, _) = stacks_on(&[(0, call), (1, call), (0, &one), (1, &other), (1, &user)]);
    assert_eq!(found, [(1000, vec![IN_KERNEL, 0x10]), (1000, vec![IN_KERNEL + 1])]);
    // Only one of them has a stack.
    let (found, _) = stacks_on(&[(0, call), (1, call), (1, &other)]);
    assert_eq!(found, [(1000, vec![]), (1000, vec![IN_KERNEL + 1])]);
    // A stack without the kernel may be written on any.
    let (found, _) = stacks_on(&[(0, call), (1, &user)]);
    assert_eq!(found, [(1000, vec![0x10])]);
}
