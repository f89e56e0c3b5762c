//! Trees of stacks that are written by hand.

use super::*;

/// Stacks from lines such as `make;a!main;b!work 3`; functions of modules that start with `sys` are the system's.
fn stacks(lines: &[&str]) -> NamedStacks {
    let mut stacks = NamedStacks::new(WeightUnit::Count);
    for line in lines {
        let (names, count) = line.rsplit_once(' ').unwrap();
        let frames = names.split(';').enumerate().map(|(index, name)| {
            if index == 0 {
                return StackFrame::process(Some(name));
            }
            let (module, function) = match name.split_once('!') {
                Some((module, function)) => (Some(module), function),
                None => (None, name),
            };
            let is_system = module.is_some_and(|module| module.starts_with("sys"));
            StackFrame::function(module, Some(function).filter(|name| *name != "?"), is_system)
        });
        let count = count.parse().unwrap();
        stacks.add(frames, WeightSum { weight: 10 * count, count });
    }
    stacks
}

/// A program with a recursive function, a shared one, and the system below.
fn example() -> NamedStacks {
    stacks(&[
        "make;m!main;m!parse;c!malloc;sys!alloc 4",
        "make;m!main;m!parse 3",
        "make;m!main;m!walk;m!walk;c!malloc 2",
        "make;m!main;m!walk 1",
        "sh;s!main;c!malloc;sys!alloc;sys!zero 5",
    ])
}

/// The nodes of a tree as text: the depth as blanks, the name, and the inclusive and exclusive counts.
fn lines(tree: &CallTree) -> Vec<String> {
    let node = |node: &CallNode| {
        let CallNode { depth, name, inclusive, exclusive, .. } = node;
        assert_eq!((inclusive.weight, exclusive.weight), (10 * inclusive.count, 10 * exclusive.count));
        format!("{:depth$}{name} {} {}", "", inclusive.count, exclusive.count)
    };
    tree.nodes.iter().map(node).collect()
}

fn view(stacks: &NamedStacks, view: &TreeView) -> Vec<String> {
    lines(&CallTree::new(stacks, view, 0.0, usize::MAX))
}

fn shaped(shape: &TreeShape) -> Vec<String> {
    view(&shape.apply(&example()), &TreeView::TopDown)
}

fn patterns(texts: &[&str]) -> Vec<FramePattern> {
    texts.iter().map(|text| FramePattern::new(text)).collect()
}

#[test]
fn from_the_outside() {
    let expected = [
        "make 10 0",
        " m!main 10 0",
        "  m!parse 7 3",
        "   c!malloc 4 0",
        "    sys!alloc 4 4",
        "  m!walk 3 1",
        "   m!walk 2 0",
        "    c!malloc 2 2",
        "sh 5 0",
        " s!main 5 0",
        "  c!malloc 5 0",
        "   sys!alloc 5 0",
        "    sys!zero 5 5",
    ];
    assert_eq!(view(&example(), &TreeView::TopDown), expected);
}

#[test]
fn from_the_inside() {
    let expected = [
        "sys!zero 5 0",
        " sys!alloc 5 0",
        "  c!malloc 5 0",
        "   s!main 5 0",
        "    sh 5 5",
        "sys!alloc 4 0",
        " c!malloc 4 0",
        "  m!parse 4 0",
        "   m!main 4 0",
        "    make 4 4",
        "m!parse 3 0",
        " m!main 3 0",
        "  make 3 3",
        "c!malloc 2 0",
        " m!walk 2 0",
        "  m!walk 2 0",
        "   m!main 2 0",
        "    make 2 2",
        "m!walk 1 0",
        " m!main 1 0",
        "  make 1 1",
    ];
    assert_eq!(view(&example(), &TreeView::BottomUp), expected);
}

#[test]
fn by_name_a_recursive_function_counts_once() {
    let expected = [
        "sys!zero 5 5",
        "sys!alloc 9 4",
        "m!parse 7 3",
        "c!malloc 11 2",
        "m!walk 3 1",
        "m!main 10 0",
        "make 10 0",
        "s!main 5 0",
        "sh 5 0",
    ];
    assert_eq!(view(&example(), &TreeView::ByName), expected);
}

#[test]
fn callers_and_callees_of_functions() {
    let of =
        |kind: fn(FramePattern) -> TreeView, name: &str| view(&example(), &kind(FramePattern::new(name)));
    let callers = ["c!malloc 11 0", " s!main 5 0", "  sh 5 5", " m!parse 4 0", "  m!main 4 0", "   make 4 4"];
    let callers = [&callers[..], &[" m!walk 2 0", "  m!walk 2 0", "   m!main 2 0", "    make 2 2"]].concat();
    assert_eq!(of(TreeView::Callers, "malloc"), callers);
    let callees = ["c!malloc 11 2", " sys!alloc 9 4", "  sys!zero 5 5"];
    assert_eq!(of(TreeView::Callees, "c!malloc"), callees);
    // Each stack counts once: in the outermost of recursive calls, whose callees include the others.
    assert_eq!(of(TreeView::Callees, "walk"), ["m!walk 3 1", " m!walk 2 0", "  c!malloc 2 2"]);
    // From the innermost, whose callers include the others.
    let callers = ["m!walk 3 0", " m!walk 2 0", "  m!main 2 0", "   make 2 2", " m!main 1 0", "  make 1 1"];
    assert_eq!(of(TreeView::Callers, "walk"), callers);
    let both = of(TreeView::Callees, "*!main");
    assert_eq!(both.first().map(String::as_str), Some("*!main (2 functions) 15 0"));
    assert_eq!(both.get(1).map(String::as_str), Some(" m!parse 7 3"));
    assert!(of(TreeView::Callers, "absent").is_empty());
}

#[test]
fn what_weighs_little_is_left_out_and_counted() {
    let tree = CallTree::new(&example(), &TreeView::TopDown, 20.0, usize::MAX);
    assert_eq!(
        lines(&tree)[..6],
        [
            "make 10 0",
            " m!main 10 0",
            "  m!parse 7 3",
            "   c!malloc 4 0",
            "    sys!alloc 4 4",
            "  m!walk 3 1"
        ]
    );
    let walk = &tree.nodes[5];
    assert_eq!((walk.left_out.count, walk.left_out_count), (2, 1));
    let tree = CallTree::new(&example(), &TreeView::TopDown, 0.0, 1);
    assert_eq!((tree.left_out.count, tree.left_out_count), (5, 1));
}

#[test]
fn stacks_are_selected_and_functions_folded() {
    let shape = TreeShape { include: patterns(&["sys!*"]), ..TreeShape::default() };
    let selected = shape.apply(&example());
    assert_eq!((selected.total().count, selected.left_out().count), (9, 6));
    let shape = TreeShape { exclude: patterns(&["make"]), ..TreeShape::default() };
    assert_eq!(shaped(&shape)[0], "sh 5 0");
    let shape = TreeShape { fold: patterns(&["malloc", "*!main", "make"]), ..TreeShape::default() };
    let expected = [
        "make 10 0",
        " m!parse 7 3",
        "  sys!alloc 4 4",
        " m!walk 3 1",
        "  m!walk 2 2",
        "sh 5 0",
        " sys!alloc 5 0",
        "  sys!zero 5 5",
    ];
    assert_eq!(shaped(&shape), expected);
    let shape = TreeShape { fold_percent: 40.0, ..TreeShape::default() };
    let expected = [
        "make 10 0",
        " m!main 10 1",
        "  m!parse 7 3",
        "   c!malloc 4 0",
        "    sys!alloc 4 4",
        "  c!malloc 2 2",
        "sh 5 0",
        " c!malloc 5 0",
        "  sys!alloc 5 5",
    ];
    assert_eq!(shaped(&shape), expected);
}

#[test]
fn modules_are_grouped() {
    let shape = TreeShape { just_my_code: true, ..TreeShape::default() };
    let grouped = shaped(&shape);
    assert!(grouped.contains(&"    sys!? 4 4".to_owned()), "{grouped:?}");
    // Both functions of the system are one.
    assert_eq!(grouped.last().map(String::as_str), Some("   sys!? 5 5"));
    let shape = TreeShape { group_modules: patterns(&["m", "s"]), ..TreeShape::default() };
    let expected = [
        "make 10 0",
        " m!? 10 4",
        "  c!malloc 6 2",
        "   sys!alloc 4 4",
        "sh 5 0",
        " s!? 5 0",
        "  c!malloc 5 0",
        "   sys!alloc 5 0",
        "    sys!zero 5 5",
    ];
    assert_eq!(shaped(&shape), expected);
}

fn tags(text: &str) -> StackTags {
    let mut tags = StackTags::default();
    tags.add_file(text.as_bytes()).unwrap();
    tags
}

const TAGS: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<Tag Name="">
  <Tag Name="Memory" Priority="5">
    <Entrypoint Module="C" Method="mal*"/>
    <Tag Name="Kernel" Priority="5"><Entrypoint Module="sys"/></Tag>
  </Tag>
  <Tag Name="Parser" Priority="10"><Entrypoint Module="m" Method="parse"/></Tag>
  <Tag Name="Low" Priority="-1"><Entrypoint Module="*" Method="*main"/></Tag>
</Tag>"#;

#[test]
fn frames_have_tags() {
    let shape = TreeShape { tags: tags(TAGS), ..TreeShape::default() };
    let expected = [
        "make 10 0",
        " Low 10 0",
        "  Parser 7 3",
        "   Memory 4 0",
        "    Memory\\Kernel 4 4",
        "  m!walk 3 1",
        "   m!walk 2 0",
        "    Memory 2 2",
        "sh 5 0",
        " Low 5 0",
        "  Memory 5 0",
        "   Memory\\Kernel 5 5",
    ];
    assert_eq!(shaped(&shape), expected);
}

#[test]
fn a_stack_has_the_tag_of_the_highest_priority() {
    let named = tags(TAGS).name_stacks(&example());
    let expected =
        ["make 10 0", " Parser 7 7", " Memory 2 2", " Low 1 1", "sh 5 0", " Memory 5 0", "  Kernel 5 5"];
    assert_eq!(view(&named, &TreeView::TopDown), expected);
    let named = StackTags::default().name_stacks(&example());
    assert_eq!(
        view(&named, &TreeView::TopDown),
        ["make 10 0", " [untagged] 10 10", "sh 5 0", " [untagged] 5 5"]
    );
}

#[test]
fn a_tag_inside_another_needs_it_around_the_frame() {
    let text = r#"<Tag Name="">
      <Tag Name=""><Entrypoint Module="m" Method="walk"/>
        <Tag Name="Walk memory"><Entrypoint Method="malloc"/></Tag>
      </Tag></Tag>"#;
    let shape = TreeShape { tags: tags(text), ..TreeShape::default() };
    let tagged = shaped(&shape);
    assert!(tagged.contains(&"    Walk memory 2 2".to_owned()), "{tagged:?}");
    assert_eq!(tagged.iter().filter(|line| line.contains("c!malloc")).count(), 2, "{tagged:?}");
    // A tag without a name only holds others.
    assert!(tagged.contains(&"  m!walk 3 1".to_owned()), "{tagged:?}");
}

#[test]
fn of_several_files_the_last_one_wins() {
    let mut both = tags(r#"<Tag Name="First"><Entrypoint Method="malloc"/></Tag>"#);
    both.add_file(br#"<Tag Name="Second"><Entrypoint Method="mal*"/></Tag>"#).unwrap();
    let shape = TreeShape { tags: both, ..TreeShape::default() };
    let tagged = shaped(&shape);
    assert!(tagged.iter().any(|line| line.contains("Second")), "{tagged:?}");
    assert!(!tagged.iter().any(|line| line.contains("First")), "{tagged:?}");
}

#[test]
fn hint_tags_name_callers_and_callees() {
    let hint = |attributes: &str| {
        let text = format!(
            r#"<Tag Name=""><HintTag Name="Hint" {attributes}><Entrypoint Method="malloc"/></HintTag></Tag>"#
        );
        view(&tags(&text).name_frames(&example()), &TreeView::TopDown)
    };
    let callee = hint(r#"HintOperator="Callee""#);
    assert!(callee.contains(&"   Hint 4 0".to_owned()), "{callee:?}");
    assert!(callee.contains(&"    Hint\\sys 4 4".to_owned()), "{callee:?}");
    let callee = hint(r#"HintOperator="Callee" OnlyShowModule="false""#);
    assert!(callee.contains(&"    Hint\\sys\\alloc 4 4".to_owned()), "{callee:?}");
    let caller = hint(r#"HintOperator="Caller""#);
    assert!(caller.contains(&"   Hint\\m 4 0".to_owned()), "{caller:?}");
    assert!(caller.contains(&"  Hint\\s 5 0".to_owned()), "{caller:?}");
}

#[test]
fn bad_files_of_tags_are_refused() {
    let check = |text: &str, line: u32, expected: &str| {
        let mut tags = tags(TAGS);
        let error = tags.add_file(text.as_bytes()).unwrap_err();
        assert!(error.line == line && error.reason.contains(expected), "{error}");
        // What was known stays.
        let shape = TreeShape { tags, ..TreeShape::default() };
        assert!(shaped(&shape).contains(&"  Parser 7 3".to_owned()));
    };
    check("", 1, "");
    check("<Tag", 1, "");
    check("<Regions/>", 1, "`Regions`, not `Tag`");
    check("<Tag>\n<Tag Priority='high'/></Tag>", 2, "`high` is not a number");
    check("<Tag>\n\n<HintTag Name='x'/></Tag>", 3, "HintOperator");
    check("<Tag><HintTag HintOperator='Caller' OnlyShowModule='x'/></Tag>", 1, "OnlyShowModule");
    let deep = format!("{}{}", "<Tag>".repeat(100), "</Tag>".repeat(100));
    check(&deep, 1, "in each other");
    check(&format!("<Tag>{}</Tag>", "<Tag/>".repeat(20_000)), 1, "more than");
    check(&format!("<Tag {}/>", "a='' ".repeat(100)), 1, "64 attributes");
}

#[test]
fn published_files_of_tags() {
    let Some(directory) = etw_testkit::data::data_dir().map(|directory| directory.join("wpa-profiles"))
    else {
        return;
    };
    let files = ["ETW-Overhead-for-CPU", "VirtualAlloc", "OfficeBasic"];
    let mut tags = StackTags::default();
    for file in files {
        let path = directory.join(format!("microsoft-MSO-Scripts/{file}.stacktags"));
        tags.add_file(&std::fs::read(path).unwrap()).unwrap();
    }
    let stacks = stacks(&[
        "excel;ntdll.dll!RtlUserThreadStart;Excel.exe!WinMain;Excel.exe!MainLoop;Excel.exe!FDoIdleX 1",
        "excel;ntdll.dll!TppWorkerThread;ntdll.dll!LdrpWorkCallback 2",
        "excel;ntdll.dll!RtlUserThreadStart;x.dll!f;ntoskrnl.exe!EtwpLogKernelEvent 4",
        "excel;x.dll!f;ntdll.dll!RtlAllocateHeap 8",
    ]);
    let expected = [
        "excel 15 0",
        " Windows Heap 8 8",
        " ETW Overhead 4 4",
        " Windows Pool Threads 2 0",
        "  Static Dependencies - Parallel 2 2",
        " WinMain 1 0",
        "  MainLoop 1 0",
        "   Idle 1 1",
    ];
    assert_eq!(view(&tags.name_stacks(&stacks), &TreeView::TopDown), expected);
}

#[test]
fn what_changed() {
    let before = stacks(&["p;m!main;m!a 4", "p;m!main;m!b 2", "q;m!a;m!a 1"]);
    let after = stacks(&["p;m!main;m!a 6", "p;m!main;m!c 3", "q;m!a;m!a 1"]);
    let comparison = Comparison::new(&before, &after);
    let counts = |sums: [WeightSum; 2]| sums.map(|sum| sum.count);
    assert_eq!(counts(comparison.totals()), [7, 10]);
    let line = |change: &Change| {
        let ([before, after], [own, own_after]) = (counts(change.inclusive), counts(change.exclusive));
        format!("{:depth$}{} {before} {after} {own} {own_after}", "", change.name, depth = change.depth)
    };
    let tree: Vec<String> = comparison.tree(0.0).iter().map(line).collect();
    let expected = [
        "p 6 9 0 0",
        " m!main 6 9 0 0",
        "  m!a 4 6 4 6",
        "  m!c 0 3 0 3",
        "  m!b 2 0 2 0",
        "q 1 1 0 0",
        " m!a 1 1 0 0",
        "  m!a 1 1 1 1",
    ];
    assert_eq!(tree, expected);
    let sorted = |changes: Vec<Change>| {
        let mut lines: Vec<String> = changes.iter().map(line).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(comparison.processes()), ["p 6 9 0 0", "q 1 1 0 0"]);
    let functions = ["m!a 5 7 5 7", "m!b 2 0 2 0", "m!c 0 3 0 3", "m!main 6 9 0 0"];
    assert_eq!(sorted(comparison.functions()), functions);
    let stacks =
        ["p;m!main;m!a 4 6 4 6", "p;m!main;m!b 2 0 2 0", "p;m!main;m!c 0 3 0 3", "q;m!a;m!a 1 1 1 1"];
    assert_eq!(sorted(comparison.stacks(|_| true)), stacks);
    let of_a = comparison.of_frames(|frame| frame.name() == Some("a")).unwrap();
    assert_eq!(of_a.map(counts), [[5, 7], [5, 7]]);
    assert_eq!(comparison.of_frames(|frame| frame.name() == Some("z")), None);
}

/// Pseudo-random stacks of few functions, so that they share callers and recur.
fn random(seed: u64) -> NamedStacks {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut stacks = NamedStacks::new(WeightUnit::Bytes);
    for _ in 0..60 {
        let mut frames = vec![StackFrame::process(Some(["p", "q"][next(2) as usize]))];
        for _ in 0..next(9) {
            let module = ["m", "n", "sys"][next(3) as usize];
            let name = ["a", "b", "c", "d"][next(4) as usize];
            frames.push(StackFrame::function(Some(module), Some(name), module == "sys"));
        }
        stacks.add(frames, WeightSum { weight: next(1000), count: 1 });
    }
    stacks
}

/// In each view and shape, every weight is counted exactly once.
#[test]
fn each_view_has_the_weight_of_the_stacks() {
    let shapes = [
        TreeShape::default(),
        TreeShape { just_my_code: true, fold: patterns(&["b"]), ..TreeShape::default() },
        TreeShape { include: patterns(&["a"]), exclude: patterns(&["n!d"]), ..TreeShape::default() },
        TreeShape { fold_percent: 30.0, group_modules: patterns(&["m"]), ..TreeShape::default() },
        TreeShape { tags: tags(TAGS), ..TreeShape::default() },
    ];
    let views = [
        TreeView::TopDown,
        TreeView::BottomUp,
        TreeView::ByName,
        TreeView::Callers(FramePattern::new("a")),
        TreeView::Callees(FramePattern::new("m!*")),
    ];
    for seed in 1..40 {
        let stacks = random(seed);
        for shape in &shapes {
            let shaped = shape.apply(&stacks);
            let mut both = shaped.total();
            both += shaped.left_out();
            assert_eq!(both, stacks.total(), "{seed} {shape:?}");
            let by_tag = shape.tags.name_stacks(&shaped);
            assert_eq!(by_tag.total(), shaped.total());
            for view in &views {
                for (min, top) in [(0.0, usize::MAX), (3.0, usize::MAX), (0.0, 2)] {
                    let tree = CallTree::new(&shaped, view, min, top);
                    let mut sum = tree.left_out;
                    for node in &tree.nodes {
                        sum += node.exclusive;
                        sum += node.left_out;
                    }
                    let expected = match view {
                        TreeView::Callers(pattern) | TreeView::Callees(pattern) => {
                            let shape = TreeShape { include: vec![pattern.clone()], ..TreeShape::default() };
                            shape.select(&shaped).total()
                        }
                        _ => shaped.total(),
                    };
                    assert_eq!(sum, expected, "{seed} {view:?} {min} {top}");
                }
            }
        }
        let other = random(seed + 100);
        let comparison = Comparison::new(&stacks, &other);
        let mut sums = [WeightSum::default(); 2];
        for change in comparison.tree(0.0) {
            sums.iter_mut().zip(change.exclusive).for_each(|(sum, own)| *sum += own);
        }
        assert_eq!(sums, [stacks.total(), other.total()]);
    }
}

#[test]
fn periods_of_nodes_add_up_to_their_weights() {
    let mut stacks = NamedStacks::new(WeightUnit::Count);
    let mut expected_first = 0;
    for (period, lines) in [
        (0, ["make;m!main;m!parse;c!malloc;sys!alloc 4", "make;m!main;m!walk;m!walk;c!malloc 2"]),
        (2, ["make;m!main;m!parse;c!malloc 1", "sh;s!main;c!malloc;sys!alloc;sys!zero 5"]),
    ] {
        for line in lines {
            let (names, count) = line.rsplit_once(' ').unwrap();
            let mut caller = None;
            for name in names.split(';') {
                let frame = match name.split_once('!') {
                    Some((module, name)) => {
                        StackFrame::function(Some(module), Some(name), module.starts_with("sys"))
                    }
                    None => StackFrame::process(Some(name)),
                };
                let frame = stacks.frame_index(frame);
                caller = Some(stacks.push(caller, frame));
            }
            let count: u64 = count.parse().unwrap();
            stacks.weigh_in(caller.unwrap(), period, WeightSum { weight: 10 * count, count });
            expected_first += if period == 0 { 10 * count } else { 0 };
        }
    }
    let shapes = [
        TreeShape::default(),
        TreeShape { include: patterns(&["malloc"]), ..TreeShape::default() },
        TreeShape { exclude: patterns(&["walk"]), ..TreeShape::default() },
        TreeShape { fold: patterns(&["m!*", "sys!*"]), ..TreeShape::default() },
        TreeShape { just_my_code: true, ..TreeShape::default() },
        TreeShape { fold_percent: 20.0, ..TreeShape::default() },
    ];
    let around = |text: &str| FramePattern::new(text);
    let views = [
        TreeView::TopDown,
        TreeView::BottomUp,
        TreeView::ByName,
        TreeView::Callers(around("malloc")),
        TreeView::Callers(around("m!*")),
        TreeView::Callees(around("walk")),
        TreeView::Callees(around("m!*")),
    ];
    for shape in &shapes {
        let shaped = shape.apply(&stacks);
        for view in &views {
            let tree = CallTree::new(&shaped, view, 0.0, usize::MAX);
            let periods = tree.periods(&shaped, view, 3);
            assert_eq!(periods.len(), tree.nodes.len());
            for (node, periods) in tree.nodes.iter().zip(&periods) {
                assert_eq!(periods[1], 0, "{shape:?} {view:?} {}", node.name);
                assert_eq!(
                    periods.iter().sum::<u64>(),
                    node.inclusive.weight,
                    "{shape:?} {view:?} {}",
                    node.name
                );
            }
        }
    }
    let tree = CallTree::new(&stacks, &TreeView::TopDown, 0.0, usize::MAX);
    let outermost = tree.nodes.iter().zip(tree.periods(&stacks, &TreeView::TopDown, 3));
    let first: u64 = outermost.filter(|(node, _)| node.depth == 0).map(|(_, periods)| periods[0]).sum();
    assert_eq!(first, expected_first);
}
