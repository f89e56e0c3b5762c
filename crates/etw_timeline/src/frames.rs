//! Stacks as frames: each address with the functions that are inlined there.

use std::collections::HashMap;
use std::rc::Rc;

use etw_analysis::Survey;

/// A function, and the place where it is called or sampled.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Function {
    pub(crate) name: Rc<str>,
    pub(crate) module: Option<Rc<str>>,
    pub(crate) file: Option<Rc<str>>,
    pub(crate) line: Option<u32>,
}

/// A frame of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StackFrame {
    /// The calling frame, which comes before.
    pub(crate) outer: Option<u32>,
    /// Index of its function.
    pub(crate) function: u32,
}

/// The frames of all stacks.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    pub(crate) frames: Vec<StackFrame>,
    pub(crate) functions: Vec<Function>,
    by_function: HashMap<Function, u32>,
    /// The innermost frame of each address.
    innermost: Vec<u32>,
    texts: HashMap<Box<str>, Rc<str>>,
}

impl Frames {
    pub(crate) fn new(survey: &Survey) -> Frames {
        let mut frames = Frames::default();
        for node in survey.stacks() {
            let mut outer = node.outer.and_then(|outer| frames.innermost.get(outer).copied());
            let module = node.module.map(|module| frames.text(module));
            if node.frames.is_empty() {
                let name = match &module {
                    Some(module) => format!("{module}+{:#x}", node.offset),
                    None => format!("{:#x}", node.offset),
                };
                let name = frames.text(&name);
                outer = Some(frames.add(outer, Function { name, module, file: None, line: None }));
            } else {
                for frame in node.frames.iter().rev() {
                    let function = Function {
                        name: frames.text(&frame.function),
                        module: module.clone(),
                        file: frame.file.as_deref().map(|file| frames.text(file)),
                        line: frame.line,
                    };
                    outer = Some(frames.add(outer, function));
                }
            }
            frames.innermost.extend(outer);
        }
        frames
    }

    /// Returns the innermost frame of a sample's stack.
    pub(crate) fn innermost(&self, stack: Option<usize>) -> Option<u32> {
        self.innermost.get(stack?).copied()
    }

    /// Returns the functions of a stack, outermost first.
    pub(crate) fn stack(&self, innermost: Option<u32>) -> Vec<u32> {
        let mut functions = Vec::new();
        let mut at = innermost;
        while let Some(frame) = at.and_then(|at| self.frames.get(at as usize)) {
            functions.push(frame.function);
            at = frame.outer;
        }
        functions.reverse();
        functions
    }

    fn add(&mut self, outer: Option<u32>, function: Function) -> u32 {
        let next = self.functions.len() as u32;
        let function = *self.by_function.entry(function).or_insert_with_key(|function| {
            self.functions.push(function.clone());
            next
        });
        self.frames.push(StackFrame { outer, function });
        self.frames.len() as u32 - 1
    }

    fn text(&mut self, text: &str) -> Rc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let new: Rc<str> = text.into();
        self.texts.insert(text.into(), new.clone());
        new
    }
}
