//! Seeds of the host's untrusted input.

use etw_event::{Guid, Keyword, Level};
use etw_protocol::{
    Enable, EnableProperties, Failure, Filter, FromConsumer, FromProvider, Hello, LayoutField, Message,
    PayloadFilter, PayloadLayout, PayloadOperator, PayloadPredicate, Request, Response, Role,
    SessionProperties, SessionUpdate, ToConsumer, ToProvider, encode,
};

use super::Seed;

/// Seeds of `protocol`: messages of every kind.
pub fn protocol() -> Vec<Seed> {
    let session = || "Session".to_owned();
    let guid = Guid::from_bytes([0xA5; 16]);
    let predicate = PayloadPredicate {
        field: "Size".to_owned(),
        operator: PayloadOperator::Between,
        value: "1,10".to_owned(),
    };
    let fields = vec![LayoutField { name: "Size".to_owned(), in_type: 8 }];
    let layout = PayloadLayout { id: 1, version: 2, fields };
    let payload =
        PayloadFilter { event: Some(1), any: true, predicates: vec![predicate], layouts: vec![layout] };
    let filters = vec![
        Filter::EventIds { include: true, ids: vec![1, 2, 300] },
        Filter::Pids(vec![1, 70_000]),
        Filter::ExecutableNames(vec!["shop".to_owned()]),
        Filter::Payload(payload.clone()),
        Filter::Data { kind: 0x8000_0000, data: vec![1, 2, 3] },
        Filter::AnyPayload(vec![PayloadFilter { any: false, ..payload.clone() }, payload]),
    ];
    let enable = Enable {
        level: Level::VERBOSE,
        any: Keyword(0x10),
        all: Keyword(0x10),
        properties: EnableProperties::STACK_TRACE,
        filters,
        source: guid,
    };
    let properties = SessionProperties { logger_name: session(), ..SessionProperties::default() };
    let register = FromProvider::Register { id: 1, guid, name: session(), traits: vec![2, 0] };
    let update = SessionUpdate { maximum_buffers: Some(600), ..SessionUpdate::default() };
    let to_enable = ToProvider::Enable { id: 1, slot: 2, epoch: 1, enable: enable.clone() };
    let failure = Failure::new(etw_protocol::ErrorKind::NotFound, "not found");
    vec![
        ("hello", packet(0, &Hello::new(Role::Provider))),
        ("register", packet(1, &register)),
        ("unregister", packet(1, &FromProvider::Unregister { id: 1 })),
        ("region", packet(2, &ToProvider::Region { slot: 1, epoch: 1 })),
        ("enable_provider", packet(2, &to_enable)),
        ("start", packet(3, &Request::Start { properties, lease: true })),
        ("enable", packet(3, &Request::Enable { session: session(), provider: guid, enable })),
        ("update", packet(3, &Request::Update { session: session(), update })),
        ("dump", packet(3, &Request::Dump { session: session(), path: "/tmp/x".to_owned() })),
        ("failed", packet(4, &Response::Failed(failure))),
        ("sessions", packet(4, &Response::Sessions { sessions: Vec::new(), more: false })),
        ("open", packet(5, &FromConsumer::Open { session: session() })),
        ("opened", packet(6, &ToConsumer::Opened { header: vec![7; 64], ring_bytes: 1 << 20 })),
    ]
}

fn packet<M: Message>(kind: u8, message: &M) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(encode(message).unwrap_or_default());
    bytes
}

/// Seeds of `region`: steps of honest writers, of writers that reserve and die, and of hostile ones.
pub fn region() -> Vec<Seed> {
    let step =
        |what: u8, at: u16, value: u64| [&[what][..], &at.to_le_bytes(), &value.to_le_bytes()].concat();
    let honest: Vec<Vec<u8>> =
        (0..40).map(|at| step(5 + (at % 4) as u8, at, u64::MAX / (1 + u64::from(at)))).collect();
    let read = [step(15, 0, 0), step(15, 1, 0)].concat();
    let mut hostile = honest.concat();
    for at in 0..60u64 {
        hostile.extend(step(0, (at * 37) as u16, 0xC013_0000 + at * 97));
        hostile.extend(step(4, at as u16, at << 40 | at));
        hostile.extend(&read);
    }
    let dying =
        [honest.concat(), step(9, 0, 96), step(9, 1, 80), step(14, 0, 0), step(10, 0, 0), read.clone()];
    vec![
        ("honest", [honest.concat(), read.clone(), step(12, 7, 0), honest.concat(), read].concat()),
        ("dying", dying.concat()),
        ("hostile", hostile),
    ]
}

/// Seeds of `logger`: words over the control words, and over a record.
pub fn logger() -> Vec<Seed> {
    let words = |at: u64, words: &[u64]| {
        let all = [&[at][..], words].concat();
        all.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>()
    };
    vec![
        ("control_words", words(16, &[u64::MAX; 200])),
        ("records", words(1024, &[0xC013_FFFF, 1, 2, 0xC013_0050, u64::MAX, 0, 0xC014_0060])),
    ]
}

/// Seeds of `configuration`: an access list, and an autologger.
pub fn configuration() -> Vec<Seed> {
    let list = "file-group = \"adm\"\n\n[[allow]]\nuids = [1000, 1001]\ngids = [4]\nmay = [\"start\", \"enable\"]\n\
                sessions = [\"shop-*\"]\nproviders = [\"Shop\", \"{9e814aad-3204-11d2-9a82-006008a86939}\"]\n";
    let autologger = "name = \"Boot\"\nfile = \"/var/log/boot.etl\"\nmode = [\"circular\"]\n\
                      maximum-file-size-mib = 64\nflush-timer-millis = 500\nclock = \"system\"\n\n[[provider]]\n\
                      spec = \"Shop:Warning:1,2:0x10\"\nstacks = true\npids = [1]\nexecutables = [\"shop\"]\n";
    vec![("access.toml", list.into()), ("autologger.toml", autologger.into())]
}
