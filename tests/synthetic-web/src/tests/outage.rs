//! Tests of a web whose network, or name server, is down for a while.

use super::*;
use crate::dns;
use tokio::net::UdpSocket;

const A_MOMENT: Duration = Duration::from_millis(100);

/// Goal: what is asked while the network is down never counts, and connections of that time are of
/// no use afterwards.
#[tokio::test]
async fn what_is_asked_while_the_network_is_down_is_never_answered_or_counted() {
    let web = SyntheticWeb::start(small()).unwrap();
    let mut before = connect(&web, 0).await;
    assert_eq!(before.get("/").await.unwrap().status, 200);
    web.cut(Some(Outage::Silent));
    tokio::time::sleep(A_MOMENT).await;
    let mut meanwhile = connect(&web, 1).await;
    for client in [&mut before, &mut meanwhile] {
        let asked = tokio::time::timeout(A_MOMENT, client.get("/")).await;
        assert!(asked.is_err(), "nothing comes, not even an end: {asked:?}");
    }
    web.cut(None);
    for client in [&mut before, &mut meanwhile] {
        client.wait_for_end().await.unwrap();
    }
    assert_eq!(connect(&web, 1).await.get("/").await.unwrap().status, 200);
    assert_eq!(web.report().requests, 2);
}

#[tokio::test]
async fn a_network_that_breaks_ends_connections_at_once() {
    let web = SyntheticWeb::start(small()).unwrap();
    let mut before = connect(&web, 0).await;
    assert_eq!(before.get("/").await.unwrap().status, 200);
    web.cut(Some(Outage::Broken));
    before.wait_for_end().await.unwrap();
    // The end may come before the client has seen its beginning: then it hears of both at once.
    if let Ok(mut meanwhile) =
        Client::connect(web.host_address(0), &web.web.plan.authority(0)).await
    {
        meanwhile.wait_for_end().await.unwrap();
    }
    assert_eq!(web.report().requests, 1);
}

#[tokio::test]
async fn a_silent_name_server_answers_again_when_it_is_asked_again() {
    let web = SyntheticWeb::start(small()).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(web.dns()).await.unwrap();
    let mut answer = [0; 512];
    for silent in [true, false] {
        web.silence_names(silent);
        socket.send(&dns::query("h0000.web.test", 1)).await.unwrap();
        let answered = tokio::time::timeout(A_MOMENT * 10, socket.recv(&mut answer)).await;
        assert_eq!(answered.is_err(), silent);
    }
    assert_eq!(web.report().dns_queries, 1);
}
