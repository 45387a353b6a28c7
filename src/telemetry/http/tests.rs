use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Instant,
};

use serde_json::Value;

use super::*;
use crate::{
    model::{EventId, RequestId},
    telemetry::{Check, Heart, HeartLimits, OpenRequest, Pause, Phase, RecordPosition},
};

const HOUR: Duration = Duration::from_secs(3600);
const PATIENT: HeartLimits = HeartLimits { poll: HOUR, intake: HOUR };

fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn seen(limits: HeartLimits) -> Seen {
    Seen { status: Arc::new(Status::new("crisis-1", limits)), metrics: Arc::new(Metrics::new().unwrap()) }
}

fn start(seen: &Seen) -> HttpServer {
    serve(any_port(), Arc::clone(&seen.status), Arc::clone(&seen.metrics)).unwrap()
}

struct Answer {
    code: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

fn connect(server: &HttpServer) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// Sends one request and reads until the server closes the connection.
fn ask(server: &HttpServer, method: &str, path: &str) -> Answer {
    let mut stream = connect(server);
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { code, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

fn get(server: &HttpServer, path: &str) -> Answer {
    ask(server, "GET", path)
}

#[test]
fn ready_answers_503_with_what_is_missing_and_200_once_all_holds() {
    let seen = seen(PATIENT);
    let server = start(&seen);
    let answer = get(&server, "/ready");
    assert_eq!((answer.code, &answer.json()["ready"]), (503, &json!(false)));
    let named: Vec<Value> =
        answer.json()["checks"].as_array().unwrap().iter().map(|check| check["name"].clone()).collect();
    assert_eq!(
        named,
        [
            "configuration",
            "broker",
            "events",
            "tables",
            "assignment",
            "intake",
            "index",
            "publisher",
            "runs",
            "dead_letters",
            "phase"
        ]
    );

    seen.status.set_phase(Phase::Running);
    for &check in Check::ALL {
        seen.status.set_check(check, true, "fine");
    }
    let answer = get(&server, "/ready");
    assert_eq!((answer.code, &answer.json()["ready"]), (200, &json!(true)));

    seen.status.pause(Pause::Flood, "501 records refused one after the other");
    let answer = get(&server, "/ready");
    assert_eq!(answer.code, 503);
    assert_eq!(
        answer.json()["checks"][5],
        json!({ "name": "intake", "ok": false, "detail": "flood: 501 records refused one after the other" })
    );
}

#[test]
fn live_answers_503_and_names_the_late_thread_and_200_once_it_beats() {
    let seen = seen(HeartLimits { poll: Duration::from_millis(1), intake: HOUR });
    let server = start(&seen);
    let silent = Instant::now();
    let answer = loop {
        let answer = get(&server, "/live");
        if answer.code == 503 {
            break answer;
        }
        assert!(silent.elapsed() < Duration::from_secs(20), "never late: {}", answer.body);
    };
    assert_eq!(answer.json()["live"], json!(false));
    assert_eq!(answer.json()["late"], json!(["poll"]));
    assert!(answer.json()["heartbeats"]["poll"]["ageSeconds"].as_f64().unwrap() > 0.001);
    assert_eq!(answer.json()["heartbeats"]["intake"]["late"], json!(false));

    seen.status.rest(Heart::Poll);
    let answer = get(&server, "/live");
    assert_eq!((answer.code, &answer.json()["late"]), (200, &json!([])));
}

#[test]
fn state_shows_what_was_told() {
    let seen = seen(PATIENT);
    let server = start(&seen);
    let event = EventId::new("E-1").unwrap();
    seen.status.assign_partition("items", 2);
    seen.status.set_next_offset("items", 2, 40);
    seen.status.set_high_watermark("items", 2, 100);
    seen.status.set_committed("items", 2, 35);
    seen.status.set_watermark(&event, 1_512_604_800);
    seen.status.set_open_requests(vec![OpenRequest {
        event,
        request: RequestId::new("E-1-r1").unwrap(),
        items: 9,
        first_position: Some(RecordPosition { topic: "items".to_owned(), partition: 2, offset: 31 }),
    }]);
    seen.status.pause(Pause::Disk, "3 bytes left");
    let answer = get(&server, "/state");
    assert_eq!(answer.code, 200);
    assert!(answer.head.contains("content-type: application/json"), "{}", answer.head);
    let state = answer.json();
    assert_eq!(state["instance"], "crisis-1");
    assert_eq!(state["phase"], "starting");
    assert_eq!(
        state["assignment"]["items"]["2"],
        json!({ "nextOffset": 40, "highWatermark": 100, "lag": 60, "committedOffset": 35 })
    );
    assert_eq!(state["watermarks"]["E-1"]["watermark"], 1_512_604_800);
    assert_eq!(
        state["openRequests"],
        json!([{
            "event": "E-1",
            "requestID": "E-1-r1",
            "items": 9,
            "firstPosition": { "topic": "items", "partition": 2, "offset": 31 },
        }])
    );
    assert_eq!(state["paused"], json!({ "disk": "3 bytes left" }));
    assert_eq!(state["lastCommit"], Value::Null);
}

#[test]
fn metrics_come_as_prometheus_text() {
    let seen = seen(PATIENT);
    let server = start(&seen);
    let answer = get(&server, "/metrics");
    assert_eq!(answer.code, 200);
    assert!(answer.head.contains("content-type: text/plain; version=0.0.4"), "{}", answer.head);
    for start in ["# HELP nuggetd_poll_age_seconds ", "nuggetd_build_info{", "process_resident_memory_bytes "]
    {
        assert!(answer.body.lines().any(|line| line.starts_with(start)), "{start}");
    }
}

#[test]
fn another_path_lists_the_endpoints_and_another_method_is_refused() {
    let seen = seen(PATIENT);
    let server = start(&seen);
    for path in ["/", "/health", "/live/"] {
        let answer = get(&server, path);
        assert_eq!(answer.code, 404, "{path}");
        for endpoint in ["/live", "/ready", "/state", "/metrics"] {
            assert!(answer.body.lines().any(|line| line.starts_with(endpoint)), "{endpoint}");
        }
    }
    assert_eq!(ask(&server, "POST", "/state").code, 405);
}

#[test]
fn every_endpoint_stands_in_the_operations_guide() {
    let guide = include_str!("../../../docs/OPERATIONS.md");
    for line in ENDPOINTS.lines().filter(|line| line.starts_with('/')) {
        let path = line.split(' ').next().unwrap();
        assert!(guide.contains(&format!("| `{path}` ")), "{path}");
    }
    let state = serde_json::to_value(seen(PATIENT).status.view()).unwrap();
    for field in state.as_object().unwrap().keys() {
        assert!(guide.contains(&format!("`{field}`")), "{field} of /state");
    }
}

#[test]
fn a_silent_client_keeps_nobody_waiting() {
    let seen = seen(PATIENT);
    let server = start(&seen);
    let silent = connect(&server);
    let mut half = connect(&server);
    half.write_all(b"GET /live HT").unwrap();
    assert_eq!(get(&server, "/live").code, 200);
    drop((silent, half));
}

#[test]
fn connections_are_few_and_silent_ones_make_room() {
    let longest = Duration::from_millis(300);
    let server = serve_bounded(any_port(), seen(PATIENT), 2, longest).unwrap();
    let begun = Instant::now();
    let mut silent = [connect(&server), connect(&server)];
    // No place is left until one of the two is cut off
    assert_eq!(get(&server, "/live").code, 200);
    assert!(begun.elapsed() >= longest, "a third connection was let in after {:?}", begun.elapsed());
    for stream in &mut silent {
        let mut nothing = Vec::new();
        assert_eq!(stream.read_to_end(&mut nothing).unwrap(), 0);
    }
}

#[test]
fn stopping_does_not_wait_for_silent_clients_and_frees_the_address() {
    let seen = seen(PATIENT);
    let server = start(&seen);
    let address = server.address();
    let mut silent = connect(&server);
    silent.write_all(b"GET /live HT").unwrap();
    assert_eq!(get(&server, "/live").code, 200);
    let begun = Instant::now();
    server.stop();
    assert!(begun.elapsed() < LONGEST_CONNECTION, "{:?}", begun.elapsed());
    drop(silent);
    serve(address, seen.status, seen.metrics).unwrap();
}

#[test]
fn an_address_in_use_is_named() {
    let seen = seen(PATIENT);
    let first = start(&seen);
    let error = serve(first.address(), Arc::clone(&seen.status), Arc::clone(&seen.metrics)).unwrap_err();
    let message = error.to_string();
    assert!(message.contains(&first.address().to_string()) && message.contains("http.listen"), "{message}");
}
