//! The server on a socket, with clients that write raw TCP.

use std::{io::ErrorKind, net::SocketAddr, time::Duration};

use informant_apiserver::{ApiServer, CutAfter, CutEnding, Fault, ListenError, On};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::Web;

const PATH: &str = "/api/v1/namespaces/shop/configmaps";

/// All bytes that the server sends until the connection closes.
async fn raw(address: SocketAddr, request: &str) -> String {
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A broken connection is an error, but the bytes before it count.
    let _ = connection.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
}

#[tokio::test]
async fn it_speaks_http_to_anyone() {
    let server = ApiServer::new();
    server.put("configmaps", json!({"metadata": {"namespace": "shop", "name": "a"}})).unwrap();
    let listening = server.listen(([127, 0, 0, 1], 0)).await.unwrap();

    let answer = raw(listening.address(), &get(PATH)).await;

    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("content-type: application/json\r\n"));
    assert!(answer.contains(r#""kind":"ConfigMapList""#));
    assert_eq!(listening.url(), format!("http://{}", listening.address()));
    listening.stop().await;
}

#[tokio::test]
async fn it_refuses_to_listen_beyond_loopback() {
    let server = ApiServer::new();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let refused = server.listen(address.parse::<SocketAddr>().unwrap()).await.unwrap_err();

        assert!(matches!(refused, ListenError::NotLoopback(_)), "{refused}");
        assert!(refused.to_string().contains("not a loopback address"));
    }
}

#[tokio::test]
async fn an_address_that_is_taken_is_an_error() {
    let server = ApiServer::new();
    let first = server.listen(([127, 0, 0, 1], 0)).await.unwrap();

    let second = server.listen(first.address()).await.unwrap_err();

    assert!(matches!(second, ListenError::Bind { address, ref source }
        if address == first.address() && source.kind() == ErrorKind::AddrInUse));
    first.stop().await;
}

#[tokio::test]
async fn a_stopped_server_leaves_nothing_and_can_listen_again() {
    let server = ApiServer::new();
    let listening = server.listen(([127, 0, 0, 1], 0)).await.unwrap();
    let address = listening.address();
    let mut watch = Web::at(&listening.url()).watch(PATH, "").await;
    assert_eq!(server.open_watches("configmaps"), 1);

    listening.stop().await;

    assert!(watch.try_next().await.is_err(), "the connection is closed");
    assert_eq!(server.open_watches("configmaps"), 0);
    assert_eq!(TcpStream::connect(address).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);

    let again = server.listen(address).await.unwrap();
    assert_eq!(Web::at(&again.url()).get(PATH).await.code, 200);
    again.stop().await;
}

#[tokio::test]
async fn a_dropped_listener_stops() {
    let server = ApiServer::new();
    let listening = server.listen(([127, 0, 0, 1], 0)).await.unwrap();
    let mut watch = Web::at(&listening.url()).watch(PATH, "").await;

    drop(listening);

    assert!(watch.try_next().await.is_err());
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_watch() {
    let server = ApiServer::new();
    let listening = server.listen(([127, 0, 0, 1], 0)).await.unwrap();
    let mut connection = TcpStream::connect(listening.address()).await.unwrap();
    connection.write_all(get(&format!("{PATH}?watch=true")).as_bytes()).await.unwrap();
    let mut first = [0; 8];
    connection.read_exact(&mut first).await.unwrap();
    assert_eq!(server.open_watches("configmaps"), 1);

    drop(connection);

    while server.open_watches("configmaps") > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    listening.stop().await;
}

#[tokio::test]
async fn a_refused_request_gets_not_a_byte() {
    let server = ApiServer::new();
    server.inject(On::list(), Fault::Refuse);
    let listening = server.listen(([127, 0, 0, 1], 0)).await.unwrap();

    assert_eq!(raw(listening.address(), &get(PATH)).await, "");
    listening.stop().await;
}

#[tokio::test]
async fn bytes_that_travel_alone_arrive_in_many_reads() {
    let server = ApiServer::new();
    let listening = server.listen(([127, 0, 0, 1], 0)).await.unwrap();
    let mut reads = Vec::new();
    for fault in [None, Some(Fault::ByteByByte)] {
        server.clear_faults();
        if let Some(fault) = fault {
            server.inject(On::any(), fault);
        }
        let mut connection = TcpStream::connect(listening.address()).await.unwrap();
        connection.write_all(get("/api/v1/configmaps").as_bytes()).await.unwrap();
        let (mut buffer, mut count) = ([0; 4096], 0);
        while connection.read(&mut buffer).await.unwrap() > 0 {
            count += 1;
        }
        reads.push(count);
    }

    assert!(reads[0] <= 3 && reads[1] >= 20, "{reads:?}");
    listening.stop().await;
}

#[tokio::test]
async fn a_broken_stream_lacks_its_last_chunk_and_a_closed_one_has_it() {
    let server = ApiServer::new();
    server.put("configmaps", json!({"metadata": {"namespace": "shop", "name": "a"}})).unwrap();
    let listening = server.listen(([127, 0, 0, 1], 0)).await.unwrap();
    for (ending, has_last_chunk) in [(CutEnding::Close, true), (CutEnding::Reset, false)] {
        server.inject(On::watch().once(), Fault::Cut { after: CutAfter::Events(1), ending });

        let answer = raw(listening.address(), &get(&format!("{PATH}?watch=true"))).await;

        assert!(answer.contains("transfer-encoding: chunked\r\n"), "{answer}");
        assert!(answer.contains(r#"{"type":"ADDED","object":{"kind":"ConfigMap""#), "{answer}");
        assert_eq!(answer.ends_with("\r\n0\r\n\r\n"), has_last_chunk, "{answer}");
    }
    listening.stop().await;
}

#[tokio::test]
async fn nonsense_on_the_socket_harms_nobody() {
    let server = ApiServer::new();
    let listening = server.listen(([127, 0, 0, 1], 0)).await.unwrap();

    let answer = raw(listening.address(), "nonsense\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    // A client that disconnects in the middle of a request.
    let mut half = TcpStream::connect(listening.address()).await.unwrap();
    half.write_all(b"POST /api/v1/namespaces/shop/configmaps HTTP/1.1\r\ncontent-length: 100\r\n\r\n{").await.unwrap();
    drop(half);

    assert_eq!(Web::at(&listening.url()).get(PATH).await.code, 200);
    listening.stop().await;
}
