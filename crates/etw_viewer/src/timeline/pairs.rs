//! The lanes of two traces, joined by their names.

use std::collections::HashMap;

use serde::Serialize;

use super::kinds::{KINDS, Kind, Measure};
use super::lanes::{Lane, Lanes};
use crate::tables::without_id;

/// A group of lanes of two traces.
#[derive(Debug, Serialize)]
pub(crate) struct PairedLanes<'l> {
    name: &'static str,
    title: &'static str,
    summary: &'static str,
    table: &'static str,
    key: &'static str,
    measure: Measure,
    unit: &'static str,
    lanes: Vec<PairedLane<'l>>,
    more: usize,
    /// Numbers of lanes in the tiles of the traces.
    own_count: usize,
    base_count: usize,
}

/// A lane of either trace.
#[derive(Debug, Serialize)]
struct PairedLane<'l> {
    label: &'l str,
    key: &'l str,
    rows: u64,
    base_rows: u64,
    /// Its places in the tiles of the traces.
    own: Option<usize>,
    base: Option<usize>,
}

/// Returns the lanes of a trace with those of the one to compare with, which have the same names without ids of processes.
pub(crate) fn pairs<'l>(own: &'l [Lanes], base: &'l [Lanes]) -> Vec<PairedLanes<'l>> {
    let of = |name: &str, groups: &'l [Lanes]| groups.iter().find(|group| group.name == name);
    // Of lanes with parts, the first one is compared.
    let kinds = KINDS.iter().filter(|kind| kind.part_of.is_empty());
    let groups = kinds.filter_map(|kind| match (of(kind.name, own), of(kind.name, base)) {
        (None, None) => None,
        (own, base) => Some(pair(own, base, kind)),
    });
    groups.collect()
}

fn pair<'l>(own: Option<&'l Lanes>, base: Option<&'l Lanes>, kind: &Kind) -> PairedLanes<'l> {
    let lanes_of = |group: Option<&'l Lanes>| group.map_or(&[][..], |group| &group.lanes[..]);
    let (after, before) = (lanes_of(own), lanes_of(base));
    // Lanes of one name, such as those of processes of one program, are joined in their order.
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, lane) in before.iter().enumerate().rev() {
        places.entry(without_id(&lane.label)).or_default().push(place);
    }
    let mut lanes = Vec::new();
    let mut is_joined = vec![false; before.len()];
    for (place, lane) in after.iter().enumerate() {
        let other = places.get_mut(without_id(&lane.label)).and_then(Vec::pop);
        let base_rows = other.and_then(|other| before.get(other)).map_or(0, |other| other.rows);
        if let Some(is_joined) = other.and_then(|other| is_joined.get_mut(other)) {
            *is_joined = true;
        }
        let Lane { label, key, rows } = lane;
        lanes.push(PairedLane { label, key, rows: *rows, base_rows, own: Some(place), base: other });
    }
    for (place, Lane { label, key, rows }) in before.iter().enumerate() {
        if !is_joined.get(place).copied().unwrap_or_default() {
            lanes.push(PairedLane { label, key, rows: 0, base_rows: *rows, own: None, base: Some(place) });
        }
    }
    let Kind { name, title, summary, table, key, measure, unit, .. } = *kind;
    let more = own.map_or(0, |group| group.more);
    let (own_count, base_count) = (after.len(), before.len());
    PairedLanes { name, title, summary, table, key, measure, unit, lanes, more, own_count, base_count }
}
