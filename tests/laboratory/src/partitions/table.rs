//! Tables: everything that was measured, as CSV.

use super::growth::Growth;
use super::scaling::Scaling;

/// A row for each instance that came or went.
pub(super) fn scaling(scalings: &[Scaling]) -> String {
    let mut text = String::from(
        "web,seed,split,scheme,instances_before,instances_after,ideal_share,moved_partitions,moved_urls,cv_urls,cv_time\n",
    );
    for Scaling {
        kind,
        seed,
        is_split,
        scheme,
        steps,
    } in scalings
    {
        for step in steps {
            text.push_str(&format!(
                "{kind},{seed},{is_split},{scheme},{},{},{:.6},{:.6},{:.6},{:.6},{:.6}\n",
                step.from,
                step.to,
                step.ideal(),
                step.moved_partitions,
                step.moved_urls,
                step.cv_urls,
                step.cv_time
            ));
        }
    }
    text
}

/// A row for each size of each web.
pub(super) fn growth(growths: &[Growth]) -> String {
    let mut text =
        String::from("web,seed,urls_in_limits,partitions,global_depth,pointers,over_limit\n");
    for Growth { kind, seed, sizes } in growths {
        for size in sizes {
            let pointers = 1_u128 << size.global_depth;
            text.push_str(&format!(
                "{kind},{seed},{:.3},{},{},{pointers},{}\n",
                size.urls, size.partitions, size.global_depth, size.over_limit
            ));
        }
    }
    text
}
