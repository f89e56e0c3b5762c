//! Rundowns of this machine, and of directories that stand for others.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc;

use etw_schema::Resolver;

use super::*;
use etw_testkit::decoded::decode;

/// A record that was read back: its names and fields.
struct Event {
    name: String,
    fields: BTreeMap<String, String>,
}

impl Event {
    fn text(&self, field: &str) -> &str {
        &self.fields[field]
    }

    fn number(&self, field: &str) -> u64 {
        let text = self.text(field);
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
            None => text.parse().unwrap(),
        }
    }
}

/// Reads back records; their times must be those that were set.
#[derive(Default)]
struct Events {
    resolver: Resolver,
    all: Vec<Event>,
}

impl Events {
    fn put(&mut self, words: &[u64]) {
        let (_, name, fields) = decode(&mut self.resolver, words);
        self.all.push(Event { name, fields: fields.into_iter().collect() });
    }

    fn of<'e>(&'e self, name: &'e str) -> impl Iterator<Item = &'e Event> {
        self.all.iter().filter(move |event| event.name == name)
    }
}

fn run(rundown: &mut Rundown, phase: Phase, parts: Parts) -> (Summary, Events) {
    let mut events = Events::default();
    let mut inventory = rundown.take(Scope { phase, parts, ..Scope::default() }, 1).unwrap();
    inventory.tell(Ticks(7), |words| events.put(words));
    (inventory.summary(), events)
}

fn proc_ids(directory: &str) -> BTreeSet<u32> {
    proc::ids(Path::new(directory)).unwrap().collect()
}

#[test]
fn this_process_is_there_with_its_threads_and_images() {
    let (sender, receiver) = mpsc::channel();
    let mut ends = Vec::new();
    let mut threads = Vec::new();
    for number in 0..3 {
        let sender = sender.clone();
        let (end, until) = mpsc::channel::<()>();
        ends.push(end);
        let builder = std::thread::Builder::new().name(format!("rundown-{number}"));
        let body = move || {
            sender.send(()).unwrap();
            let _ = until.recv();
        };
        threads.push(builder.spawn(body).unwrap());
        receiver.recv().unwrap();
    }
    let id = std::process::id();
    for (phase, end) in [(Phase::Start, "DCStart"), (Phase::End, "DCEnd")] {
        let task = format!("/proc/{id}/task");
        let before = proc_ids(&task);
        let (summary, events) = run(&mut Rundown::new(), phase, Parts::ALL);
        assert_eq!(before, proc_ids(&task), "this process's threads stay");
        assert_eq!(events.all.last().unwrap().name, "EventTrace/RDComplete");
        assert_eq!(events.of(&format!("Process/{end}")).count() as u64, summary.processes + 1);

        let name = format!("Process/{end}");
        let own: Vec<_> =
            events.of(&name).filter(|event| event.number("ProcessId") == u64::from(id)).collect();
        let [own] = own[..] else { panic!("this process is there once") };
        assert_eq!(own.number("ParentId"), u64::from(std::os::unix::process::parent_id()));
        assert_eq!(own.text("ExitStatus"), "259");
        let uid = std::fs::metadata("/proc/self").unwrap().uid();
        assert_eq!(own.text("UserSID"), format!("S-1-22-1-{uid}"));
        let program = std::env::current_exe().unwrap();
        assert_eq!(own.text("ImageFileName"), program.file_name().unwrap().to_str().unwrap());
        for argument in std::env::args() {
            assert!(own.text("CommandLine").contains(&argument), "{}", own.text("CommandLine"));
        }

        let name = format!("Thread/{end}");
        let own: Vec<_> =
            events.of(&name).filter(|event| event.number("ProcessId") == u64::from(id)).collect();
        let ids: Vec<_> = own.iter().map(|event| event.number("TThreadId") as u32).collect();
        assert_eq!(ids.len(), before.len());
        assert_eq!(ids.into_iter().collect::<BTreeSet<_>>(), before);
        for number in 0..3 {
            let wanted = format!("rundown-{number}");
            let thread = own.iter().find(|event| event.text("ThreadName") == wanted).unwrap();
            assert_ne!(thread.number("Affinity"), 0);
            assert!((1..16).contains(&thread.number("BasePriority")));
        }
        let idle = events.of(&name).filter(|event| event.number("TThreadId") == 0).count();
        assert_eq!(idle as u32, machine::online_processors(Path::new("/sys")));

        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let code = maps.lines().filter(|line| line.contains(" r-xp "));
        let expected: BTreeSet<_> = code
            .filter_map(|line| Some(&line[line.find(['/', '['])?..]))
            .filter(|path| *path != "[vsyscall]")
            .collect();
        let name = format!("Image/{end}");
        let own: Vec<_> =
            events.of(&name).filter(|event| event.number("ProcessId") == u64::from(id)).collect();
        assert_eq!(own.iter().map(|event| event.text("FileName")).collect::<BTreeSet<_>>(), expected);
        assert_eq!(own.len(), expected.len());
        let address = run as *const () as u64;
        let of_address = |event: &&&Event| {
            let base = event.number("ImageBase");
            (base..base + event.number("ImageSize")).contains(&address)
        };
        let image = own.iter().find(of_address).unwrap();
        assert_eq!(Path::new(image.text("FileName")), program);
    }
    drop(ends);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn build_ids_are_those_of_the_files() {
    let mut rundown = Rundown::new();
    let parts = Parts { processes: false, threads: false, images: true };
    let (summary, events) = run(&mut rundown, Phase::Start, parts);
    let id = u64::from(std::process::id());
    let mut compared = 0;
    let is_file = |event: &&Event| event.text("PdbFileName").starts_with('/');
    let own = |event: &&Event| event.number("ProcessId") == id;
    for event in events.of("ImageID/DbgID_RSDS").filter(own).filter(is_file) {
        let file = std::fs::read(event.text("PdbFileName")).unwrap();
        // The note as it lies in the file: lengths of name and content, type, name.
        let note = [4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0, b'G', b'N', b'U', 0];
        let at = file.windows(16).position(|window| window == note).unwrap();
        let build_id = BuildIdText::from_bytes(&file[at + 16..at + 36]);
        assert_eq!((event.text("GuidSig"), event.number("Age")), (&*build_id.guid, build_id.age));
        compared += 1;
    }
    println!("{compared} build ids of this process compared; {summary:?}");
    assert!(compared > 0, "the C library has a build id");
}

struct BuildIdText {
    guid: String,
    age: u64,
}

impl BuildIdText {
    fn from_bytes(bytes: &[u8]) -> BuildIdText {
        let id = etw_kernel_events::classes::BuildId::new(bytes).unwrap();
        let age = u32::from_le_bytes(bytes[16..20].try_into().unwrap());
        BuildIdText { guid: id.guid().to_string(), age: age.into() }
    }
}

#[test]
fn the_processes_are_those_of_proc() {
    let before = proc_ids("/proc");
    let parts = Parts { processes: true, threads: false, images: false };
    let (summary, events) = run(&mut Rundown::new(), Phase::Start, parts);
    let after = proc_ids("/proc");
    let found: Vec<_> = events.of("Process/DCStart").map(|event| event.number("ProcessId") as u32).collect();
    let unique: BTreeSet<_> = found.iter().copied().collect();
    assert_eq!(found.len(), unique.len());
    assert_eq!(summary.processes, found.len() as u64 - 1);
    let stayed: BTreeSet<_> = before.intersection(&after).copied().collect();
    assert!(stayed.is_subset(&unique), "{:?} are missing", stayed.difference(&unique));
    let changed = before.symmetric_difference(&after).count();
    println!("{} processes, {changed} came or went", found.len() - 1);
}

#[test]
fn processes_that_end_meanwhile_do_no_harm() {
    let (stop, stopped) = mpsc::channel::<()>();
    let churn = std::thread::spawn(move || {
        let mut count = 0;
        while matches!(stopped.try_recv(), Err(mpsc::TryRecvError::Empty)) {
            let _ = std::process::Command::new("true").status();
            count += 1;
        }
        count
    });
    let mut rundown = Rundown::new();
    for _ in 0..10 {
        let (summary, _) = run(&mut rundown, Phase::Start, Parts::ALL);
        assert!(summary.processes > 0 && summary.threads >= summary.processes / 2);
    }
    drop(stop);
    println!("{} processes started and ended", churn.join().unwrap());
}

#[test]
fn a_process_that_changed_is_looked_at_anew() {
    let mut program = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let id = program.id();
    let mut rundown = Rundown::new();
    let mut inventory = rundown.take(Scope { parts: Parts::ALL, ..Scope::default() }, 1).unwrap();
    let count = |inventory: &mut Inventory| {
        let mut events = Events::default();
        inventory.tell(Ticks(7), |words| events.put(words));
        let has_id = |event: &&Event| event.fields.contains_key("ProcessId");
        events.all.iter().filter(has_id).filter(|event| event.number("ProcessId") == u64::from(id)).count()
    };
    let before = count(&mut inventory);
    rundown.take_process(&mut inventory, id);
    assert!(before > 2 && count(&mut inventory) == before);
    program.kill().unwrap();
    program.wait().unwrap();
    rundown.take_process(&mut inventory, id);
    assert_eq!(count(&mut inventory), 0);
}

#[test]
fn the_kernel_says_where_it_is_or_that_it_is_hidden() {
    let parts = Parts { processes: false, threads: false, images: true };
    let (summary, events) = run(&mut Rundown::new(), Phase::End, parts);
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let text =
        symbols.lines().find(|line| line.ends_with(" T _text")).and_then(|line| line.split(' ').next());
    let base = text.map_or(0, |digits| u64::from_str_radix(digits, 16).unwrap());
    let name = format!("vmlinux-{}", std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap().trim());
    let kernel = events.of("Image/DCEnd").find(|event| event.text("FileName") == name);
    assert_eq!(summary.kernel_address_is_hidden, base == 0);
    assert_eq!(kernel.map_or(0, |image| image.number("ImageBase")), base);
    let said = events.of("Image/ImageKernelBase").next();
    assert_eq!(said.map_or(0, |event| event.number("ImageBase")), base);
}

#[test]
fn hidden_addresses_are_said() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let mut rundown = Rundown::at(directory.path(), directory.path());
    write("kallsyms", "0000000000000000 T _stext\n0000000000000000 T _text\n0000000000000000 T _etext\n");
    write("modules", "ext4 800 2 - Live 0x0000000000000000\nnfs 900 0 a,b, Live 0x0000000000000000\nx\n");
    // A process of which only a part can be read is one that ends.
    write("12/stat", "12 (x) R 1");
    write("13/stat", "13");
    let (summary, events) = run(&mut rundown, Phase::Start, Parts::ALL);
    assert!(summary.kernel_address_is_hidden);
    assert_eq!((summary.modules_hidden, summary.kernel_images, summary.processes), (2, 0, 0));
    assert_eq!(events.of("Image/DCStart").count(), 0);

    write("kallsyms", "ffffffff81000000 T _text\nffffffff82000000 T _etext\n");
    write("modules", "ext4 800 2 - Live 0xffffffffc0100000 (O)\n");
    write("sys/kernel/osrelease", "6.1.0\n");
    let (summary, events) = run(&mut rundown, Phase::Start, Parts::ALL);
    assert_eq!((summary.modules_hidden, summary.kernel_images), (0, 2));
    assert!(!summary.kernel_address_is_hidden);
    let images: Vec<_> = events
        .of("Image/DCStart")
        .map(|image| (image.text("FileName"), image.number("ImageBase"), image.number("ImageSize")))
        .collect();
    let expected =
        [("vmlinux-6.1.0", 0xFFFF_FFFF_8100_0000, 0x100_0000), ("ext4.ko", 0xFFFF_FFFF_C010_0000, 800)];
    assert_eq!(images, expected);
}

#[test]
fn the_machine_is_described() {
    let mut events = Events::default();
    let scope = Scope { has_machine: true, ..Scope::default() };
    Rundown::new().take(scope, 1).unwrap().tell(Ticks(7), |words| events.put(words));
    let read = |path: &str| std::fs::read_to_string(path).unwrap().trim().to_owned();
    let build = events.of("EventTrace/BuildInfo").next().unwrap();
    assert_eq!(build.text("BuildString"), read("/proc/version"));
    let cpu = events.of("SystemConfig/CPU").next().unwrap();
    assert_eq!(cpu.text("ComputerName"), read("/proc/sys/kernel/hostname"));
    let info = read("/proc/cpuinfo");
    let processors = info.lines().filter(|line| line.starts_with("processor")).count();
    assert_eq!(cpu.number("NumberOfProcessors"), processors as u64);
    assert_eq!(events.of("SystemConfig/Processors").count(), processors);
    let memory = read("/proc/meminfo");
    let kib: u64 = memory.split_ascii_whitespace().nth(1).unwrap().parse().unwrap();
    assert_eq!(cpu.number("MemSize"), kib / 1024);
    assert!(cpu.number("PageSize").is_power_of_two());
    let loopback = events.of("SystemConfig/NIC").find(|nic| nic.text("NICDescription") == "lo").unwrap();
    assert!(loopback.text("IpAddresses").split(';').any(|address| address == "127.0.0.1"));
    let mut kinds = BTreeMap::<_, usize>::new();
    for event in &events.all {
        *kinds.entry(&event.name).or_default() += 1;
    }
    println!("{kinds:?}");
}
