//! An HTTP server with a prepared list and prepared watch events, written in large blocks, so that the server takes little CPU.

use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
};

use serde_json::Value;

const POD: &str = include_str!("../pod.json");
const BLOCK: usize = 256 << 10;

/// What the watches do next.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Send nothing.
    Wait,
    /// Send all events and stay open.
    SendEvents,
    /// Send 410, so that the client relists; the next watch waits.
    Expire,
}

/// The server; its threads run until the process ends.
pub struct StaticServer {
    pub address: SocketAddr,
    pub pods: usize,
    shared: Arc<Shared>,
}

struct Shared {
    items: Vec<String>,
    events: Vec<u8>,
    /// What to do next, and the number of the newest watch; only that watch does it.
    order: Mutex<(Order, usize)>,
    ordered: Condvar,
}

/// The pod of `pod.json` with its own name, namespace, uid, version, labels and node.
fn pod(number: usize, version: usize) -> Value {
    let mut pod: Value = serde_json::from_str(POD).unwrap();
    let metadata = &mut pod["metadata"];
    metadata["name"] = format!("web-{}-7c9f8d6b5d-x{number:05}", number % 1000).into();
    metadata["namespace"] = format!("team-{}", number % 50).into();
    metadata["uid"] = format!("0b7d2f1e-9a54-4c55-8f0e-{number:012}").into();
    metadata["resourceVersion"] = version.to_string().into();
    metadata["labels"]["app"] = format!("app-{}", number % 200).into();
    pod["spec"]["nodeName"] = format!("node-{}", number % 1000).into();
    pod
}

impl StaticServer {
    /// Serves this many pods, and one event for each pod.
    pub fn start(pods: usize) -> Self {
        let items = (0..pods)
            .map(|number| {
                // List items have no `kind` and `apiVersion`.
                let mut pod = pod(number, 1000 + number);
                let pod = pod.as_object_mut().unwrap();
                pod.remove("kind");
                pod.remove("apiVersion");
                serde_json::to_string(pod).unwrap()
            })
            .collect();
        let events = (0..pods).flat_map(|number| {
            let object = pod(number * 7919 % pods, 1000 + pods + number);
            format!("{{\"type\":\"MODIFIED\",\"object\":{object}}}\n").into_bytes()
        });
        let shared =
            Shared { items, events: events.collect(), order: Mutex::new((Order::Wait, 0)), ordered: Condvar::new() };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self { address: listener.local_addr().unwrap(), pods, shared: Arc::new(shared) };
        let shared = Arc::clone(&server.shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = Arc::clone(&shared);
                // A client that disconnects is not an error.
                std::thread::spawn(move || shared.serve(&stream.unwrap()).unwrap_or_default());
            }
        });
        server
    }

    /// Ends the watches of the previous run.
    pub fn begin(&self) {
        let mut order = self.shared.order.lock().unwrap();
        *order = (Order::Wait, order.1 + 1);
        self.shared.ordered.notify_all();
    }

    pub fn order(&self, order: Order) {
        self.shared.order.lock().unwrap().0 = order;
        self.shared.ordered.notify_all();
    }

    pub fn client(&self) -> kube::Client {
        let config = kube::Config::new(format!("http://{}", self.address).parse().unwrap());
        kube::Client::try_from(config).unwrap()
    }
}

impl Shared {
    fn serve(&self, stream: &TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut lines = BufReader::new(stream).lines();
        while let Some(line) = lines.next() {
            let line = line?;
            // Skip the headers.
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let parameter = |name: &str| {
                let query = line.split([' ', '?', '&']).find_map(|part| part.strip_prefix(name));
                query.map_or("", |value| value.trim_start_matches('='))
            };
            let mut out = stream;
            out.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")?;
            match parameter("watch") {
                "" => self.list(out, parameter("limit"), parameter("continue"), parameter("resourceVersion"))?,
                _ => return self.watch(out),
            }
        }
        Ok(())
    }

    fn list(&self, out: &TcpStream, limit: &str, token: &str, version: &str) -> std::io::Result<()> {
        // Like Kubernetes, ignore `limit` for resourceVersion "0".
        let limit = if version == "0" { usize::MAX } else { limit.parse().unwrap_or(usize::MAX) };
        let start: usize = token.parse().unwrap_or(0);
        let end = start.saturating_add(limit).min(self.items.len());
        let next = if end < self.items.len() { end.to_string() } else { String::new() };
        let version = 1000 + self.items.len();
        let head = format!(
            r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","continue":"{next}"}},"items":["#
        );
        let mut block = head.into_bytes();
        for (number, item) in self.items[start..end].iter().enumerate() {
            if number > 0 {
                block.push(b',');
            }
            block.extend_from_slice(item.as_bytes());
            if block.len() > BLOCK {
                chunk(out, &block)?;
                block.clear();
            }
        }
        block.extend_from_slice(b"]}\n");
        chunk(out, &block)?;
        chunk(out, b"")
    }

    fn watch(&self, out: &TcpStream) -> std::io::Result<()> {
        let mine = {
            let mut order = self.order.lock().unwrap();
            order.1 += 1;
            order.1
        };
        self.ordered.notify_all();
        loop {
            let order = self.order.lock().unwrap();
            let mut order =
                self.ordered.wait_while(order, |(order, newest)| *order == Order::Wait && *newest == mine).unwrap();
            if order.1 != mine {
                return Ok(());
            }
            let now = std::mem::replace(&mut order.0, Order::Wait);
            drop(order);
            match now {
                Order::Wait => {}
                Order::SendEvents => self.events.chunks(BLOCK).try_for_each(|block| chunk(out, block))?,
                Order::Expire => {
                    chunk(
                        out,
                        b"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\"}}\n",
                    )?;
                    return chunk(out, b"");
                }
            }
        }
    }
}

fn chunk(mut out: &TcpStream, block: &[u8]) -> std::io::Result<()> {
    write!(out, "{:x}\r\n", block.len())?;
    out.write_all(block)?;
    out.write_all(b"\r\n")
}
