//! Stacks of names from the codes of stacks in tables.

use std::collections::HashMap;

use anyhow::{Context, Result, bail};
use openetw::analysis::{FrameIndex, NamedStacks, StackFrame, StackIndex, WeightSum, WeightUnit};
use openetw::tables::{StackNode, Value};

use crate::model::Model;
use crate::tables::{Fields, table};

/// Builds named stacks from codes of stacks.
pub(super) struct Builder<'m> {
    model: &'m Model,
    pub(super) stacks: NamedStacks,
    /// Whether the idle process is left out.
    leaves_out_idle: bool,
    nodes: openetw::tables::Stacks<'m>,
    processes: HashMap<Option<u32>, Option<StackIndex>>,
    /// The functions at each frame, the outermost first.
    frames: HashMap<u32, Vec<FrameIndex>>,
    /// The stack of each code, by process.
    places: HashMap<(Option<u32>, u32), StackIndex>,
}

impl<'m> Builder<'m> {
    /// Returns a builder without stacks.
    ///
    /// # Errors
    ///
    /// Fails if the dictionary of stacks is damaged.
    pub(super) fn new(model: &'m Model, unit: WeightUnit, leaves_out_idle: bool) -> Result<Builder<'m>> {
        Ok(Builder {
            model,
            stacks: NamedStacks::new(unit),
            leaves_out_idle,
            nodes: model.index().stacks()?,
            processes: HashMap::new(),
            frames: HashMap::new(),
            places: HashMap::new(),
        })
    }

    /// Adds the weight of rows with these codes of a process, a stack and a frame, to that of a period if there is one.
    ///
    /// # Errors
    ///
    /// Fails if the stacks are damaged.
    pub(super) fn add(
        &mut self,
        [process, stack, frame]: [Option<u32>; 3],
        sum: WeightSum,
        period: Option<u32>,
    ) -> Result<()> {
        let is_known = stack.is_some() || frame.is_some();
        let root = if is_known { self.process(process)? } else { None };
        let Some(root) = root else {
            self.stacks.leave_out(sum);
            return Ok(());
        };
        let place = match (stack, frame) {
            (Some(stack), _) => self.place(process, root, stack)?,
            (None, Some(frame)) => self.push(root, frame)?,
            (None, None) => root,
        };
        match period {
            Some(period) => self.stacks.weigh_in(place, period, sum),
            None => self.stacks.weigh(place, sum),
        }
        Ok(())
    }

    /// Returns the stack that consists of a process; `None` for the idle process.
    fn process(&mut self, process: Option<u32>) -> Result<Option<StackIndex>> {
        if let Some(known) = self.processes.get(&process) {
            return Ok(*known);
        }
        let mut name = None;
        let mut is_idle = false;
        if let Some(row) = process {
            let table = table(self.model, "processes")?;
            let fields = Fields::new(self.model, table);
            let id = table.path_value(row.into(), &fields.get("process_id")?.path)?;
            is_idle = self.leaves_out_idle && id == Value::Integer(0);
            if let Value::Code(code) = table.path_value(row.into(), &fields.get("name")?.path)? {
                name = self.model.index().texts()?.get(code);
            }
        }
        let place = (!is_idle).then(|| {
            let frame = self.stacks.frame_index(StackFrame::process(name));
            self.stacks.push(None, frame)
        });
        self.processes.insert(process, place);
        Ok(place)
    }

    /// Returns the stack of a code.
    fn place(&mut self, process: Option<u32>, root: StackIndex, stack: u32) -> Result<StackIndex> {
        let mut missing: Vec<(u32, u64)> = Vec::new();
        let mut at = Some(stack);
        let mut place = root;
        while let Some(code) = at {
            if let Some(known) = self.places.get(&(process, code)) {
                place = *known;
                break;
            }
            let Some(StackNode { parent, frame }) = self.nodes.get(code) else {
                bail!("the stacks are damaged")
            };
            missing.push((code, frame));
            at = parent;
        }
        for (code, frame) in missing.into_iter().rev() {
            place = self.push(place, u32::try_from(frame)?)?;
            self.places.insert((process, code), place);
        }
        Ok(place)
    }

    /// Returns a stack with the functions at a frame.
    fn push(&mut self, stack: StackIndex, frame: u32) -> Result<StackIndex> {
        if !self.frames.contains_key(&frame) {
            let functions = self.functions(frame)?;
            self.frames.insert(frame, functions);
        }
        let functions = self.frames.get(&frame).map(Vec::as_slice).unwrap_or_default();
        let stacks = &mut self.stacks;
        Ok(functions.iter().fold(stack, |stack, function| stacks.push(Some(stack), *function)))
    }

    /// Returns the functions at a frame, the outermost first: those that are inlined there follow.
    fn functions(&mut self, frame: u32) -> Result<Vec<FrameIndex>> {
        let model = self.model;
        let table = table(model, "frames")?;
        let texts = model.index().texts()?;
        let text = |name: &str| -> Result<Option<&'m str>> {
            let column = table.schema().column(name).context("frames have this column")?;
            Ok(match table.value(frame.into(), column)? {
                Value::Code(code) => texts.get(code),
                _ => None,
            })
        };
        let Some(shown) = text("function")? else { return Ok(Vec::new()) };
        let (module, inlined) = (text("module")?, text("inlined")?);
        let column = table.schema().column("is_system").context("frames have this column")?;
        let is_system = table.value(frame.into(), column)? == Value::Bool(true);
        let mut functions = vec![function(shown, module, is_system)];
        // Innermost first.
        for name in inlined.into_iter().flat_map(|names| names.rsplit(';')) {
            functions.push(StackFrame::function(module, Some(name), is_system));
        }
        Ok(functions.into_iter().map(|function| self.stacks.frame_index(function)).collect())
    }
}

/// Returns the function that `module!name` or `module+0x12` shows.
fn function(shown: &str, module: Option<&str>, is_system: bool) -> StackFrame {
    if let Some(rest) = module.and_then(|module| shown.strip_prefix(module)) {
        if let Some(name) = rest.strip_prefix('!') {
            return StackFrame::function(module, Some(name), is_system);
        }
        if rest.starts_with("+0x") {
            return StackFrame::function(module, None, is_system);
        }
    }
    if module.is_none() && shown.starts_with("0x") {
        return StackFrame::function(None, None, is_system);
    }
    // The names of methods of .NET have their assembly.
    match shown.split_once('!') {
        Some((assembly, name)) => StackFrame::function(Some(assembly), Some(name), is_system),
        None => StackFrame::function(module, Some(shown), is_system),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_names_become_functions() {
        let check = |shown: &str, module: Option<&str>, expected: &str| {
            assert_eq!(function(shown, module, false).to_string(), expected, "{shown}");
        };
        check("ntdll.dll!RtlFree", Some("ntdll.dll"), "ntdll.dll!RtlFree");
        check("ntdll.dll+0x12", Some("ntdll.dll"), "ntdll.dll!?");
        check("0x1234", None, "?!?");
        check("App!Main()", Some("App.dll"), "App!Main()");
        check("main", None, "main");
    }
}
