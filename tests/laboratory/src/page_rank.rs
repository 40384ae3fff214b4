//! PageRank: what each page of a web that is known as a whole is worth.
//!
//! R(u) = (1 - d) / T + d * sum of R(v) / C_v over the pages v that link to u. T is the number of
//! pages, C_v the number of links of v.
//!
//! Source: Brin and Page 1998, as Cao, Jiang and Singh 2003 write it (section 4).

/// d: the share that flows along links.
pub(crate) const DAMPING: f64 = 0.85;
/// Rounds: after them less than a millionth of it still moves.
const ROUNDS: usize = 100;

/// The PageRank of each page, by the links of each.
pub(crate) fn page_rank(links: &[&[usize]]) -> Vec<f64> {
    let pages = links.len();
    let own = (1.0 - DAMPING) / pages as f64;
    let mut ranks = vec![1.0 / pages as f64; pages];
    for _ in 0..ROUNDS {
        let mut next = vec![own; pages];
        for (links, rank) in links.iter().zip(&ranks) {
            for &to in *links {
                next[to] += DAMPING * rank / links.len() as f64;
            }
        }
        ranks = next;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_rank_flows_along_links() {
        // 0 and 1 link to each other and to 2, which links to nothing.
        let ranks = page_rank(&[&[1, 2], &[0, 2], &[]]);
        // x = 0.05 + 0.85 x / 2; the third has 0.05 + 0.85 x.
        let x = 0.05 / (1.0 - 0.425);
        for (rank, expected) in ranks.iter().zip([x, x, 0.05 + 0.85 * x]) {
            assert!((rank - expected).abs() < 1e-9, "{ranks:?}");
        }
    }
}
