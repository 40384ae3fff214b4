use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

const LIFETIME: Duration = Duration::from_secs(10);
/// What a name may take in memory, beside what does not depend on how many there are.
const BYTES_PER_NAME_MAX: usize = 200;

/// One address, told from others by its number.
fn address(number: u32) -> Resolution {
    Resolution::Addresses {
        addresses: vec![IpAddr::from((0x0800_0000 | number).to_be_bytes())],
        ttl_s: 0,
    }
}

/// Returns the resolution as it comes out with `seconds` left.
fn with_ttl(resolution: &Resolution, seconds: u32) -> Resolution {
    match resolution.clone() {
        Resolution::Addresses { addresses, .. } => Resolution::Addresses {
            addresses,
            ttl_s: seconds,
        },
        other => other,
    }
}

fn get(cache: &mut NameCache, name: &str, now: Timestamp) -> Option<Resolution> {
    cache.get(name, now).map(|known| known.resolution(now))
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_secs(seconds)
}

#[test]
fn an_entry_holds_until_it_expires() {
    let mut cache = NameCache::new(2);
    cache.insert("a", &address(1), LIFETIME, Timestamp::ZERO);
    let just_before = Timestamp::ZERO + (LIFETIME - Duration::from_micros(1));
    assert_eq!(
        get(&mut cache, "a", just_before),
        Some(with_ttl(&address(1), 1))
    );
    assert_eq!(get(&mut cache, "a", at(10)), None);
    assert_eq!(get(&mut cache, "b", Timestamp::ZERO), None);
}

#[test]
fn a_later_finding_replaces_the_earlier() {
    let mut cache = NameCache::new(2);
    cache.insert("a", &address(1), LIFETIME, Timestamp::ZERO);
    cache.insert("a", &Resolution::NoAddress, LIFETIME * 2, at(10));
    let known = cache.get("a", at(13)).unwrap();
    assert_eq!((known.kind(), known.age(at(13)), known.left(at(13))), {
        (
            Kind::NoAddress,
            Duration::from_secs(3),
            Duration::from_secs(17),
        )
    });
    assert_eq!((cache.len(), cache.due_at()), (1, None));
}

#[test]
fn what_is_in_use_stays_and_what_expired_goes_first() {
    let mut cache = NameCache::new(3);
    cache.insert("used", &address(1), LIFETIME * 9, Timestamp::ZERO);
    cache.insert("unused", &address(1), LIFETIME * 9, Timestamp::ZERO);
    cache.insert("short", &address(1), LIFETIME, Timestamp::ZERO);
    assert!(cache.get("used", Timestamp::ZERO).is_some());
    assert!(cache.get("short", Timestamp::ZERO).is_some());
    cache.insert("new", &address(1), LIFETIME * 9, Timestamp::ZERO);
    assert!(cache.get("unused", Timestamp::ZERO).is_none());
    cache.insert("newer", &address(1), LIFETIME * 9, at(10));
    assert!(cache.get("new", at(10)).is_some());
    assert!(cache.get("newer", at(10)).is_some());
    assert_eq!(cache.len(), 3);
}

#[test]
fn addresses_of_both_versions_come_back_up_to_a_number() {
    let mut cache = NameCache::new(2);
    let addresses = |text: &[&str]| {
        text.iter()
            .map(|ip| ip.parse().unwrap())
            .collect::<Vec<IpAddr>>()
    };
    let mixed = Resolution::Addresses {
        addresses: addresses(&["2600::1", "8.8.8.8", "2600::2", "8.8.4.4"]),
        ttl_s: 9,
    };
    cache.insert("a", &mixed, LIFETIME, Timestamp::ZERO);
    let known: Vec<IpAddr> = cache
        .get("a", Timestamp::ZERO)
        .unwrap()
        .addresses()
        .collect();
    assert_eq!(
        known,
        addresses(&["8.8.8.8", "8.8.4.4", "2600::1", "2600::2"])
    );
    let many = Resolution::Addresses {
        addresses: vec!["2600::1".parse().unwrap(); 4_000],
        ttl_s: 9,
    };
    cache.insert("b", &many, LIFETIME, Timestamp::ZERO);
    assert_eq!(
        cache.get("b", Timestamp::ZERO).unwrap().addresses().count(),
        ADDRESSES_MAX
    );
}

#[test]
fn a_name_that_is_none_is_not_remembered() {
    let mut cache = NameCache::new(2);
    for (bytes, expected) in [
        (0, 1),
        (NAME_BYTES_MAX, 2),
        (NAME_BYTES_MAX + 1, 2),
        (70_000, 2),
    ] {
        let name = "x".repeat(bytes);
        cache.insert(&name, &address(1), LIFETIME, Timestamp::ZERO);
        assert_eq!(
            (cache.get(&name, Timestamp::ZERO).is_some(), cache.len()),
            (bytes <= NAME_BYTES_MAX, expected)
        );
    }
}

#[test]
fn failures_in_a_row_are_counted_also_past_their_time() {
    let mut cache = NameCache::new(1);
    cache.insert("a", &Resolution::Temporary, LIFETIME, Timestamp::ZERO);
    cache.insert("a", &Resolution::Temporary, LIFETIME, at(100));
    assert_eq!((cache.failures("a"), cache.failures("b")), (2, 0));
    for _ in 0..300 {
        cache.insert("a", &Resolution::Temporary, LIFETIME, at(100));
    }
    assert_eq!(cache.failures("a"), 255);
    cache.insert("a", &address(1), LIFETIME, at(100));
    cache.postpone("a", LIFETIME / 2, at(100));
    assert_eq!((cache.failures("a"), cache.due_at()), (1, Some(at(105))));
    cache.postpone("a", LIFETIME, at(100));
    assert_eq!((cache.failures("a"), cache.due_at()), (2, None), "too late");
}

#[test]
fn what_is_in_use_is_due_once_shortly_before_it_expires() {
    let mut cache = NameCache::new(3);
    cache.insert("used", &address(1), LIFETIME * 10, Timestamp::ZERO);
    cache.insert("late", &address(1), LIFETIME * 10, Timestamp::ZERO);
    cache.insert("none", &Resolution::NoAddress, LIFETIME, Timestamp::ZERO);
    assert!(
        cache.get("used", Timestamp::ZERO).is_some()
            && cache.get("none", Timestamp::ZERO).is_some()
    );
    assert_eq!(
        (cache.due_at(), cache.take_due(at(89))),
        (Some(at(90)), None)
    );
    assert_eq!(
        (cache.take_due(at(90)), cache.take_due(at(90))),
        (Some("used".to_owned()), None)
    );
    assert_eq!(
        cache.due_at(),
        Some(at(95)),
        "another look at what was not used yet"
    );
    assert!(cache.peek("late", at(94)).is_some() && cache.get("late", at(94)).is_some());
    assert_eq!(
        (cache.take_due(at(95)), cache.due_at()),
        (Some("late".to_owned()), None)
    );
    cache.insert("late", &address(2), LIFETIME, at(96));
    assert_eq!(
        (cache.due_at(), cache.take_due(at(107)), cache.due_at()),
        (Some(at(105)), None, None)
    );
}

/// Goal: the bytes of a name stay within what is allowed, counted from what a slot and its share of
/// the indices take and from what was asked of the heap. Method: 50,000 names of 24 letters with
/// two addresses of each version.
#[test]
fn a_name_takes_few_bytes() {
    let names = 50_000;
    let mut cache = NameCache::new(names);
    let resolution = Resolution::Addresses {
        addresses: ["8.8.8.8", "8.8.4.4", "2600::1", "2600::2"]
            .map(|ip| ip.parse().unwrap())
            .to_vec(),
        ttl_s: 0,
    };
    for number in 0..names {
        cache.insert(
            &format!("www.name-{number:010}.test"),
            &resolution,
            LIFETIME,
            Timestamp::ZERO,
        );
    }
    assert_eq!((cache.len(), cache.due.len()), (names, names));
    let heap: usize = cache.slots.iter().map(|slot| slot.bytes.len()).sum();
    assert_eq!((heap, cache.text_bytes), (64 * names, heap));
    assert_eq!(cache.slots.capacity(), names);
    let each = cache.bytes() / names;
    println!(
        "{each} bytes a name, {} of them its slot",
        size_of::<Slot>()
    );
    assert!(each <= BYTES_PER_NAME_MAX, "{each}");
    for number in 0..names {
        cache.insert(
            &format!("other-{number}.test"),
            &Resolution::NoAddress,
            LIFETIME,
            Timestamp::ZERO,
        );
    }
    assert!(cache.due.is_empty(), "what went is not due");
    assert_eq!(
        cache.text_bytes,
        cache
            .slots
            .iter()
            .map(|slot| slot.bytes.len())
            .sum::<usize>()
    );
}

/// Prints how many hits a second of CPU time makes, of names in no order; with optimisation the aim
/// is 3 million.
#[test]
#[ignore = "a measurement, for release builds"]
fn hits_a_second() {
    let names: Vec<String> = (0..50_000)
        .map(|number| format!("www.name-{number:010}.test"))
        .collect();
    let mut cache = NameCache::new(names.len());
    for (number, name) in (0..).zip(&names) {
        cache.insert(name, &address(number), LIFETIME, Timestamp::ZERO);
    }
    let cpu_s = || {
        rhumb_telemetry::process::usage(std::process::id())
            .unwrap()
            .0
    };
    let begun_s = cpu_s();
    let mut lookups = 0u64;
    let mut at = 0;
    let mut sum = 0u64;
    while lookups < 10_000_000 {
        at = (at + 7_919) % names.len();
        let known = cache.get(&names[at], Timestamp::ZERO).unwrap();
        sum += known.addresses().filter(IpAddr::is_ipv4).count() as u64;
        lookups += 1;
    }
    assert_eq!(sum, lookups);
    println!(
        "{:.1} million hits a second",
        lookups as f64 / (cpu_s() - begun_s) / 1e6
    );
}

fn resolutions() -> impl Strategy<Value = Resolution> {
    prop_oneof![
        proptest::collection::vec(any::<IpAddr>(), 1..20).prop_map(|addresses| {
            Resolution::Addresses {
                addresses,
                ttl_s: 0,
            }
        }),
        Just(Resolution::NoAddress),
        Just(Resolution::Private),
        Just(Resolution::Temporary),
    ]
}

/// What comes out of the cache for what went in.
fn sorted(resolution: &Resolution) -> Resolution {
    match resolution.clone() {
        Resolution::Addresses { mut addresses, .. } => {
            addresses.truncate(ADDRESSES_MAX);
            addresses.sort_by_key(IpAddr::is_ipv6);
            Resolution::Addresses {
                addresses,
                ttl_s: 0,
            }
        }
        other => other,
    }
}

proptest! {
    /// Method: against a map without bounds; what the cache gives is what the map has, what is due
    /// was used since it was found out and is about to expire, and it never grows beyond its
    /// capacity.
    #[test]
    fn it_gives_only_what_was_put_in_last(
        steps in proptest::collection::vec((0u8..12, 0u8..4, resolutions(), 0u64..6, 1u64..100), 0..200),
    ) {
        struct Model {
            resolution: Resolution,
            lifetime: Duration,
            expires_at: Timestamp,
            is_used: bool,
        }
        let mut cache = NameCache::new(5);
        let mut model: HashMap<String, Model> = HashMap::new();
        let mut now = Timestamp::ZERO;
        for (name, step, resolution, pause_s, lifetime_s) in steps {
            now = now + Duration::from_secs(pause_s);
            let name = name.to_string();
            let lifetime = Duration::from_secs(lifetime_s);
            match step {
                0 | 1 => {
                    cache.insert(&name, &resolution, lifetime, now);
                    let entry = Model { resolution: sorted(&resolution), lifetime, expires_at: now + lifetime, is_used: false };
                    model.insert(name.clone(), entry);
                    prop_assert!(cache.peek(&name, now).is_some());
                }
                2 => {
                    if let Some(due) = cache.take_due(now) {
                        let entry = &model[&due];
                        prop_assert_eq!(kind(&entry.resolution), Kind::Addresses);
                        prop_assert!(entry.is_used && entry.expires_at > now);
                        prop_assert!(entry.expires_at - entry.lifetime / AHEAD <= now);
                    }
                }
                _ => {
                    if let Some(known) = cache.get(&name, now) {
                        let entry = model.get_mut(&name).unwrap();
                        let left = entry.expires_at.since(now);
                        prop_assert_eq!(known.resolution(now), with_ttl(&entry.resolution, seconds(left)));
                        prop_assert!(known.left(now) == left && !left.is_zero());
                        prop_assert_eq!(known.age(now), entry.lifetime - left);
                        entry.is_used = true;
                    }
                }
            }
            prop_assert!(cache.len() <= 5 && cache.due.len() <= cache.len());
            for &(due_at, slot) in &cache.due {
                prop_assert_eq!(cache.slots[slot as usize].due_at, due_at);
            }
            prop_assert_eq!(cache.text_bytes, cache.slots.iter().map(|slot| slot.bytes.len()).sum::<usize>());
        }
    }

    /// Method: a cache, its snapshot, and another cache with a clock of its own that is made from
    /// it: what holds for longer than the time between them is there, with so much less left, and
    /// nothing else is but failures.
    #[test]
    fn a_snapshot_brings_back_what_still_holds(
        names in proptest::collection::vec(("[a-z0-9_.é-]{0,40}", resolutions(), 1u64..100), 0..40),
        taken_s in 0u64..120, elapsed_s in 0u64..60, opened_s in 0u64..1_000,
    ) {
        let mut cache = NameCache::new(100);
        let taken = at(taken_s);
        let opened = at(opened_s);
        let elapsed = Duration::from_secs(elapsed_s);
        for (name, resolution, lifetime_s) in &names {
            cache.insert(name, resolution, Duration::from_secs(*lifetime_s), Timestamp::ZERO);
        }
        let mut next = NameCache::new(100);
        for kept in read_snapshot(&cache.snapshot(taken)).unwrap() {
            next.restore(&kept, elapsed, opened);
        }
        for (name, ..) in &names {
            let known = cache.peek(name, taken + elapsed).filter(|known| known.kind() != Kind::Temporary);
            let known = known.map(|known| (known.resolution(taken + elapsed), known.age(taken + elapsed)));
            let restored = next.peek(name, opened).map(|known| (known.resolution(opened), known.age(opened)));
            prop_assert_eq!(restored, known);
        }
    }

    /// Method: random bytes, and snapshots with a byte changed or cut short: they are read or
    /// refused, and what is read can be restored.
    #[test]
    fn damaged_snapshots_do_no_harm(
        names in proptest::collection::vec(("[a-z.]{0,20}", resolutions()), 0..8),
        noise in proptest::collection::vec(any::<u8>(), 0..200),
        place in any::<proptest::sample::Index>(), byte in any::<u8>(), end in any::<proptest::sample::Index>(),
    ) {
        let mut cache = NameCache::new(100);
        for (name, resolution) in &names {
            cache.insert(name, resolution, LIFETIME, Timestamp::ZERO);
        }
        let mut bytes = cache.snapshot(Timestamp::ZERO);
        if !bytes.is_empty() {
            let place = place.index(bytes.len());
            bytes[place] = byte;
            bytes.truncate(end.index(bytes.len()) + 1);
        }
        for bytes in [bytes, noise] {
            for kept in read_snapshot(&bytes).unwrap_or_default() {
                prop_assert!(kept.left <= kept.lifetime);
                prop_assert_eq!(kept.kind == Kind::Addresses, !kept.addresses.is_empty());
                cache.restore(&kept, Duration::ZERO, Timestamp::ZERO);
            }
        }
        prop_assert!(cache.len() <= 100);
    }
}
