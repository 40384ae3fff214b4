//! Table: what each topic got in each part of each run, as CSV.

use super::shares::Run;

/// A row for each topic and part of each run.
pub(super) fn csv(runs: &[Run]) -> String {
    let mut text = String::from("web,seed,way,part,topic,connection_s,pages\n");
    for Run {
        kind,
        names,
        way,
        seed,
        parts,
    } in runs
    {
        for (number, part) in (1..).zip(parts) {
            for (topic, name) in names.iter().enumerate() {
                let time = part.time[topic].as_secs_f64();
                let pages = part.pages[topic];
                text.push_str(&format!(
                    "{kind},{seed},{way},{number},{name},{time:.3},{pages}\n"
                ));
            }
        }
    }
    text
}
