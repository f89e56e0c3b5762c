//! Regions of interest: intervals between events, as the files of Windows Performance Analyzer define them.

mod definition;
mod matching;

use std::cmp::Reverse;

use etw_event::{FileTime, Guid};
use etw_machine::HashMap;

use super::columns::{
    self, EventKind, GuidValue, Level, Process, Region, Span, Start, Text, TextCode, Thread,
};
use super::labels::RowLabel;
use super::source::{EventContext, RowContext, RowSource};
use super::spans::between;
use super::table::{RowWriter, table};
use definition::{Criteria, Definition, End, Naming, Point, Trigger, When};
use matching::{Instance, Matching, Moment};

pub use definition::{Regions, RegionsError};

/// Number of columns with properties of the start.
const FIELDS: usize = 12;
/// Maximum number of candidates that are compared to find the parent of a region.
const MAX_CANDIDATES: usize = 1 << 12;

table! {
    /// One row for each interval that a file of regions (`--regions`) defines.
    RegionRow: "regions_of_interest", "Regions of Interest",
        // A region may be inside of one of the same name.
        label RowLabel { is_group: false, ..RowLabel::single(&["path"]) };
    summary by ["path", "instance_name"] values ["rows", "sum(duration)", "mean(duration)", "max(duration)"];
    /// When it started.
    start_time: Start,
    /// When it stopped.
    stop_time: columns::End,
    /// Time between the two.
    duration: Span,
    /// Name of the region.
    region: Text,
    /// Name for display.
    friendly_name: Option<Text>,
    /// Name of this one, such as a property of its events, if the file says so.
    instance_name: Option<TextCode>,
    /// Names for display of the regions that it is defined in, and its own, separated by `/`.
    path: Text,
    /// GUID of the region.
    region_guid: Option<GuidValue>,
    /// `Events`, `Duration` in an event, `Regions` for the time between others, or `Container` of others.
    r#type: Text,
    /// Region that it is part of.
    parent: Option<Region>,
    /// Number of regions that it is part of.
    depth: Level,
    /// Process of the start.
    start_process: Option<Process>,
    /// Thread of the start.
    start_thread: Option<Thread>,
    /// Process of the stop.
    stop_process: Option<Process>,
    /// Thread of the stop.
    stop_thread: Option<Thread>,
    /// Provider and name of the event that started it.
    start_event: Option<EventKind>,
    /// Provider and name of the event that stopped it.
    stop_event: Option<EventKind>,
    /// Properties of the start event, or of the stop event if there is no start event.
    payload: Option<TextCode>,
    /// What the file says besides of the region.
    metadata: Option<Text>,
    /// The file that defines it.
    file: Text,
    /// Property of the start event by its place, or of the stop event if there is no start event.
    field_1: Option<TextCode>,
    /// Property of the start event by its place, or of the stop event if there is no start event.
    field_2: Option<TextCode>,
    /// Property of the start event by its place, or of the stop event if there is no start event.
    field_3: Option<TextCode>,
    /// Property of the start event by its place, or of the stop event if there is no start event.
    field_4: Option<TextCode>,
    /// Property of the start event by its place, or of the stop event if there is no start event.
    field_5: Option<TextCode>,
    /// Property of the start event by its place, or of the stop event if there is no start event.
    field_6: Option<TextCode>,
    /// Property of the start event by its place, or of the stop event if there is no start event.
    field_7: Option<TextCode>,
    /// Property of the start event by its place, or of the stop event if there is no start event.
    field_8: Option<TextCode>,
    /// Property of the start event by its place, or of the stop event if there is no start event.
    field_9: Option<TextCode>,
    /// Property of the start event by its place, or of the stop event if there is no start event.
    field_10: Option<TextCode>,
    /// Property of the start event by its place, or of the stop event if there is no start event.
    field_11: Option<TextCode>,
    /// Property of the start event by its place, or of the stop event if there is no start event.
    field_12: Option<TextCode>,
}

/// Makes rows of the regions of a trace.
#[derive(Debug, Default)]
pub(super) struct RegionRows {
    all: Vec<Definition>,
    matching: Matching,
}

impl RegionRows {
    pub(super) fn new(regions: Regions) -> RegionRows {
        RegionRows { matching: Matching::new(&regions.all), all: regions.all }
    }
}

impl RowSource for RegionRows {
    fn wants(&self, _event: &EventContext<'_, '_>) -> bool {
        !self.all.is_empty()
    }

    fn event(&mut self, event: &EventContext<'_, '_>, context: &mut RowContext<'_>) {
        self.matching.event(&self.all, event, context.writer);
    }

    /// Adds the regions in the order of their starts.
    fn finish(&mut self, context: &mut RowContext<'_>) {
        let writer = &mut *context.writer;
        let presence = self.resolve();
        let mut instances = std::mem::take(&mut self.matching.found);
        // A parent comes before what is in it.
        instances
            .sort_by_key(|it| (it.start, self.all[it.definition].depth, Reverse(it.stop), it.definition));
        let names: Vec<Codes> = self.all.iter().map(|definition| Codes::new(definition, writer)).collect();
        let parents = self.parents(&instances, &names);
        let mut depths: Vec<u32> = Vec::with_capacity(instances.len());
        for (instance, parent) in instances.iter().zip(&parents) {
            let depth = parent.map_or(0, |parent| depths[parent as usize] + 1);
            depths.push(depth);
            let definition = &self.all[instance.definition];
            let name = match &definition.naming {
                None => None,
                Some(Naming::Field(_, end)) => names[instance.definition].name(instance, *end),
                Some(Naming::Presence { region, present, absent }) => {
                    let is_present = presence.contains_key(region);
                    Some(writer.text(if is_present { present } else { absent }))
                }
            };
            write(instance, definition, name, (*parent, depth), writer);
        }
    }
}

impl RegionRows {
    /// Finds the regions between others and the containers, and leaves out what filters exclude. Returns the first start
    /// of each region that is in the trace.
    fn resolve(&mut self) -> HashMap<Guid, FileTime> {
        let numbers: HashMap<Guid, usize> =
            self.all.iter().enumerate().filter_map(|(number, it)| Some((it.guid?, number))).collect();
        let mut needs: Vec<Vec<usize>> = self.all.iter().map(|it| needs(it, &numbers)).collect();
        for (number, definition) in self.all.iter().enumerate() {
            if let Some(around) = definition.around.filter(|around| self.all[*around].is_container()) {
                needs[around].push(number);
            }
        }
        let mut of: Vec<Vec<Instance>> = self.all.iter().map(|_| Vec::new()).collect();
        for instance in std::mem::take(&mut self.matching.found) {
            of[instance.definition].push(instance);
        }
        let mut is_done = vec![false; self.all.len()];
        let mut first: HashMap<Guid, FileTime> = HashMap::default();
        // Each round does those whose needs are done; regions in a circle have no end.
        loop {
            let ready = |number: &usize| !is_done[*number] && needs[*number].iter().all(|it| is_done[*it]);
            let ready: Vec<usize> = (0..self.all.len()).filter(ready).collect();
            if ready.is_empty() {
                break;
            }
            for number in ready {
                is_done[number] = true;
                let mut own = std::mem::take(&mut of[number]);
                if self.all[number].is_container() {
                    let inner = |it: &usize| self.all[*it].around == Some(number);
                    let inner: Vec<usize> = (0..self.all.len()).filter(inner).collect();
                    own = container(number, &inner, &of).into_iter().collect();
                } else if own.is_empty() {
                    own = self.between(number, &numbers, &of);
                }
                own.retain(|instance| self.counts(number, instance, &first));
                if let (Some(guid), Some(start)) =
                    (self.all[number].guid, own.iter().map(|it| it.start).min())
                {
                    first.entry(guid).and_modify(|time| *time = start.min(*time)).or_insert(start);
                }
                of[number] = own;
            }
        }
        for (number, instances) in of.into_iter().enumerate().filter(|(number, _)| is_done[*number]) {
            for Instance { start, stop, moments, .. } in instances {
                self.matching.add(number, start, stop, moments);
            }
        }
        first
    }

    /// Returns the regions one end of which is another region.
    fn between(&self, number: usize, numbers: &HashMap<Guid, usize>, of: &[Vec<Instance>]) -> Vec<Instance> {
        let (definition, state) = (&self.all[number], &self.matching.states[number]);
        let times =
            |point: &Option<Point>, end: End, default: End| -> Option<Vec<(FileTime, Option<Moment>)>> {
                let mut times: Vec<(FileTime, Option<Moment>)> = match point.as_ref()? {
                    Point::Event(_) => {
                        let moments = state.ends[end as usize].iter();
                        moments.map(|moment| (moment.time, Some(moment.clone()))).collect()
                    }
                    Point::Region(guid, wanted) => {
                        let wanted = wanted.unwrap_or(default);
                        let instances = numbers.get(guid).map_or(&[][..], |other| &of[*other][..]);
                        let time = |it: &Instance| if wanted == End::Start { it.start } else { it.stop };
                        instances.iter().map(|it| (time(it), it.moments[wanted as usize].clone())).collect()
                    }
                    Point::Duration { .. } => return None,
                };
                times.sort_by_key(|(time, _)| *time);
                Some(times)
            };
        let instance = |start, stop, moments| Instance { definition: number, start, stop, moments };
        let starts = times(&definition.start, End::Start, End::Stop);
        let stops = times(&definition.stop, End::Stop, End::Start);
        match (starts, stops, state.duration) {
            (Some(starts), Some(stops), _) => {
                let mut stops = stops.into_iter().peekable();
                let mut found = Vec::new();
                for (start, moment) in starts {
                    while stops.next_if(|(stop, _)| *stop < start).is_some() {}
                    let Some((stop, other)) = stops.next() else { break };
                    found.push(instance(start, stop, [moment, other]));
                }
                found
            }
            (None, Some(stops), Some(duration)) => {
                let start = |stop: FileTime| FileTime(stop.0.saturating_sub(duration));
                stops.into_iter().map(|(stop, it)| instance(start(stop), stop, [None, it])).collect()
            }
            (Some(starts), None, Some(duration)) => {
                let stop = |start: FileTime| FileTime(start.0.saturating_add(duration));
                starts.into_iter().map(|(start, it)| instance(start, stop(start), [it, None])).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns whether the filters let a region pass.
    fn counts(&self, number: usize, instance: &Instance, first: &HashMap<Guid, FileTime>) -> bool {
        let triggered = &self.matching.states[number].triggered;
        self.all[number].filters.iter().zip(triggered).all(|(filter, triggered)| {
            let time = match &filter.trigger {
                Trigger::Event(_) => *triggered,
                Trigger::Region(guid) => first.get(guid).copied(),
            };
            let is_met = time.is_some_and(|time| match filter.when {
                When::Anywhere => true,
                When::Before => time < instance.start,
                When::After => time > instance.start,
            });
            is_met != filter.excludes
        })
    }

    /// Returns the parent of each region: one of the definition around it that lasts at least as long, or of its own.
    fn parents(&self, instances: &[Instance], names: &[Codes]) -> Vec<Option<u32>> {
        let mut of: Vec<Siblings> = self.all.iter().map(|_| Siblings::default()).collect();
        for (number, instance) in instances.iter().enumerate() {
            of[instance.definition].add(number, instance.stop);
        }
        let parent = |(number, instance): (usize, &Instance)| {
            let (definition, codes) = (&self.all[instance.definition], &names[instance.definition]);
            let is_around = |other: usize| {
                let other = &instances[other];
                other.start <= instance.start && other.stop >= instance.stop
            };
            let own = definition.with_self.as_ref().and_then(|criteria| {
                let before = of[instance.definition].before(number);
                let mut candidates = before.iter().rev().take(MAX_CANDIDATES);
                candidates.find(|other| {
                    is_around(**other)
                        && has_common(criteria, &codes.with_self, instance, &instances[**other])
                })
            });
            let outer = || {
                let siblings = of.get(definition.around?)?;
                let mut candidates = siblings.from(instance.stop).iter().take(MAX_CANDIDATES);
                candidates.find(|other| {
                    let is_common = || {
                        has_common(&definition.with_parent, &codes.with_parent, instance, &instances[**other])
                    };
                    **other < number && is_around(**other) && is_common()
                })
            };
            own.or_else(outer).map(|parent| *parent as u32)
        };
        instances.iter().enumerate().map(parent).collect()
    }
}

/// The regions of one definition, in the order of their starts.
#[derive(Debug, Default)]
struct Siblings {
    numbers: Vec<usize>,
    /// The greatest stop of each and those before it.
    stops: Vec<FileTime>,
}

impl Siblings {
    fn add(&mut self, number: usize, stop: FileTime) {
        self.numbers.push(number);
        self.stops.push(self.stops.last().map_or(stop, |last| stop.max(*last)));
    }

    /// Returns those before a region.
    fn before(&self, number: usize) -> &[usize] {
        &self.numbers[..self.numbers.partition_point(|other| *other < number)]
    }

    /// Returns those from the first one that stops at a time or later.
    fn from(&self, stop: FileTime) -> &[usize] {
        &self.numbers[self.stops.partition_point(|other| *other < stop)..]
    }
}

/// The codes of names of properties that a definition compares.
#[derive(Debug)]
struct Codes {
    name: Option<u32>,
    with_parent: Vec<[u32; 2]>,
    with_self: Vec<[u32; 2]>,
}

impl Codes {
    fn new(definition: &Definition, writer: &mut RowWriter) -> Codes {
        let mut pairs = |criteria: Option<&Criteria>| -> Vec<[u32; 2]> {
            let fields = criteria.into_iter().flat_map(|criteria| &criteria.fields);
            fields.map(|pair| pair.each_ref().map(|part| writer.text(&part.field))).collect()
        };
        let with_parent = pairs(Some(&definition.with_parent));
        let with_self = pairs(definition.with_self.as_ref());
        let name = match &definition.naming {
            Some(Naming::Field(field, _)) => Some(writer.text(field)),
            _ => None,
        };
        Codes { name, with_parent, with_self }
    }

    /// Returns the name of a region by a property of one of its events.
    fn name(&self, instance: &Instance, end: Option<End>) -> Option<u32> {
        match end {
            Some(end) => instance.moments[end as usize].as_ref()?.field(self.name?),
            None => value(instance, self.name?),
        }
    }
}

/// Returns a property of the start, or else of the stop.
fn value(instance: &Instance, name: u32) -> Option<u32> {
    instance.moments.iter().flatten().find_map(|moment| moment.field(name))
}

/// Returns whether a region has in common with an outer one what it must have.
fn has_common(criteria: &Criteria, codes: &[[u32; 2]], inner: &Instance, outer: &Instance) -> bool {
    let (own, other) = (inner.moments.iter().flatten().next(), outer.moments.iter().flatten().next());
    let same = |is_needed: bool, equal: fn(&Moment, &Moment) -> bool| {
        !is_needed || matches!((own, other), (Some(own), Some(other)) if equal(own, other))
    };
    same(criteria.thread, |one, two| one.thread == two.thread)
        && same(criteria.process, |one, two| one.process == two.process)
        && same(criteria.activity, |one, two| one.activity == two.activity)
        && codes.iter().all(|[name, target]| {
            let found = value(inner, *name);
            found.is_some() && found == value(outer, *target)
        })
}

/// Returns the definitions whose regions must be known before those of this one.
fn needs(definition: &Definition, numbers: &HashMap<Guid, usize>) -> Vec<usize> {
    let points = [&definition.start, &definition.stop].into_iter().flatten();
    let ends = points.filter_map(|point| match point {
        Point::Region(guid, _) => Some(guid),
        _ => None,
    });
    let triggers = definition.filters.iter().filter_map(|filter| match &filter.trigger {
        Trigger::Region(guid) => Some(guid),
        Trigger::Event(_) => None,
    });
    ends.chain(triggers).filter_map(|guid| numbers.get(guid).copied()).collect()
}

/// Returns the region from the first start to the last stop of those in it.
fn container(number: usize, inner: &[usize], of: &[Vec<Instance>]) -> Option<Instance> {
    let all = || inner.iter().flat_map(|inner| &of[*inner]);
    let (start, stop) = (all().map(|it| it.start).min()?, all().map(|it| it.stop).max()?);
    Some(Instance { definition: number, start, stop, moments: [None, None] })
}

fn write(
    instance: &Instance,
    definition: &Definition,
    name: Option<u32>,
    (parent, depth): (Option<u32>, u32),
    writer: &mut RowWriter,
) {
    let is = |point: &Option<Point>, kind: fn(&Point) -> bool| point.as_ref().is_some_and(kind);
    let either = |kind: fn(&Point) -> bool| is(&definition.start, kind) || is(&definition.stop, kind);
    let kind = match () {
        () if definition.is_container() => "Container",
        () if either(|point| matches!(point, Point::Duration { .. })) => "Duration",
        () if either(|point| matches!(point, Point::Region(..))) => "Regions",
        () => "Events",
    };
    let [start, stop] = instance.moments.each_ref().map(Option::as_ref);
    let shown = start.or(stop);
    let mut fields = [None; FIELDS];
    for (field, (_, value)) in fields.iter_mut().zip(shown.map_or(&[][..], |it| &it.fields[..])) {
        *field = Some(*value);
    }
    let [field_1, field_2, field_3, field_4, field_5, field_6, field_7, field_8, ..] = fields;
    let [.., field_9, field_10, field_11, field_12] = fields;
    writer.add(RegionRow {
        start_time: instance.start,
        stop_time: instance.stop,
        duration: between(instance.start, instance.stop),
        region: &definition.name,
        friendly_name: definition.friendly_name.as_deref(),
        instance_name: name,
        path: &definition.path,
        region_guid: definition.guid,
        r#type: kind,
        parent,
        depth,
        start_process: start.and_then(|it| it.process),
        start_thread: start.and_then(|it| it.thread),
        stop_process: stop.and_then(|it| it.process),
        stop_thread: stop.and_then(|it| it.thread),
        start_event: start.map(|it| it.kind),
        stop_event: stop.map(|it| it.kind),
        payload: shown.map(|it| it.payload),
        metadata: Some(&*definition.metadata).filter(|text| !text.is_empty()),
        file: &definition.file,
        field_1,
        field_2,
        field_3,
        field_4,
        field_5,
        field_6,
        field_7,
        field_8,
        field_9,
        field_10,
        field_11,
        field_12,
    });
}
