//! Qualities that are drawn, as in the second model of Cao, Jiang and Singh (2003): by Zipf's law.

use rhumb_wire::message::Quality;

/// Ranks that are drawn from.
const RANKS: u64 = 1_000_000;

/// 1 / k, where k is drawn evenly from a million ranks by a URL's
/// [fingerprint](rhumb_url::fingerprint): for a URL always the same.
pub fn zipf(fingerprint: u64) -> Quality {
    Quality::SEED.shared_among(1 + (fingerprint % RANKS) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_url::fingerprint;

    #[test]
    fn few_urls_are_worth_much() {
        let worth = |n: u32| zipf(fingerprint(&format!("http://a.test/{n}"))).get();
        // Where k is even in 1 to 1,000,000, one in a hundred is below 10,000.
        let good = (0..20_000).filter(|&n| worth(n) > 1e-4).count();
        assert!((120..280).contains(&good), "{good}");
    }
}
