//! A server that replays: it lists the same pods to each client, and sends each the same events when it is told to.
//!
//! Pods are written while they are sent, in large blocks, so that a million of them take no memory. Lists come whole, in pages, or as the
//! initial events of a watch.

use std::{
    io::{BufRead, BufReader, Result, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
};

use crate::pods::Pods;

const BLOCK: usize = 256 << 10;
/// The version of the first pod.
const FIRST: usize = 1000;

/// The server; its threads run until the process ends.
pub struct Server {
    pub address: SocketAddr,
    pub replay: Arc<Replay>,
}

/// What the server sends.
pub struct Replay {
    pub pods: Pods,
    /// The number of events.
    pub events: usize,
    /// The initial events and the events as protobuf.
    protobuf: Option<[Vec<u8>; 2]>,
    order: Mutex<Order>,
    ordered: Condvar,
}

/// What watches wait for.
#[derive(Default)]
struct Order {
    /// Counts the clients; the watches of an earlier one end.
    client: usize,
    sends_events: bool,
}

impl Server {
    /// Serves to one client after the other. `protobuf` converts a stream of events.
    pub fn start(pods: Pods, events: usize, protobuf: Option<impl Fn(&[u8]) -> Vec<u8>>) -> Self {
        let mut replay = Replay { pods, events, protobuf: None, order: Mutex::default(), ordered: Condvar::new() };
        replay.protobuf = protobuf.map(|convert| {
            [Replay::write_initial, Replay::write_events].map(|write| {
                let mut text = Vec::new();
                write(&replay, &mut text, &mut |_| Ok(())).unwrap();
                convert(&text)
            })
        });
        let replay = Arc::new(replay);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self { address: listener.local_addr().unwrap(), replay: Arc::clone(&replay) };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let replay = Arc::clone(&replay);
                // A client that disconnects is not an error.
                std::thread::spawn(move || replay.serve(&stream.unwrap()).unwrap_or_default());
            }
        });
        server
    }

    /// Ends the watches of the client before, and keeps events back until [`send_events`](Self::send_events).
    pub fn begin(&self) {
        let mut order = self.replay.order.lock().unwrap();
        *order = Order { client: order.client + 1, sends_events: false };
        self.replay.ordered.notify_all();
    }

    pub fn send_events(&self) {
        self.replay.order.lock().unwrap().sends_events = true;
        self.replay.ordered.notify_all();
    }
}

/// Takes what was written so far, if it is enough for a block, and empties it.
type Flush<'a> = dyn FnMut(&mut Vec<u8>) -> Result<()> + 'a;

impl Replay {
    fn listed_version(&self) -> usize {
        FIRST + self.pods.len()
    }

    /// The version of the last event.
    pub fn last_version(&self) -> usize {
        self.listed_version() + self.events
    }

    /// The pod of an event: one far away from that of the event before.
    fn changed(&self, event: usize) -> usize {
        event * 7919 % self.pods.len()
    }

    /// The key of the pod that changes last.
    pub fn last_key(&self) -> String {
        self.pods.key(self.changed(self.events - 1))
    }

    fn serve(&self, stream: &TcpStream) -> Result<()> {
        stream.set_nodelay(true)?;
        let mut lines = BufReader::new(stream).lines();
        while let Some(line) = lines.next() {
            let line = line?;
            let headers: Vec<_> = lines.by_ref().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            let parameter = |name: &str| {
                let query = line.split([' ', '?', '&']).find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
                query.unwrap_or_default()
            };
            let accepts_protobuf = |header: &String| header.starts_with("Accept: application/vnd.kubernetes.protobuf");
            let protobuf = self.protobuf.as_ref().filter(|_| headers.iter().any(accepts_protobuf));
            let content = if protobuf.is_some() { "vnd.kubernetes.protobuf;stream=watch" } else { "json" };
            let mut out = stream;
            write!(
                out,
                "HTTP/1.1 200 OK\r\ncontent-type: application/{content}\r\ntransfer-encoding: chunked\r\n\r\n"
            )?;
            if !parameter("watch").is_empty() {
                return self.watch(out, parameter("sendInitialEvents") == "true", protobuf);
            }
            // Like Kubernetes, ignore `limit` for resourceVersion "0".
            let limit = if parameter("resourceVersion") == "0" { "" } else { parameter("limit") };
            self.list(out, limit.parse().unwrap_or(usize::MAX), parameter("continue").parse().unwrap_or(0))?;
        }
        Ok(())
    }

    fn list(&self, out: &TcpStream, limit: usize, start: usize) -> Result<()> {
        let end = start.saturating_add(limit).min(self.pods.len());
        let next = if end < self.pods.len() { end.to_string() } else { String::new() };
        let version = self.listed_version();
        let mut block = Vec::with_capacity(2 * BLOCK);
        write!(
            block,
            r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","continue":"{next}"}},"items":["#
        )?;
        for number in start..end {
            if number > start {
                block.push(b',');
            }
            self.pods.write_item(number, FIRST + number, &mut block);
            flush(out, &mut block)?;
        }
        block.extend_from_slice(b"]}\n");
        chunk(out, &block)?;
        chunk(out, b"")
    }

    fn watch(&self, out: &TcpStream, streams: bool, protobuf: Option<&[Vec<u8>; 2]>) -> Result<()> {
        let client = self.order.lock().unwrap().client;
        let mut block = Vec::with_capacity(2 * BLOCK);
        let mut send = |part: usize| {
            match (protobuf, part) {
                (Some(parts), _) => return parts[part].chunks(BLOCK).try_for_each(|piece| chunk(out, piece)),
                (None, 0) => self.write_initial(&mut block, &mut |block| flush(out, block))?,
                (None, _) => self.write_events(&mut block, &mut |block| flush(out, block))?,
            }
            chunk(out, &std::mem::take(&mut block))
        };
        if streams {
            send(0)?;
        }
        let waits = |order: &mut Order| order.client == client && !order.sends_events;
        let order = self.ordered.wait_while(self.order.lock().unwrap(), waits).unwrap();
        if order.client == client {
            drop(order);
            send(1)?;
            // Stay open until the next client.
            let lasts = |order: &mut Order| order.client == client;
            drop(self.ordered.wait_while(self.order.lock().unwrap(), lasts).unwrap());
        }
        Ok(())
    }

    fn write_initial(&self, out: &mut Vec<u8>, flush: &mut Flush<'_>) -> Result<()> {
        for number in 0..self.pods.len() {
            self.write_event("ADDED", number, FIRST + number, 0, out);
            flush(out)?;
        }
        write_bookmark(self.listed_version(), r#""annotations":{"k8s.io/initial-events-end":"true"},"#, out)
    }

    fn write_events(&self, out: &mut Vec<u8>, flush: &mut Flush<'_>) -> Result<()> {
        for event in 0..self.events {
            self.write_event("MODIFIED", self.changed(event), self.listed_version() + event + 1, 1, out);
            flush(out)?;
        }
        write_bookmark(self.last_version(), "", out)
    }

    fn write_event(&self, event: &str, number: usize, version: usize, restarts: u32, out: &mut Vec<u8>) {
        write!(out, r#"{{"type":"{event}","object":"#).unwrap();
        self.pods.write(number, version, restarts, out);
        out.extend_from_slice(b"}\n");
    }
}

/// Writes the line that ends the initial events, and the events.
fn write_bookmark(version: usize, annotations: &str, out: &mut Vec<u8>) -> Result<()> {
    writeln!(
        out,
        r#"{{"type":"BOOKMARK","object":{{"kind":"Pod","apiVersion":"v1","metadata":{{{annotations}"resourceVersion":"{version}","creationTimestamp":null}},"spec":{{"containers":null}},"status":{{}}}}}}"#
    )
}

fn flush(out: &TcpStream, block: &mut Vec<u8>) -> Result<()> {
    if block.len() > BLOCK {
        chunk(out, block)?;
        block.clear();
    }
    Ok(())
}

fn chunk(mut out: &TcpStream, block: &[u8]) -> Result<()> {
    write!(out, "{:x}\r\n", block.len())?;
    out.write_all(block)?;
    out.write_all(b"\r\n")
}
