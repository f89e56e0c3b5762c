//! Flame graphs: sections of a page, which a script draws from data in the page.

use maud::{Markup, PreEscaped, html};
use openetw::analysis::{CallTree, Change, NamedStacks, TableKind, TreeView, WeightSum, WeightUnit};
use serde_json::{Value, json};

use super::sha256;
use super::viewer::{self, Links};
use super::words::{shown, weight_text};

/// Calls with less than this part of all, in percent, are a part of their callers.
const MIN_PERCENT: f64 = 0.05;
/// Maximum number of calls in a graph. With more, the minimum part is raised.
const MAX_CALLS: usize = 20_000;

/// Style and script of the graphs: what esbuild made of `crates/etw_viewer/ui`, committed so that a build needs no Node.
pub(super) const STYLE: &str = include_str!("../dist/flame.css");
const SCRIPT: &str = include_str!("../dist/flame.js");
const SCRIPT_HASH: [u8; 44] = sha256::base64(SCRIPT);

/// Returns the content security policy of a page with flame graphs: it allows their script and no other.
pub(super) fn policy() -> String {
    let hash = String::from_utf8_lossy(&SCRIPT_HASH);
    format!("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}'")
}

/// Returns the script of all graphs, for the end of the page.
pub(super) fn script() -> Markup {
    html! { script { (PreEscaped(SCRIPT)) } }
}

/// Draws the graph of stacks, which may not be empty.
pub(super) fn graph(kind: TableKind, stacks: &NamedStacks, links: &Links) -> Markup {
    let (tree, percent) = bounded(|percent| {
        let tree = CallTree::new(stacks, &TreeView::TopDown, percent, usize::MAX);
        (tree.nodes.len(), tree)
    });
    let (unit, total) = (stacks.unit(), stacks.total());
    let calls: Vec<Call<'_>> = tree
        .nodes
        .iter()
        .map(|node| Call {
            name: &node.name,
            depth: node.depth,
            weights: vec![amount(node.inclusive, total)],
        })
        .collect();
    let data = data(unit, &calls, &[amount(total, total)], &[1.0]);
    let left_out = stacks.left_out();
    section(
        kind,
        &data,
        percent,
        &html! {
            (weight_text(unit, total.weight)) " in " (total.count) " events."
            @if !left_out.is_zero() {
                " Left out are " (weight_text(unit, left_out.weight)) " in " (left_out.count)
                " events, of the idle process or not selected."
            }
            (links.to(viewer::stacks(kind).as_deref()))
        },
    )
}

/// Draws the graph of a comparison, with the weights before and after and the seconds they took.
pub(super) fn difference(
    kind: TableKind,
    unit: WeightUnit,
    totals: [WeightSum; 2],
    seconds: [f64; 2],
    tree: impl Fn(f64) -> Vec<Change>,
) -> Markup {
    let (changes, percent) = bounded(|percent| {
        let changes = tree(percent);
        (changes.len(), changes)
    });
    let all = [0, 1].map(|side| amount(totals[side], totals[side]));
    let calls: Vec<Call<'_>> = changes
        .iter()
        .map(|change| {
            let weights =
                vec![amount(change.inclusive[0], totals[0]), amount(change.inclusive[1], totals[1])];
            Call { name: &change.name, depth: change.depth, weights }
        })
        .collect();
    let data = data(unit, &calls, &all, &seconds);
    section(
        kind,
        &data,
        percent,
        &html! {
            span.flame-key.grew {} "grew (+)" span.flame-key.shrank {} "shrank (−). "
            "The stronger the colour, the larger the change of that call itself, per second. "
        },
    )
}

/// Returns the smallest tree of the least percentage that has not too many calls, and the percentage.
fn bounded<T>(tree: impl Fn(f64) -> (usize, T)) -> (T, f64) {
    let mut percent = MIN_PERCENT;
    loop {
        let (calls, tree) = tree(percent);
        if calls <= MAX_CALLS || percent > 100.0 {
            return (tree, percent);
        }
        percent *= 2.0;
    }
}

/// A call of a graph.
struct Call<'n> {
    name: &'n str,
    depth: usize,
    weights: Vec<u64>,
}

/// Returns the number that the width of a call stands for: the weight, or the number of events if none has a weight.
fn amount(sum: WeightSum, total: WeightSum) -> u64 {
    if total.weight == 0 { sum.count } else { sum.weight }
}

/// Returns the data of a graph; the numbers of all calls as columns.
fn data(unit: WeightUnit, calls: &[Call<'_>], totals: &[u64], seconds: &[f64]) -> Value {
    let mut names: Vec<String> = calls.iter().map(|call| shown(call.name)).collect();
    names.sort_unstable();
    names.dedup();
    let name = |call: &Call<'_>| names.binary_search(&shown(call.name)).unwrap_or_default();
    let column = |side: usize| -> Vec<u64> {
        calls.iter().map(|call| call.weights.get(side).copied().unwrap_or_default()).collect()
    };
    let weights: Vec<Vec<u64>> = (0..totals.len()).map(column).collect();
    let unit = match unit {
        WeightUnit::Time => "time",
        WeightUnit::Bytes => "bytes",
        WeightUnit::Count => "count",
    };
    json!({
        "unit": unit,
        "totals": totals,
        "seconds": seconds,
        "name": calls.iter().map(name).collect::<Vec<_>>(),
        "depth": calls.iter().map(|call| call.depth).collect::<Vec<_>>(),
        "weights": weights,
        "names": names,
    })
}

/// Returns JSON for a script element: without characters that could end the element or start another.
fn embedded(data: &Value) -> String {
    let text = data.to_string();
    text.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
}

fn section(kind: TableKind, data: &Value, percent: f64, about: &Markup) -> Markup {
    let (id, title) = (format!("flame-{}", kind.name()), format!("Flame graph: {}", kind.title()));
    let data_id = format!("{id}-data");
    html! {
        section id=(id) {
            h2 { (title) }
            .note { (about) }
            .flame-graph data-of=(data_id) data-title=(title) {}
            noscript { p.note { "This graph needs scripts. The tables have the same numbers." } }
            p.note {
                "Calls with less than " (percent) " % are a part of their callers. Click or Enter zooms in and out, and \
                 Escape resets; arrow keys go to callers, callees and neighbours, and / to the search."
            }
            script id=(data_id) type="application/json" { (PreEscaped(embedded(data))) }
        }
    }
}

#[cfg(test)]
mod tests {
    use openetw::analysis::StackFrame;

    use super::*;

    fn stacks(frames: &[(&[&str], u64)]) -> NamedStacks {
        let mut stacks = NamedStacks::new(WeightUnit::Count);
        for (names, count) in frames {
            let frames = names.iter().map(|name| StackFrame::function(None, Some(name), false));
            stacks.add(frames, WeightSum { weight: *count, count: *count });
        }
        stacks
    }

    fn data_of(markup: &str) -> Value {
        let (_, rest) = markup.split_once("type=\"application/json\">").unwrap();
        serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
    }

    #[test]
    fn data_has_each_call_and_small_ones_are_parts_of_their_callers() {
        let stacks = stacks(&[(&["a", "b"], 6000), (&["a", "c"], 3999), (&["a", "d"], 1)]);
        let markup = graph(TableKind::Functions, &stacks, &Links::Pages).into_string();
        let data = data_of(&markup);
        assert_eq!(data["names"], json!(["a", "b", "c"]));
        assert_eq!(data["depth"], json!([0, 1, 1]));
        assert_eq!(data["name"], json!([0, 1, 2]));
        assert_eq!(data["weights"], json!([[10_000, 6000, 3999]]));
        assert!(markup.contains("less than 0.05 %"), "{markup}");
    }

    #[test]
    fn names_are_data_and_never_markup() {
        let hostile = "</script><script>alert(1)</script><!-- ]]> & \u{202E}";
        let markup = graph(TableKind::Functions, &stacks(&[(&[hostile], 1)]), &Links::Pages).into_string();
        assert_eq!(markup.matches("<script").count(), 1, "{markup}");
        assert_eq!(markup.matches("</script").count(), 1, "{markup}");
        assert!(!markup.contains("<!--") && !markup.contains('\u{202E}'), "{markup}");
        assert_eq!(data_of(&markup)["names"][0], hostile.replace('\u{202E}', "\u{FFFD}"));
    }

    #[test]
    fn the_number_of_calls_is_bounded() {
        let ranges: Vec<f64> = vec![MIN_PERCENT, MIN_PERCENT * 2.0, MIN_PERCENT * 4.0];
        let (percent, least) =
            bounded(|percent| (if percent < ranges[2] { MAX_CALLS + 1 } else { 5 }, percent));
        assert_eq!((percent, least), (ranges[2], ranges[2]));
    }

    #[test]
    fn the_script_cannot_end_its_element() {
        assert!(!SCRIPT.contains("</") && !SCRIPT.contains("<!--"));
    }
}
