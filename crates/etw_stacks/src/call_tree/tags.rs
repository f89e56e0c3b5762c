//! Stack tags: names for functions and whole stacks, from `.stacktags` files of Windows Performance Analyzer.
//!
//! The elements are those that Microsoft documents under "Stack Tags" of the Windows Performance Toolkit: `Tag` and
//! `HintTag` with `Entrypoint`s.

use encoding_rs::UTF_8;
use roxmltree::{Document, Node, ParsingOptions};

use etw_machine::HashMap;

use super::pattern::{Wildcard, lower};
use super::stacks::{NamedStacks, StackFrame, StackIndex};

/// Maximum size of a file; published ones have up to 200,000 bytes.
const MAX_LEN_BYTES: usize = 4 << 20;
/// Maximum number of attributes of an element, and of namespaces in a file: the parser compares each with the others.
const MAX_ATTRIBUTES: usize = 64;
/// Maximum number of tags in all files.
const MAX_TAGS: usize = 1 << 14;
/// Maximum number of entry points in all files.
const MAX_ENTRY_POINTS: usize = 1 << 16;
/// Maximum number of tags around a tag.
const MAX_DEPTH: usize = 64;
/// The name of stacks without a tag.
const UNTAGGED: &str = "[untagged]";

/// The error of a file of stack tags.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct StackTagsError {
    /// Line, from 1.
    pub line: u32,
    /// What is wrong there.
    pub reason: String,
}

/// Names for functions and stacks, by patterns of modules and functions.
///
/// A tag applies to a frame that matches one of its entry points, if each tag around it that has entry points matches
/// that frame or one further out. Of several tags the one with the highest priority applies, then the innermost
/// element, then that of the last file, then the first in its file. The tag of a whole stack is that of its frame with
/// the highest priority, then that of the innermost frame.
#[derive(Debug, Clone, Default)]
pub struct StackTags {
    tags: Vec<Tag>,
    entries: Vec<Entry>,
    file_count: u32,
}

#[derive(Debug, Clone)]
struct Tag {
    /// Names from the outermost tag, separated by `\`.
    path: Box<str>,
    /// Whether the tag has a name; else it only holds others.
    is_named: bool,
    /// The innermost tag around it that has entry points.
    gate: Option<usize>,
    /// Whether a tag in it has this one as gate.
    is_gate: bool,
    priority: i32,
    depth: usize,
    file: u32,
    hint: Option<Hint>,
}

/// What a hint tag adds to its name.
#[derive(Debug, Clone, Copy)]
struct Hint {
    of_callee: bool,
    only_module: bool,
}

/// A pattern of a tag.
#[derive(Debug, Clone)]
struct Entry {
    tag: usize,
    module: Wildcard,
    method: Wildcard,
}

/// A tag as it applies to a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Applied {
    /// Number of its name.
    label: u32,
    priority: i32,
    /// The number of the tag, unless it comes from the hint tag of the caller.
    tag: Option<usize>,
}

impl StackTags {
    /// Adds the tags of a file: XML in UTF-8 or UTF-16.
    ///
    /// # Errors
    ///
    /// Fails if the file is not well-formed XML, has no tag at its root, or exceeds the limits; nothing is added then.
    pub fn add_file(&mut self, bytes: &[u8]) -> Result<(), StackTagsError> {
        let text = UTF_8.decode(bytes).0;
        check_size(&text)?;
        let document = Document::parse_with_options(&text, ParsingOptions::default());
        let document = document.map_err(|error| failure(error.pos().row, error.to_string()))?;
        let mut added = self.clone();
        added.file_count += 1;
        added.add_elements(&document)?;
        *self = added;
        Ok(())
    }

    fn add_elements(&mut self, document: &Document<'_>) -> Result<(), StackTagsError> {
        let root = document.root_element();
        if !is_tag(root) {
            let name = root.tag_name().name();
            return Err(failure(1, format!("the root element is `{name}`, not `Tag`")));
        }
        // Each with the tag around it.
        let mut work = vec![(root, None)];
        while let Some((element, around)) = work.pop() {
            let line = || document.text_pos_at(element.range().start).row;
            let index = self.add_tag(element, around).map_err(|reason| failure(line(), reason))?;
            let inner: Vec<_> = element.children().filter(|child| is_tag(*child)).collect();
            work.extend(inner.into_iter().rev().map(|child| (child, Some(index))));
        }
        Ok(())
    }

    /// Adds the tag of an element; returns its number.
    fn add_tag(&mut self, element: Node<'_, '_>, around: Option<usize>) -> Result<usize, String> {
        let name = element.attribute("Name").unwrap_or_default().trim();
        let priority = match element.attribute("Priority").map(str::trim) {
            Some(text) => text.parse().map_err(|_| format!("the priority `{text}` is not a number"))?,
            None => 0,
        };
        let hint = element.has_tag_name("HintTag").then(|| hint(element)).transpose()?;
        let outer = around.and_then(|index| self.tags.get(index));
        let path = match outer.map_or("", |outer| &*outer.path) {
            "" => name.to_owned(),
            outer if name.is_empty() => outer.to_owned(),
            outer => format!("{outer}\\{name}"),
        };
        let depth = outer.map_or(0, |outer| outer.depth + 1);
        let index = self.tags.len();
        if index >= MAX_TAGS || depth > MAX_DEPTH {
            return Err(format!("there are more than {MAX_TAGS} tags, or {MAX_DEPTH} in each other"));
        }
        // A tag without entry points only holds others.
        let has_entries = |index: usize| self.entries.iter().rev().any(|entry| entry.tag == index);
        let gate = around.and_then(|index| match has_entries(index) {
            true => Some(index),
            false => self.tags.get(index)?.gate,
        });
        if let Some(gate) = gate.and_then(|gate| self.tags.get_mut(gate)) {
            gate.is_gate = true;
        }
        let (path, is_named, file) = (path.into(), !name.is_empty(), self.file_count);
        self.tags.push(Tag { path, is_named, gate, is_gate: false, priority, depth, file, hint });
        for entry in element.children().filter(|child| child.has_tag_name("Entrypoint")) {
            if self.entries.len() >= MAX_ENTRY_POINTS {
                return Err(format!("there are more than {MAX_ENTRY_POINTS} entry points"));
            }
            let pattern = |name| Wildcard::new(entry.attribute(name).map_or("*", str::trim));
            self.entries.push(Entry { tag: index, module: pattern("Module"), method: pattern("Method") });
        }
        Ok(index)
    }

    /// Returns whether there are no tags.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the stacks with the names of tags instead of the functions that have one.
    ///
    /// Frames with the same tag in a row become one.
    #[must_use]
    pub fn name_frames(&self, stacks: &NamedStacks) -> NamedStacks {
        let tagged = Tagged::new(self, stacks);
        let mut named = NamedStacks::new(stacks.unit());
        named.leave_out(stacks.left_out());
        let mut places: Vec<StackIndex> = Vec::with_capacity(stacks.nodes().len());
        for (index, node) in stacks.nodes().iter().enumerate() {
            let caller = node.caller.map(StackIndex::index);
            let around = caller.and_then(|caller| places.get(caller).copied());
            let place = match (tagged.applied[index], around) {
                (Some(applied), Some(around))
                    if caller.and_then(|caller| tagged.applied[caller]).map(|outer| outer.label)
                        == Some(applied.label) =>
                {
                    around
                }
                (Some(applied), _) => {
                    let frame = named.frame_index(StackFrame::tag(&tagged.labels[applied.label as usize]));
                    named.push(around, frame)
                }
                (None, _) => {
                    let frame = named.frame_index(stacks.frames()[node.frame.index()].clone());
                    named.push(around, frame)
                }
            };
            named.weigh(place, node.own);
            named.add_periods(place, stacks, StackIndex::new(index));
            places.push(place);
        }
        named
    }

    /// Returns stacks of tags: below each process the parts of the one tag that each stack has.
    #[must_use]
    pub fn name_stacks(&self, stacks: &NamedStacks) -> NamedStacks {
        let tagged = Tagged::new(self, stacks);
        let mut named = NamedStacks::new(stacks.unit());
        named.leave_out(stacks.left_out());
        let mut best: Vec<Option<Applied>> = Vec::with_capacity(stacks.nodes().len());
        let mut process: Vec<Option<StackIndex>> = Vec::with_capacity(stacks.nodes().len());
        for (index, node) in stacks.nodes().iter().enumerate() {
            let caller = node.caller.map(StackIndex::index);
            let outer = caller.and_then(|caller| best[caller]);
            let own = tagged.applied[index];
            let applied = match (own, outer) {
                (Some(own), Some(outer)) if own.priority < outer.priority => Some(outer),
                (own, outer) => own.or(outer),
            };
            best.push(applied);
            let frame = &stacks.frames()[node.frame.index()];
            let around = match (caller, frame.is_process()) {
                (None, true) => {
                    let frame = named.frame_index(frame.clone());
                    Some(named.push(None, frame))
                }
                (caller, _) => caller.and_then(|caller| process[caller]),
            };
            process.push(around);
            if node.own.is_zero() {
                continue;
            }
            let label = applied.map_or(UNTAGGED, |applied| &tagged.labels[applied.label as usize]);
            let mut place = around;
            for part in label.split('\\') {
                let frame = named.frame_index(StackFrame::tag(part));
                place = Some(named.push(place, frame));
            }
            if let Some(place) = place {
                named.weigh(place, node.own);
                named.add_periods(place, stacks, StackIndex::new(index));
            }
        }
        named
    }

    /// Returns the tags whose entry points match each frame, without duplicates, the outer ones first.
    fn matches(&self, frames: &[StackFrame]) -> Vec<Vec<usize>> {
        let mut by_module: HashMap<&str, Vec<&Entry>> = HashMap::default();
        let mut all = Vec::with_capacity(frames.len());
        for frame in frames {
            if !frame.is_function() {
                all.push(Vec::new());
                continue;
            }
            let module = frame.module().unwrap_or("?");
            let entries = by_module.entry(module).or_insert_with(|| {
                let text = lower(module);
                self.entries.iter().filter(|entry| entry.module.matches_lower(&text)).collect()
            });
            let name = lower(frame.name().unwrap_or("?"));
            let matching = entries.iter().filter(|entry| entry.method.matches_lower(&name));
            let mut tags: Vec<usize> = matching.map(|entry| entry.tag).collect();
            tags.sort_unstable();
            tags.dedup();
            all.push(tags);
        }
        all
    }
}

/// The tags of all nodes.
struct Tagged {
    applied: Vec<Option<Applied>>,
    labels: Vec<Box<str>>,
}

impl Tagged {
    fn new(tags: &StackTags, stacks: &NamedStacks) -> Tagged {
        let matches = tags.matches(stacks.frames());
        let mut tagged = Tagged { applied: Vec::with_capacity(stacks.nodes().len()), labels: Vec::new() };
        let mut by_label: HashMap<Box<str>, u32> = HashMap::default();
        // The gates that are open at each node, as the number of a set.
        let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
        let mut by_set: HashMap<Vec<usize>, usize> = HashMap::from_iter([(Vec::new(), 0)]);
        let mut open: Vec<usize> = Vec::with_capacity(stacks.nodes().len());
        for node in stacks.nodes() {
            let caller = node.caller.map(StackIndex::index);
            let outer = caller.map_or(0, |caller| open[caller]);
            let mut set = sets[outer].clone();
            let mut best: Option<usize> = None;
            for index in matches[node.frame.index()].iter().copied() {
                let tag = &tags.tags[index];
                // A tag comes after those around it, so that a frame may open several of them.
                if tag.gate.is_some_and(|gate| set.binary_search(&gate).is_err()) {
                    continue;
                }
                if tag.is_gate
                    && let Err(at) = set.binary_search(&index)
                {
                    set.insert(at, index);
                }
                let rank = |index: usize| {
                    let tag = &tags.tags[index];
                    (tag.priority, tag.depth, tag.file, std::cmp::Reverse(index))
                };
                if tag.is_named && best.is_none_or(|best| rank(index) > rank(best)) {
                    best = Some(index);
                }
            }
            let next = sets.len();
            let set = *by_set.entry(set).or_insert_with_key(|set| {
                sets.push(set.clone());
                next
            });
            open.push(set);
            let frame = &stacks.frames()[node.frame.index()];
            let outer = caller.map(|caller| &stacks.frames()[stacks.nodes()[caller].frame.index()]);
            let own = best.map(|index| {
                let tag = &tags.tags[index];
                let label = match (tag.hint, outer) {
                    (Some(hint), Some(outer)) if !hint.of_callee && outer.is_function() => {
                        hint.label(&tag.path, outer)
                    }
                    _ => tag.path.to_string(),
                };
                (label, tag.priority, Some(index))
            });
            // The hint tag of the caller names what it calls.
            let of_caller = caller.and_then(|caller| tagged.applied[caller]?.tag).and_then(|index| {
                let tag = &tags.tags[index];
                let hint = tag.hint.filter(|hint| hint.of_callee)?;
                Some((hint.label(&tag.path, frame), tag.priority, None))
            });
            let applied = match (own, of_caller) {
                (Some(own), Some(hint)) if own.1 < hint.1 => Some(hint),
                (own, hint) => own.or(hint),
            };
            let applied = applied.map(|(label, priority, tag)| {
                let next = tagged.labels.len() as u32;
                let label = *by_label.entry(label.into()).or_insert_with_key(|label| {
                    tagged.labels.push(label.clone());
                    next
                });
                Applied { label, priority, tag }
            });
            tagged.applied.push(applied);
        }
        tagged
    }
}

impl Hint {
    /// Returns the name of a hint tag for a caller or callee.
    fn label(self, path: &str, frame: &StackFrame) -> String {
        let module = frame.module().unwrap_or("?");
        match self.only_module {
            true => format!("{path}\\{module}"),
            false => format!("{path}\\{module}\\{}", frame.name().unwrap_or("?")),
        }
    }
}

fn is_tag(element: Node<'_, '_>) -> bool {
    element.has_tag_name("Tag") || element.has_tag_name("HintTag")
}

/// Returns what a hint tag says.
fn hint(element: Node<'_, '_>) -> Result<Hint, String> {
    let of_callee = match element.attribute("HintOperator").map(str::trim) {
        Some(text) if text.eq_ignore_ascii_case("Callee") => true,
        Some(text) if text.eq_ignore_ascii_case("Caller") => false,
        other => {
            let other = other.unwrap_or_default();
            return Err(format!("HintOperator is `{other}`, not `Caller` or `Callee`"));
        }
    };
    let only_module = match element.attribute("OnlyShowModule").map(str::trim) {
        None => true,
        Some(text) if text.eq_ignore_ascii_case("true") || text == "1" => true,
        Some(text) if text.eq_ignore_ascii_case("false") || text == "0" => false,
        Some(text) => return Err(format!("OnlyShowModule is `{text}`, not `true` or `false`")),
    };
    Ok(Hint { of_callee, only_module })
}

fn failure(line: u32, reason: impl Into<String>) -> StackTagsError {
    StackTagsError { line, reason: reason.into() }
}

/// Refuses texts on which the parser would take quadratic time or memory.
fn check_size(text: &str) -> Result<(), StackTagsError> {
    if text.len() > MAX_LEN_BYTES {
        return Err(failure(1, "files of stack tags have at most 4 MiB"));
    }
    if text.matches("xmlns").nth(MAX_ATTRIBUTES).is_some() {
        return Err(failure(1, "files of stack tags have at most 64 namespaces"));
    }
    let mut line = 1;
    for tag in text.split('<') {
        // A start tag has no `<` in it, and a `=` for each attribute.
        if !tag.starts_with("!--") && tag.matches('=').nth(MAX_ATTRIBUTES).is_some() {
            return Err(failure(line, "elements have at most 64 attributes"));
        }
        line += tag.matches('\n').count() as u32;
    }
    Ok(())
}
