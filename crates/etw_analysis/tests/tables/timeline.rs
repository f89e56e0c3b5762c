//! The sequence of events, in both readings.

use etw_analysis::{Moment, Survey, Timeline};
use etw_consumer::Trace;
use etw_kernel_events::classes::{ProcessEvent, ThreadEvent};
use etw_kernel_events::classes::{state, wait};
use etw_machine::{Duration, ThreadIndex};
use etw_symbols::Symbolizer;

use crate::cpu::{ready, switch};
use crate::machine::{Machine, at};
use crate::samples::{sample, stack};

/// Thread 10 runs and is sampled; 20 makes it ready; the name of a third comes only at the end.
fn trace() -> Trace {
    let mut machine = Machine::default();
    machine.there_is(0, "Idle");
    machine.there_is(10, "worker");
    machine.there_is(20, "waker");
    machine.put(0, 0, &switch(0, 10, state::READY, 0));
    machine.put(0, 1, &switch(0, 20, state::READY, 0));
    sample(&mut machine, 500, 10, 0x1010);
    sample(&mut machine, 500, 30, 0x9010);
    // The later sample's stack comes first.
    stack(&mut machine, [500, 501], 30, &[0x9010, 0x9021]);
    stack(&mut machine, [500, 502], 10, &[0x1010, 0x1021]);
    machine.put(1000, 0, &switch(10, 0, state::WAITING, wait::DELAY_EXECUTION));
    machine.put(3000, 1, &ready(10));
    machine.process(4000, ProcessEvent::DcEnd, 30, 1, "late");
    machine.thread(4000, ThreadEvent::DcEnd, 30, 30, "named");
    machine.trace(5000)
}

fn read(trace: &mut Trace, timeline: &mut Timeline, wanted: bool) -> Vec<(Moment, Option<ThreadIndex>)> {
    let mut moments = Vec::new();
    trace.for_each_event(|event| moments.push(timeline.add(event, wanted))).unwrap();
    moments
}

fn id(survey: &Survey, thread: ThreadIndex) -> u32 {
    survey.thread(thread).unwrap().id
}

#[test]
fn both_readings_return_the_same() {
    let mut trace = trace();
    let mut first = Timeline::first();
    let moments = read(&mut trace, &mut first, true);
    // Independent of what is kept.
    assert_eq!(read(&mut trace, &mut Timeline::second(), true), moments);
    assert_eq!(read(&mut trace, &mut Timeline::second(), false), moments);
    assert_eq!(read(&mut trace, &mut Timeline::first(), false), moments);
    let survey = first.survey(&Symbolizer::new());
    let id = |thread| id(&survey, thread);
    let switches: Vec<_> = moments
        .iter()
        .filter_map(|(moment, _)| match moment {
            Moment::Switch(switch) => Some((id(switch.from), id(switch.to), switch.from_state)),
            _ => None,
        })
        .collect();
    assert_eq!(
        switches,
        [(0, 10, state::READY as u8), (0, 20, state::READY as u8), (10, 0, state::WAITING as u8)]
    );
    let is_ready = |(moment, _): &&(Moment, _)| matches!(moment, Moment::Ready { .. });
    let Some((Moment::Ready { thread, by }, _)) = moments.iter().find(is_ready) else { panic!() };
    assert_eq!((id(*thread), by.map(id)), (10, Some(20)), "20 runs on that processor");
    let of_samples = moments.iter().filter(|(moment, _)| *moment == Moment::Sample);
    let sampled: Vec<_> = of_samples.map(|(_, thread)| thread.map(id)).collect();
    assert_eq!(sampled, [Some(10), Some(30)]);
    let context = moments.iter().filter(|(moment, _)| *moment == Moment::Context).count();
    assert_eq!(context, 3 * 2 + 2 + 2, "rundowns and stacks");
}

#[test]
fn the_survey_has_samples_with_stacks_and_late_names() {
    let mut trace = trace();
    let mut timeline = Timeline::first();
    read(&mut trace, &mut timeline, true);
    let survey = timeline.survey(&Symbolizer::new());
    let stacks: Vec<_> = survey.stacks().collect();
    let samples = survey.samples();
    assert_eq!(samples.len(), 2);
    for (sample, expected) in samples.iter().zip([(30, [0x9010, 0x9020]), (10, [0x1010, 0x1020])]) {
        assert_eq!((sample.time, sample.weight), (at(500), Duration(10_000)));
        let inner = &stacks[sample.stack.unwrap()];
        let outer = &stacks[inner.outer.unwrap()];
        assert_eq!((id(&survey, sample.thread), [inner.address, outer.address]), expected);
        assert!(outer.outer.is_none() && outer.frames.is_empty());
    }
    let named = survey.threads().filter_map(|thread| survey.thread(thread)).find(|thread| thread.id == 30);
    let named = named.unwrap();
    assert_eq!(named.name, Some("named"));
    assert_eq!(survey.process(named.process.unwrap()), Some((30, Some("late"))));
}

#[test]
fn samples_that_are_not_wanted_are_not_kept() {
    let mut timeline = Timeline::first();
    read(&mut trace(), &mut timeline, false);
    let survey = timeline.survey(&Symbolizer::new());
    assert!(survey.samples().is_empty() && survey.stacks().len() == 0);
}
