//! Runs by themselves: written, merged, damaged.

use crate::seen::Key;
use crate::seen::folder::{Folder, Name};
use crate::seen::sieve::merge::merge;
use crate::seen::sieve::questions::Asked;
use crate::seen::sieve::run::{Run, Window};
use crate::seen::sieve::run_writer::RunWriter;

fn write(folder: &Folder, keys: &[Key]) -> Run {
    let mut writer = RunWriter::create(folder, 3, 7).unwrap();
    keys.iter().for_each(|&key| writer.push(key).unwrap());
    writer.finish().unwrap()
}

fn all(runs: &[&Run], keys: &[Key]) -> Vec<Key> {
    let mut found = Vec::new();
    let visited = merge(runs, keys, &mut |key| {
        found.push(key);
        Ok(())
    });
    visited.unwrap();
    found
}

#[test]
fn keys_come_back_and_are_found_whatever_the_sizes_of_the_groups() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = Folder::open(temporary.path().into(), false).unwrap();
    for urls_of_host in [1, 2, 3, 27, 28, 29, 100, 1_000] {
        for hosts in [0, 1, 2, 9, 40] {
            // Odd numbers are there, even ones are not.
            let keys: Vec<Key> = (0..hosts)
                .flat_map(|h| (0..urls_of_host).map(move |u| (h * 2 + 1, u * 2 + 1)))
                .collect();
            let written = write(&folder, &keys);
            let run = Run::open(&folder, 3, written.entry()).unwrap();
            assert_eq!(run.index, written.index);
            assert_eq!(all(&[&run], &[]), keys);
            let mut asked: Vec<Asked> = (0..hosts * 2 + 2)
                .flat_map(|h| (0..urls_of_host * 2 + 2).map(move |u| (h, u)))
                .map(|key| Asked {
                    key,
                    place: 0,
                    found: false,
                })
                .collect();
            let all = asked.len();
            for part in [1, 7, all] {
                asked.iter_mut().for_each(|asked| asked.found = false);
                for asked in asked.chunks_mut(part.max(all / 50)) {
                    run.find(asked, &mut Window::default()).unwrap();
                }
                for Asked { key, found, .. } in &asked {
                    assert_eq!(*found, keys.binary_search(key).is_ok(), "{key:?}");
                }
            }
        }
    }
}

#[test]
fn merged_keys_are_in_order_and_each_there_once() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = Folder::open(temporary.path().into(), false).unwrap();
    let a = write(
        &folder,
        &(0..300).map(|n| (n / 50, n * 3)).collect::<Vec<_>>(),
    );
    let extremes = [(0, 0), (0, u64::MAX), (u64::MAX, 0), (u64::MAX, u64::MAX)];
    let mut writer = RunWriter::create(&folder, 3, 8).unwrap();
    extremes.iter().for_each(|&key| writer.push(key).unwrap());
    let b = writer.finish().unwrap();
    let keys = [(0, 0), (2, 301), (2, 302)];
    let merged = all(&[&a, &b], &keys);
    assert!(merged.is_sorted_by(|a, b| a < b));
    // (0, 0) is in all three.
    assert_eq!(merged.len(), 300 + 4 + 3 - 2);
}

#[test]
fn every_changed_byte_is_noticed() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = Folder::open(temporary.path().into(), false).unwrap();
    let keys: Vec<Key> = (0..60).map(|n| (n / 7, n)).collect();
    let entry = write(&folder, &keys).entry();
    let path = folder.path_of(Name::Run {
        partition: 3,
        generation: 7,
    });
    let sound = std::fs::read(&path).unwrap();
    for at in 0..sound.len() {
        let mut damaged = sound.clone();
        damaged[at] ^= 0x10;
        std::fs::write(&path, damaged).unwrap();
        let error =
            Run::open(&folder, 3, entry).and_then(|run| merge(&[&run], &[], &mut |_| Ok(())));
        let text = error.unwrap_err().to_string();
        assert!(
            text.contains("00003.00000007.run") && text.contains("from a copy"),
            "{text}"
        );
    }
    std::fs::write(&path, &sound[1..]).unwrap();
    assert!(Run::open(&folder, 3, entry).is_err());
}
