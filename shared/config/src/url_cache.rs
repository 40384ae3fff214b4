//! The cache of a configuration, and the file of a static one.

use super::{CachePolicy, ConfigError, UrlCacheSettings};
use rhumb_url::url_cache::{Clock, Lru, Random, UrlCache};
use rhumb_url::{canonical, fingerprint};

/// The empty cache of a configuration, which stands below `key` there; with the policy `static` it
/// takes in the first URLs of its file alone.
///
/// # Errors
/// The file cannot be read, or a line of it is no URL.
pub fn open_url_cache(key: &str, settings: &UrlCacheSettings) -> Result<UrlCache, ConfigError> {
    let entries = settings.entries as usize;
    Ok(match settings.policy {
        CachePolicy::Clock => UrlCache::replacing(entries, Box::new(Clock::new(entries))),
        CachePolicy::Lru => UrlCache::replacing(entries, Box::new(Lru::new(entries))),
        CachePolicy::Random => UrlCache::replacing(entries, Box::new(Random::new(entries))),
        CachePolicy::Static => UrlCache::fixed(&read(key, settings)?),
        CachePolicy::None => UrlCache::fixed(&[]),
    })
}

/// Fingerprints of the URLs of the file, one a line, as many as there are entries.
fn read(key: &str, settings: &UrlCacheSettings) -> Result<Vec<u64>, ConfigError> {
    let path = &settings.file;
    let text = std::fs::read_to_string(path).map_err(|error| {
        ConfigError::Range(vec![format!(
            "configuration key {key}.file = '{}' cannot be read: {error}",
            path.display()
        )])
    })?;
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    lines
        .take(settings.entries as usize)
        .map(|(number, line)| {
            canonical(line.trim(), None, None)
                .map(|url| fingerprint(&url))
                .map_err(|reason| {
                    let place = format!("{}:{}", path.display(), number + 1);
                    ConfigError::Range(vec![format!(
                        "configuration key {key}.file: {place} is no URL: {reason}"
                    )])
                })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(policy: CachePolicy, entries: u32, file: &std::path::Path) -> UrlCacheSettings {
        UrlCacheSettings {
            policy,
            entries,
            file: file.to_owned(),
        }
    }

    #[test]
    fn a_static_cache_takes_in_the_first_urls_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("urls");
        std::fs::write(
            &file,
            "http://A.test\n\n http://b.test/x#y \nhttp://c.test/\n",
        )
        .unwrap();
        let mut cache = open_url_cache("cache", &settings(CachePolicy::Static, 2, &file)).unwrap();
        let takes = |cache: &mut UrlCache, url: &str| {
            cache.insert(fingerprint(url));
            cache.contains(fingerprint(url))
        };
        assert!(takes(&mut cache, "http://a.test/") && takes(&mut cache, "http://b.test/x"));
        assert!(!takes(&mut cache, "http://c.test/"));

        std::fs::write(&file, "http://a.test/\nnonsense\n").unwrap();
        let error = open_url_cache("cache", &settings(CachePolicy::Static, 9, &file))
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains("cache.file") && error.contains("urls:2"),
            "{error}"
        );
        let missing = settings(CachePolicy::Static, 9, &folder.path().join("missing"));
        assert!(
            open_url_cache("cache", &missing)
                .err()
                .unwrap()
                .to_string()
                .contains("missing")
        );
    }

    #[test]
    fn every_policy_of_the_configuration_does_what_it_says() {
        for (policy, remembers) in [
            (CachePolicy::Clock, true),
            (CachePolicy::Lru, true),
            (CachePolicy::Random, true),
            (CachePolicy::None, false),
        ] {
            let mut cache = open_url_cache("cache", &settings(policy, 4, "".as_ref())).unwrap();
            cache.insert(7);
            assert_eq!(cache.contains(7), remembers, "{policy:?}");
        }
    }
}
