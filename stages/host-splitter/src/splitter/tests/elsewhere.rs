//! Sitemaps on hosts beyond the scope: who names them decides.

use super::*;

/// Sitemaps that the robots.txt of a server names.
fn named_by(server: &str, urls: &[&str]) -> FoundUrls {
    let mut input = found(false, urls);
    input.origin.page = Origin::page_of_sitemaps(&format!("{server}/robots.txt"), server);
    input
}

/// Sitemaps that an index lists, which the robots.txt of a server names.
fn listed_by(index: &str, server: &str, urls: &[&str]) -> FoundUrls {
    let mut input = found(false, urls);
    input.origin.page = Origin::page_of_listed_sitemaps(index, server);
    input
}

/// A core whose topic follows `a.test` alone.
fn following_a(set: &[&str]) -> Harness {
    let set: Vec<&str> = ["scope.follow=host"]
        .into_iter()
        .chain(set.iter().copied())
        .collect();
    let mut t = Harness::new(settings_with(&set));
    t.step(Event::Wake);
    t.step(Event::Answer(Answer::Scope(followed("a.test"))));
    t.step(Event::Answer(Answer::ScopeCaughtUp));
    t
}

#[test]
fn a_sitemap_on_another_host_passes_when_a_followed_host_names_it_and_a_link_there_does_not() {
    let mut t = following_a(&[]);
    t.input(named_by(
        "http://a.test",
        &["http://b.test/s.xml", "http://a.test/s.xml"],
    ));
    t.input(named_by("https://a.test:8443", &["http://c.test/s.xml"]));
    t.input(named_by(
        "http://b.test",
        &["http://b.test/other.xml", "http://d.test/s.xml"],
    ));
    t.input(named_by(
        "",
        &["http://d.test/t.xml", "http://a.test/t.xml"],
    ));
    let mut listed = found(false, &["http://b.test/page", "http://a.test/page"]);
    listed.origin.page = "http://b.test/s.xml".into();
    t.input(listed);
    let mut forged = found(false, &["http://d.test/forged"]);
    forged.origin.page = "http://a.test/robots.txt".into();
    t.input(forged);
    t.settle();
    let mut urls = t.urls();
    urls.sort();
    let expected = [
        "http://a.test/page",
        "http://a.test/s.xml",
        "http://a.test/t.xml",
        "http://b.test/s.xml",
        "http://c.test/s.xml",
    ];
    assert_eq!(urls, expected);
    assert_eq!(t.filtered()[FilterReason::Scope as usize], 5);
}

/// Goal: an index on a host beyond the scope does not have other hosts asked, nor does one in the
/// scope.
#[test]
fn an_index_leads_beyond_the_scope_on_its_own_host_alone_and_a_redirect_of_a_named_sitemap_to_any()
{
    let mut t = following_a(&[]);
    let urls = [
        "http://b.test/1.xml",
        "http://c.test/2.xml",
        "https://b.test:8443/3.xml",
        "http://a.test/4.xml",
    ];
    t.input(listed_by("http://b.test/index.xml", "http://a.test", &urls));
    t.input(listed_by(
        "http://a.test/index.xml",
        "http://a.test",
        &["http://d.test/5.xml", "http://a.test/6.xml"],
    ));
    t.input(listed_by(
        "http://e.test/index.xml",
        "http://e.test",
        &["http://e.test/7.xml"],
    ));
    t.input(listed_by(
        "http://e.test/index.xml",
        "",
        &["http://e.test/8.xml"],
    ));
    let mut moved = named_by("http://a.test", &["http://f.test/9.xml"]);
    moved.origin.page = Origin::page_of_sitemaps("http://a.test/moved", "http://a.test");
    moved.origin.redirects = 1;
    t.input(moved);
    t.settle();
    let mut urls = t.urls();
    urls.sort();
    let expected = [
        "http://a.test/4.xml",
        "http://a.test/6.xml",
        "http://b.test/1.xml",
        "http://f.test/9.xml",
        "https://b.test:8443/3.xml",
    ];
    assert_eq!(urls, expected);
    assert_eq!(t.filtered()[FilterReason::Scope as usize], 4);
}

#[test]
fn of_the_sitemaps_that_an_index_beyond_the_scope_lists_many_pass_and_of_one_in_the_scope_all() {
    for (index, passing) in [
        ("http://b.test/index.xml", 1_000),
        ("http://a.test/index.xml", 1_200),
    ] {
        let mut t = following_a(&[]);
        let urls: Vec<String> = (0..1_200)
            .map(|number| format!("http://{}/{number}.xml", host_of(index)))
            .collect();
        t.input(listed_by(
            index,
            "http://a.test",
            &urls.iter().map(String::as_str).collect::<Vec<_>>(),
        ));
        t.settle();
        assert_eq!(t.urls().len(), passing, "{index}");
        assert_eq!(
            t.filtered()[FilterReason::Scope as usize] as usize,
            1_200 - passing,
            "{index}"
        );
    }
}

#[test]
fn a_robots_txt_leads_to_few_hosts_beyond_the_scope_and_to_all_its_sitemaps_on_these() {
    let mut t = following_a(&[]);
    let urls: Vec<String> = (0..40)
        .map(|number| format!("http://h{}.test/{number}.xml", number % 20))
        .collect();
    t.input(named_by(
        "http://a.test",
        &urls.iter().map(String::as_str).collect::<Vec<_>>(),
    ));
    t.settle();
    let mut hosts: Vec<String> = t.urls().iter().map(|url| host_of(url).to_owned()).collect();
    assert_eq!(
        (hosts.len(), t.filtered()[FilterReason::Scope as usize]),
        (20, 20)
    );
    hosts.sort();
    hosts.dedup();
    assert_eq!(hosts.len(), 10);
}

#[test]
fn a_sitemap_is_no_page_so_it_need_not_be_listed_but_may_be_rejected() {
    let mut t = following_a(&[
        "scope.prefixes=['http://(test,a,)/docs/']",
        "scope.accept=['/docs/']",
        "scope.reject=['no']",
    ]);
    t.input(named_by(
        "http://a.test",
        &[
            "http://a.test/s.xml",
            "http://b.test/s.xml",
            "http://b.test/no.xml",
        ],
    ));
    t.input(found(
        false,
        &["http://a.test/other.xml", "http://a.test/docs/1"],
    ));
    t.settle();
    let mut urls = t.urls();
    urls.sort();
    assert_eq!(
        urls,
        [
            "http://a.test/docs/1",
            "http://a.test/s.xml",
            "http://b.test/s.xml"
        ]
    );
    assert_eq!(t.filtered()[FilterReason::Pattern as usize], 2);
}
