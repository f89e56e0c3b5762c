//! Call trees as text and as JSON.

use std::io::Write;

use anyhow::Result;
use openetw::analysis::{CallTree, NamedStacks, TableKind, TreeShape, TreeView, WeightSum};
use serde_json::{Map, Value, json};

use super::TreeRequest;
use super::words::{shown, unit_name, weight_text, weight_value};

/// Minimum part of a node in percent.
const MIN_PERCENT_OF_TEXT: f64 = 1.0;
const MIN_PERCENT_OF_JSON: f64 = 0.1;

/// What is shown of stacks.
#[derive(Debug, Clone)]
pub enum TreeKind {
    /// A view of the stacks.
    View(TreeView),
    /// The stacks by the tag that each has.
    Tags,
}

impl TreeKind {
    fn name(&self) -> String {
        match self {
            TreeKind::View(TreeView::TopDown) => "top-down".to_owned(),
            TreeKind::View(TreeView::BottomUp) => "bottom-up".to_owned(),
            TreeKind::View(TreeView::ByName) => "by name".to_owned(),
            TreeKind::View(TreeView::Callers(pattern)) => format!("callers of {}", pattern.text()),
            TreeKind::View(TreeView::Callees(pattern)) => format!("callees of {}", pattern.text()),
            TreeKind::Tags => "by stack tag".to_owned(),
        }
    }
}

/// A tree with what it was made of.
pub(super) struct Tree<'r> {
    kind: TableKind,
    request: &'r TreeRequest,
    stacks: NamedStacks,
    tree: CallTree,
    notes: Vec<String>,
}

impl Tree<'_> {
    /// Makes the tree of stacks. Notes are about the names of functions.
    pub(super) fn new<'r>(
        kind: TableKind,
        stacks: &NamedStacks,
        request: &'r TreeRequest,
        shape: &TreeShape,
        notes: &[String],
        is_text: bool,
    ) -> Tree<'r> {
        let (stacks, view) = match &request.kind {
            TreeKind::View(view) => (shape.apply(stacks), view.clone()),
            TreeKind::Tags => (shape.tags.name_stacks(&shape.select(stacks)), TreeView::TopDown),
        };
        let min = request.min_percent.unwrap_or(match is_text {
            true => MIN_PERCENT_OF_TEXT,
            false => MIN_PERCENT_OF_JSON,
        });
        let tree = CallTree::new(&stacks, &view, min, request.top.unwrap_or(usize::MAX));
        Tree { kind, request, stacks, tree, notes: notes.to_vec() }
    }

    /// Appends the tree as text.
    pub(super) fn put(&self, out: &mut Vec<u8>, is_incomplete: bool, width: usize) -> Result<()> {
        let Tree { kind, stacks, tree, .. } = self;
        let unit = stacks.unit();
        let incomplete = if is_incomplete { " (incomplete)" } else { "" };
        writeln!(out, "\n{}, {}{incomplete}", kind.title(), self.request.kind.name())?;
        if tree.nodes.is_empty() && tree.left_out_count == 0 {
            return self.put_empty(out);
        }
        let weight = |sum: WeightSum| weight_text(unit, sum.weight);
        let percent = |sum: WeightSum| format!("{:.2}", sum.percent_of(tree.total));
        writeln!(
            out,
            "  {:>10}  {:>6}  {:>10}  {:>6}  Function",
            "Inclusive", "Inc %", "Exclusive", "Exc %"
        )?;
        let mut put = |cells: [String; 4], depth: usize, name: &str| -> Result<()> {
            let [inclusive, inc, exclusive, exc] = cells;
            let line = format!("  {inclusive:>10}  {inc:>6}  {exclusive:>10}  {exc:>6}  {:depth$}{name}", "");
            let is_cut = line.chars().count() > width;
            let kept = if is_cut { width.saturating_sub(1) } else { width };
            let line: String = line.chars().take(kept).collect();
            writeln!(out, "{}{}", line.trim_end(), if is_cut { "…" } else { "" })?;
            Ok(())
        };
        let rest = |sum: WeightSum, count: usize| {
            ([weight(sum), percent(sum), String::new(), String::new()], format!("… {count} more"))
        };
        // Nodes whose rest comes after all that is in them.
        let mut open: Vec<(usize, WeightSum, usize)> = Vec::new();
        for node in &tree.nodes {
            while let Some((depth, sum, count)) = open.pop_if(|(depth, ..)| *depth >= node.depth) {
                let (cells, name) = rest(sum, count);
                put(cells, depth + 1, &name)?;
            }
            let cells = [node.inclusive, node.exclusive].map(|sum| [weight(sum), percent(sum)]);
            let [[inclusive, inc], [exclusive, exc]] = cells;
            put([inclusive, inc, exclusive, exc], node.depth, &shown(&node.name))?;
            if node.left_out_count > 0 {
                open.push((node.depth, node.left_out, node.left_out_count));
            }
        }
        while let Some((depth, sum, count)) = open.pop() {
            let (cells, name) = rest(sum, count);
            put(cells, depth + 1, &name)?;
        }
        if tree.left_out_count > 0 {
            let (cells, name) = rest(tree.left_out, tree.left_out_count);
            put(cells, 0, &name)?;
        }
        writeln!(out, "  All: {} in {} events.", weight(tree.total), tree.total.count)?;
        self.notes().iter().try_for_each(|note| Ok(writeln!(out, "  {note}")?))
    }

    fn put_empty(&self, out: &mut Vec<u8>) -> Result<()> {
        let is_filtered = !self.stacks.left_out().is_zero() || !self.tree.total.is_zero();
        match is_filtered {
            true => writeln!(out, "  No stack is selected.")?,
            false => writeln!(out, "  No stacks; they are recorded by: {}", self.kind.flags())?,
        }
        self.notes().iter().try_for_each(|note| Ok(writeln!(out, "  {note}")?))
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        let left_out = self.stacks.left_out();
        if !left_out.is_zero() {
            let weight = weight_text(self.stacks.unit(), left_out.weight);
            notes.push(format!(
                "Left out: {weight} in {} events, of the idle process or not selected.",
                left_out.count
            ));
        }
        notes
    }

    /// Returns the tree as JSON.
    pub(super) fn value(&self) -> Value {
        let (stacks, tree) = (&self.stacks, &self.tree);
        let unit = stacks.unit();
        let put = |value: &mut Map<String, Value>, name: &str, sum: WeightSum| {
            value.insert(name.to_owned(), weight_value(unit, sum.weight).into());
            value.insert(format!("{name}_events"), sum.count.into());
        };
        let mut path: Vec<usize> = Vec::new();
        let nodes = tree.nodes.iter().enumerate().map(|(index, node)| {
            path.truncate(node.depth);
            let mut value = Map::new();
            value.insert("name".to_owned(), node.name.as_str().into());
            value.insert("depth".to_owned(), node.depth.into());
            value.insert("parent".to_owned(), path.last().copied().into());
            put(&mut value, "inclusive", node.inclusive);
            value.insert("inclusive_percent".to_owned(), rounded(node.inclusive.percent_of(tree.total)));
            put(&mut value, "exclusive", node.exclusive);
            value.insert("exclusive_percent".to_owned(), rounded(node.exclusive.percent_of(tree.total)));
            put(&mut value, "left_out", node.left_out);
            value.insert("left_out_nodes".to_owned(), node.left_out_count.into());
            path.push(index);
            Value::Object(value)
        });
        let nodes: Vec<Value> = nodes.collect();
        let mut value = Map::new();
        value.insert("view".to_owned(), self.request.kind.name().into());
        value.insert("unit".to_owned(), unit_name(unit).into());
        put(&mut value, "total", tree.total);
        put(&mut value, "unselected", stacks.left_out());
        put(&mut value, "left_out", tree.left_out);
        value.insert("left_out_nodes".to_owned(), tree.left_out_count.into());
        value.insert("nodes".to_owned(), nodes.into());
        value.insert("notes".to_owned(), json!(self.notes));
        Value::Object(value)
    }

    /// Returns the name of the table of the stacks.
    pub(super) fn name(&self) -> &'static str {
        self.kind.name()
    }
}

/// Returns a percentage with three digits after the point.
pub(super) fn rounded(percent: f64) -> Value {
    ((percent * 1000.0).round() / 1000.0).into()
}
