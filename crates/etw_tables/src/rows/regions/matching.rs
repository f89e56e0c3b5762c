//! Which events start and stop regions.

use etw_event::{FileTime, Guid};
use etw_machine::{HashMap, ProcessIndex, ThreadIndex};

use super::definition::{Criteria, Definition, End, Part, Pattern, Point, Trigger};
use crate::rows::source::EventContext;
use crate::rows::table::RowWriter;

/// Maximum number of regions, and of starts without a stop; further ones are left out.
const MAX_REGIONS: usize = 1 << 20;
/// Maximum number of properties that are kept of an event.
const MAX_FIELDS: usize = 64;

/// An event at an end of a region. Texts are codes of the index.
#[derive(Debug, Clone)]
pub(super) struct Moment {
    pub(super) time: FileTime,
    pub(super) kind: u32,
    pub(super) process: Option<ProcessIndex>,
    pub(super) thread: Option<ThreadIndex>,
    pub(super) activity: Option<Guid>,
    /// Names and values of the properties.
    pub(super) fields: Box<[(u32, u32)]>,
    /// All of them as one text.
    pub(super) payload: u32,
}

/// A region in the trace.
#[derive(Debug, Clone)]
pub(super) struct Instance {
    pub(super) definition: usize,
    pub(super) start: FileTime,
    pub(super) stop: FileTime,
    /// The events at its ends; only one of a region whose other end is a duration, and none of one between regions.
    pub(super) moments: [Option<Moment>; 2],
}

/// What an event is to regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    /// It says how long a region lasts.
    Duration(usize),
    /// A stop comes before the start of the next region.
    Stop(usize),
    Start(usize),
    /// It triggers a filter of a region, by its number.
    Trigger(usize, usize),
}

/// What an event and its counterpart have in common.
type Key = (Option<ProcessIndex>, Option<ThreadIndex>, Option<Guid>, Box<[u32]>);

/// What is known of one definition.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Starts without a stop, the last one last.
    open: HashMap<Key, Vec<Moment>>,
    /// The last duration in units of 100 ns.
    pub(super) duration: Option<i64>,
    /// Events at one end of regions whose other end is a region.
    pub(super) ends: [Vec<Moment>; 2],
    /// The first time of each filter's event.
    pub(super) triggered: Vec<Option<FileTime>>,
}

/// The regions that events start and stop.
#[derive(Debug, Default)]
pub(super) struct Matching {
    /// By the row of the event's kind.
    roles: Vec<Option<Box<[Role]>>>,
    pub(super) states: Vec<State>,
    pub(super) found: Vec<Instance>,
    /// Number of starts without a stop.
    open: usize,
}

impl Matching {
    pub(super) fn new(all: &[Definition]) -> Matching {
        let state = |definition: &Definition| State {
            triggered: vec![None; definition.filters.len()],
            ..State::default()
        };
        Matching { states: all.iter().map(state).collect(), ..Matching::default() }
    }

    /// Adds an event.
    pub(super) fn event(&mut self, all: &[Definition], event: &EventContext<'_, '_>, writer: &mut RowWriter) {
        let kind = event.kind as usize;
        if self.roles.len() <= kind {
            self.roles.resize(kind + 1, None);
        }
        let roles = match self.roles[kind].take() {
            Some(roles) => roles,
            None => roles(all, event),
        };
        let mut moment = None;
        for role in &roles {
            self.play(all, *role, event, &mut moment, writer);
        }
        self.roles[kind] = Some(roles);
    }

    fn play(
        &mut self,
        all: &[Definition],
        role: Role,
        event: &EventContext<'_, '_>,
        moment: &mut Option<Moment>,
        writer: &mut RowWriter,
    ) {
        let time = event.record().time();
        match role {
            Role::Duration(number) => {
                let definition = &all[number];
                for point in [&definition.start, &definition.stop].into_iter().flatten() {
                    if let Point::Duration { event: pattern, field, nanos } = point
                        && fits(pattern, event)
                    {
                        let units = event
                            .get::<f64>(&[field])
                            .or_else(|| event.get::<u64>(&[field.as_str()]).map(|it| it as f64));
                        self.states[number].duration = units.map(|count| (count * nanos / 100.0) as i64);
                    }
                }
            }
            Role::Trigger(number, filter) => {
                if let Trigger::Event(pattern) = &all[number].filters[filter].trigger
                    && fits(pattern, event)
                {
                    self.states[number].triggered[filter].get_or_insert(time);
                }
            }
            Role::Start(number) | Role::Stop(number) => {
                let end = if matches!(role, Role::Start(_)) { End::Start } else { End::Stop };
                let definition = &all[number];
                let (own, other) = match end {
                    End::Start => (&definition.start, &definition.stop),
                    End::Stop => (&definition.stop, &definition.start),
                };
                let (Some(Point::Event(pattern)), Some(other)) = (own, other) else { return };
                if !fits(pattern, event) {
                    return;
                }
                let moment = match moment {
                    Some(moment) => moment.clone(),
                    None => moment.insert(Moment::new(event, writer)).clone(),
                };
                match other {
                    Point::Event(_) => self.pair(number, definition, end, pattern, moment, event, writer),
                    Point::Region(..) => self.keep(number, end, moment),
                    Point::Duration { .. } => self.last(number, end, moment),
                }
            }
        }
    }

    /// Adds a start that waits for its stop, or the region that a stop ends.
    #[expect(clippy::too_many_arguments, reason = "each is one thing that the two cases need")]
    fn pair(
        &mut self,
        number: usize,
        definition: &Definition,
        end: End,
        pattern: &Pattern,
        moment: Moment,
        event: &EventContext<'_, '_>,
        writer: &mut RowWriter,
    ) {
        let Some(key) = key(&definition.common, end, &moment, event, writer) else { return };
        let state = &mut self.states[number];
        match end {
            End::Start => {
                let open = state.open.entry(key).or_default();
                let is_repeated = pattern.ignores_repetition && !open.is_empty();
                if self.open < MAX_REGIONS && !is_repeated {
                    open.push(moment);
                    self.open += 1;
                }
            }
            End::Stop => {
                let Some(open) = state.open.get_mut(&key) else { return };
                let start = open.pop();
                if open.is_empty() {
                    state.open.remove(&key);
                }
                if let Some(start) = start {
                    self.open -= 1;
                    self.add(number, start.time, moment.time, [Some(start), Some(moment)]);
                }
            }
        }
    }

    fn keep(&mut self, number: usize, end: End, moment: Moment) {
        let ends = &mut self.states[number].ends[end as usize];
        if ends.len() < MAX_REGIONS {
            ends.push(moment);
        }
    }

    /// Adds a region that lasts as long as an event says.
    fn last(&mut self, number: usize, end: End, moment: Moment) {
        let Some(duration) = self.states[number].duration else { return };
        let time = moment.time;
        match end {
            End::Start => {
                let stop = FileTime(time.0.saturating_add(duration));
                self.add(number, time, stop, [Some(moment), None]);
            }
            End::Stop => {
                let start = FileTime(time.0.saturating_sub(duration));
                self.add(number, start, time, [None, Some(moment)]);
            }
        }
    }

    pub(super) fn add(
        &mut self,
        definition: usize,
        start: FileTime,
        stop: FileTime,
        moments: [Option<Moment>; 2],
    ) {
        if self.found.len() < MAX_REGIONS {
            self.found.push(Instance { definition, start, stop, moments });
        }
    }
}

impl Moment {
    fn new(event: &EventContext<'_, '_>, writer: &mut RowWriter) -> Moment {
        let (mut fields, mut payload) = (Vec::new(), String::new());
        if let Ok(properties) = event.event.properties.as_ref() {
            for property in properties.iter().take(MAX_FIELDS) {
                let text = property.text().to_string();
                let separator = if payload.is_empty() { "" } else { "; " };
                payload.push_str(&format!("{separator}{}={text}", property.name()));
                fields.push((writer.text(property.name()), writer.text(&text)));
            }
        }
        let record = event.record();
        Moment {
            time: record.time(),
            kind: event.kind,
            process: event.process,
            thread: event.thread,
            activity: record.activity_id().filter(|id| *id != Guid::ZERO),
            fields: fields.into(),
            payload: writer.text(&payload),
        }
    }

    /// Returns the value of a property by the code of its name.
    pub(super) fn field(&self, name: u32) -> Option<u32> {
        self.fields.iter().find(|(other, _)| *other == name).map(|(_, value)| *value)
    }
}

/// Returns what events of a kind may be to regions; their properties are compared for each event.
fn roles(all: &[Definition], event: &EventContext<'_, '_>) -> Box<[Role]> {
    let mut roles = Vec::new();
    for (number, definition) in all.iter().enumerate() {
        for (end, point) in [(End::Start, &definition.start), (End::Stop, &definition.stop)] {
            match point {
                Some(Point::Event(pattern)) if is_kind(pattern, event) => roles.push(match end {
                    End::Start => Role::Start(number),
                    End::Stop => Role::Stop(number),
                }),
                Some(Point::Duration { event: pattern, .. }) if is_kind(pattern, event) => {
                    roles.push(Role::Duration(number));
                }
                _ => {}
            }
        }
        for (filter, described) in definition.filters.iter().enumerate() {
            if matches!(&described.trigger, Trigger::Event(pattern) if is_kind(pattern, event)) {
                roles.push(Role::Trigger(number, filter));
            }
        }
    }
    roles.sort_unstable();
    roles.into()
}

fn is_kind(pattern: &Pattern, event: &EventContext<'_, '_>) -> bool {
    let (record, descriptor) = (event.record(), event.record().descriptor());
    let is = |wanted: Option<u16>, found: u16| wanted.is_none_or(|wanted| wanted == found);
    record.provider_id() == pattern.provider
        && is(pattern.id, descriptor.id)
        && is(pattern.version.map(u16::from), descriptor.version.into())
        && is(pattern.opcode.map(u16::from), descriptor.opcode.0.into())
        && pattern.name.as_deref().is_none_or(|name| is_named(name, event))
}

/// Returns whether an event has a name: its own, that of its task, or of task and opcode with or without a slash.
fn is_named(name: &str, event: &EventContext<'_, '_>) -> bool {
    let names = event.event.names();
    let event_type = names.event_type();
    names.own_name() == Some(name)
        || names.task() == Some(name)
        || [Some(names.event()), event_type]
            .into_iter()
            .flatten()
            .any(|found| found == name || found.replace('/', "") == name)
}

fn fits(pattern: &Pattern, event: &EventContext<'_, '_>) -> bool {
    is_kind(pattern, event)
        && pattern.fields.iter().all(|(field, test)| text(field, event).is_some_and(|text| test.holds(&text)))
}

fn text(field: &str, event: &EventContext<'_, '_>) -> Option<String> {
    let properties = event.event.properties.as_ref().ok()?;
    properties.find(field).map(|property| property.text().to_string())
}

/// Returns what the event at the other end must have too; `None` if the event lacks a property that is compared.
fn key(
    criteria: &Criteria,
    end: End,
    moment: &Moment,
    event: &EventContext<'_, '_>,
    writer: &mut RowWriter,
) -> Option<Key> {
    let mut fields = Vec::new();
    for pair in &criteria.fields {
        let part: &Part = &pair[end as usize];
        let text = text(&part.field, event);
        fields.push(writer.text(part.of(text.as_deref()?)?));
    }
    Some((
        moment.process.filter(|_| criteria.process),
        moment.thread.filter(|_| criteria.thread),
        moment.activity.filter(|_| criteria.activity),
        fields.into(),
    ))
}
