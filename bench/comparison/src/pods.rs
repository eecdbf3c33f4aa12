//! Pods that are the same in each run: ReplicaSets (*owners*) create them from pod templates (*shapes*).
//!
//! A pod is written when it is needed, so that a million of them take no memory. All of them are variations of the pod of the benchmarks,
//! in the order of their keys.

use std::{io::Write, ops::Range};

use fastrand::Rng;

const POD: &str = include_str!("../../../crates/informant/benches/pod.json");
const KIND: &str = r#""kind":"Pod","apiVersion":"v1","#;
/// Begins and ends the name of a field in a template; the pod has none.
const MARK: char = '~';
/// The letters of generated names, sorted.
const LETTERS: &[u8; 27] = b"2456789bcdfghjklmnpqrstvwxz";
const NAMES: u64 = 27_u64.pow(5);
const PODS_OF_A_NODE: usize = 30;
const WORDS: [&str; 16] = [
    "api", "audit", "billing", "cache", "cart", "feed", "index", "login", "mail", "orders", "queue", "search", "stock",
    "tax", "users", "web",
];

/// A number of pods, and the templates to write them.
pub struct Pods {
    count: usize,
    owners: Vec<Owner>,
}

/// A ReplicaSet.
struct Owner {
    /// The key of its pods without the last five letters: `namespace/name-hash-`.
    prefix: String,
    template: Vec<Segment>,
}

/// A piece of a template, and the field that comes after it.
struct Segment {
    text: String,
    field: Option<Field>,
}

/// What differs between the pods of an owner.
#[derive(Clone, Copy)]
enum Field {
    /// The last five letters of the name.
    Letters,
    Uid,
    Version,
    Node,
    HostIp,
    PodIp,
    ContainerId,
    Restarts,
    /// This many seconds after the creation.
    Time(u32),
}

impl Field {
    fn parse(name: &str) -> Self {
        match name {
            "letters" => Self::Letters,
            "uid" => Self::Uid,
            "version" => Self::Version,
            "node" => Self::Node,
            "hostIP" => Self::HostIp,
            "podIP" => Self::PodIp,
            "containerID" => Self::ContainerId,
            "restarts" => Self::Restarts,
            seconds => Self::Time(seconds.parse().unwrap()),
        }
    }
}

impl Pods {
    /// As many pods as this, of at least 400 owners.
    pub fn new(count: usize, shapes: usize) -> Self {
        let shape_texts: Vec<_> = (0..shapes).map(shape).collect();
        let mut owners: Vec<_> =
            (0..shapes.max(400)).map(|number| Owner::new(number, &shape_texts[number % shapes])).collect();
        owners.sort_by(|a, b| a.prefix.cmp(&b.prefix));
        Self { count, owners }
    }

    pub fn len(&self) -> usize {
        self.count
    }

    fn owner_of(&self, number: usize) -> usize {
        number * self.owners.len() / self.count
    }

    /// The numbers of the pods of an owner.
    fn owned(&self, owner: usize) -> Range<usize> {
        let first = |owner: usize| (owner * self.count).div_ceil(self.owners.len());
        first(owner)..first(owner + 1)
    }

    fn letters(&self, number: usize) -> [u8; 5] {
        let owned = self.owned(self.owner_of(number));
        let step = NAMES / owned.len() as u64;
        let mut place = (number - owned.start) as u64 * step + Rng::with_seed(number as u64).u64(..step);
        let mut letters = [0; 5];
        for letter in letters.iter_mut().rev() {
            *letter = LETTERS[(place % 27) as usize];
            place /= 27;
        }
        letters
    }

    /// The key of a pod: `namespace/name`.
    pub fn key(&self, number: usize) -> String {
        let prefix = &self.owners[self.owner_of(number)].prefix;
        format!("{prefix}{}", String::from_utf8_lossy(&self.letters(number)))
    }

    /// Writes a pod as JSON, with its kind. `restarts` says how often its containers were restarted.
    pub fn write(&self, number: usize, version: usize, restarts: u32, out: &mut Vec<u8>) {
        let letters = self.letters(number);
        let mut rng = Rng::with_seed(number as u64);
        let (uid, node, created) =
            (rng.u128(..), rng.u32(..self.count.div_ceil(PODS_OF_A_NODE) as u32), rng.u32(..29 * 24 * 60 * 60));
        let restarted = restarts * rng.u32(60..3600);
        let mut of_restart = Rng::with_seed((number as u64) << 8 | u64::from(restarts));
        for Segment { text, field } in &self.owners[self.owner_of(number)].template {
            out.extend_from_slice(text.as_bytes());
            let Some(field) = field else { continue };
            match field {
                Field::Letters => out.write_all(&letters),
                Field::Uid => write_uid(out, uid),
                Field::Version => write!(out, "{version}"),
                Field::Node => write!(out, "{node}"),
                Field::HostIp => write!(out, "10.0.{}.{}", node / 250, node % 250),
                Field::PodIp => write!(out, "10.{}.{}.{}", 1 + number / 62_500, number / 250 % 250, number % 250),
                Field::ContainerId => write!(out, "{:032x}{:032x}", of_restart.u128(..), of_restart.u128(..)),
                Field::Restarts => write!(out, "{restarts}"),
                // The last two things that happen to a new pod, its container starts and it is ready, happen again when it restarts.
                Field::Time(seconds) => write_time(out, created + seconds + if *seconds >= 8 { restarted } else { 0 }),
            }
            .unwrap();
        }
    }

    /// Writes a pod as an item of a list: without its kind.
    pub fn write_item(&self, number: usize, version: usize, out: &mut Vec<u8>) {
        let start = out.len();
        self.write(number, version, 0, out);
        out.drain(start + 1..start + 1 + KIND.len());
    }
}

impl Owner {
    fn new(number: usize, shape: &str) -> Self {
        let mut rng = Rng::with_seed(1_000_000 + number as u64);
        let app = format!("{}-{number}", WORDS[rng.usize(..WORDS.len())]);
        let namespace = format!("team-{}", number % 50);
        let hash = format!("{:010x}", rng.u64(..1 << 40));
        let mut uid = Vec::new();
        write_uid(&mut uid, rng.u128(..)).unwrap();
        let checksum = format!("{:032x}{:032x}", rng.u128(..), rng.u128(..));
        let text = shape
            .replace("7c9f8d6b5d", &hash)
            .replace("web-0", &app)
            .replace("team-0", &namespace)
            .replace("5d5f2f0e-0000-4c55-8f0e-000000000000", "5d5f2f0e")
            .replace("5d5f2f0e", &String::from_utf8_lossy(&uid))
            .replace("6f1ed002ab5595859014ebf0951522d9e1d7bb3f0c0f5f4b0f5d4ad3f0b6a7c8", &checksum)
            .replace("v1.42.0", &format!("v{}.{}.{}", rng.u8(1..5), rng.u8(..50), rng.u8(..20)));
        let mut template = Vec::new();
        let mut pieces = text.split(MARK);
        while let Some(text) = pieces.next() {
            template.push(Segment { text: text.to_owned(), field: pieces.next().map(Field::parse) });
        }
        Self { prefix: format!("{namespace}/{app}-{hash}-"), template }
    }
}

/// The text of a pod template, with the names of fields in place of what differs between pods. Shape 0 is the pod of the benchmarks.
fn shape(number: usize) -> String {
    let mut text = POD.trim_end().to_owned();
    let insert = |text: &mut String, after: &str, what: &str| {
        let place = text.find(after).unwrap() + after.len();
        text.insert_str(place, what);
    };
    if number > 0 {
        let mut rng = Rng::with_seed(number as u64);
        let mut word = || WORDS[rng.usize(..WORDS.len())];
        for _ in 0..number % 7 {
            let (service, setting) = (word(), word());
            let name = format!("{}_{}_{number}", service.to_uppercase(), setting.to_uppercase());
            let value = format!("http://{service}.team-0.svc.cluster.local/{setting}?for=web-0");
            insert(&mut text, r#""env":["#, &format!(r#"{{"name":"{name}","value":"{value}"}},"#));
            let managed = format!(r#""k:{{\"name\":\"{name}\"}}":{{".":{{}},"f:name":{{}},"f:value":{{}}}},"#);
            insert(&mut text, r#""f:env":{".":{},"#, &managed);
        }
        for volume in 0..number % 3 {
            let name = format!("{}-{volume}", word());
            let source = [r#""emptyDir":{}"#, r#""secret":{"secretName":"web-0","defaultMode":420}"#][volume];
            insert(&mut text, r#""volumes":["#, &format!(r#"{{"name":"{name}",{source}}},"#));
            insert(&mut text, r#""volumeMounts":["#, &format!(r#"{{"name":"{name}","mountPath":"/var/{name}"}},"#));
        }
        for label in 0..number % 4 {
            insert(&mut text, r#""labels":{"#, &format!(r#""example.com/{}-{label}":"{}","#, word(), word()));
        }
        if number.is_multiple_of(2) {
            let (name, argument) = (format!("{}-proxy", word()), word());
            let container = format!(
                r#"{{"name":"{name}","image":"registry.example.com/mesh/{name}:v1.{number}.0","args":["--upstream=127.0.0.1:8080","--{argument}"],"resources":{{}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}},"#
            );
            insert(&mut text, r#""containers":["#, &container);
            let status = format!(
                r#"{{"name":"{name}","state":{{"running":{{"startedAt":"2026-11-01T10:00:08Z"}}}},"lastState":{{}},"ready":true,"restartCount":1,"image":"registry.example.com/mesh/{name}:v1.{number}.0","containerID":"containerd://{:064}","started":true}},"#,
                0
            );
            insert(&mut text, r#""containerStatuses":["#, &status);
        }
    }
    let mark = |text: &str, old: &str, field: &str| text.replace(old, &format!("{MARK}{field}{MARK}"));
    text = mark(&text, "0b7d2f1e-9a54-4c55-8f0e-000000000000", "uid");
    text = mark(&text, &"0".repeat(64), "containerID");
    for second in 0..10 {
        text = mark(&text, &format!("2026-11-01T10:00:0{second}Z"), &second.to_string());
    }
    let replaced = [
        ("-x0\"", "-~letters~\""),
        ("\"resourceVersion\":\"1\"", "\"resourceVersion\":\"~version~\""),
        ("\"restartCount\":1", "\"restartCount\":~restarts~"),
        ("\"node-0\"", "\"node-~node~\""),
        ("10.0.0.0", "~hostIP~"),
        ("10.1.0.7", "~podIP~"),
    ];
    replaced.iter().fold(text, |text, (old, new)| text.replace(old, new))
}

fn write_uid(out: &mut Vec<u8>, bits: u128) -> std::io::Result<()> {
    let (high, low) = ((bits >> 64) as u64, bits as u64);
    let (a, b, c) = (high >> 32, high >> 16 & 0xffff, high & 0xfff);
    write!(out, "{a:08x}-{b:04x}-4{c:03x}-{:04x}-{:012x}", low >> 48 & 0x3fff | 0x8000, low & 0xffff_ffff_ffff)
}

/// A time this many seconds after the start of November.
fn write_time(out: &mut Vec<u8>, seconds: u32) -> std::io::Result<()> {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    write!(out, "2026-11-{:02}T{:02}:{:02}:{:02}Z", 1 + hours / 24, hours % 24, minutes % 60, seconds % 60)
}
