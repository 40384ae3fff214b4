//! Tables: the curves of the comparison, and a row for each run, as CSV.

use super::curves::Curves;

/// Steps of a curve.
pub(super) const STEPS: u32 = 100;

/// Three curves for each run, in steps of a hundredth: pages and quality after a share of the time,
/// and quality after a share of the pages. Time counts from 0 to the completion of breadth-first.
pub(super) fn curves_csv(runs: &[&Curves]) -> String {
    let mut text =
        String::from("quality,policy,share,pages_by_time,quality_by_time,quality_by_pages\n");
    for run in runs {
        for step in 0..=STEPS {
            let share = f64::from(step) / f64::from(STEPS);
            text.push_str(&format!(
                "{},{},{share:.2},{:.6},{:.6},{:.6}\n",
                run.model,
                run.setup.policy,
                run.pages_at(share),
                run.quality_at(share),
                run.quality_after(share),
            ));
        }
    }
    text
}

/// The numbers by which claims are judged, a row for each run.
pub(super) fn runs_csv(runs: &[Curves]) -> String {
    let mut text = String::from(
        "servers,fast,locality,decades,pages_deviation,seed,seeds,keep_alive,page_cpu_us,connections,schedulers,quality,policy,seconds,pages_per_second,pages_at_half_time,quality_at_quarter,quality_at_30_percent,quality_at_third,quality_at_half_time,quality_after_half_the_pages\n",
    );
    for run in runs {
        let shape = run.shape;
        let setup = run.setup;
        let at = [0.25, 0.3, 1.0 / 3.0, 0.5]
            .map(|time| format!("{:.6}", run.quality_at(time)))
            .join(",");
        text.push_str(&format!(
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{:.3},{:.3},{:.6},{at},{:.6}\n",
            shape.servers,
            shape.fast,
            shape.locality,
            shape.decades,
            shape.pages_deviation,
            shape.seed,
            setup.seeds,
            setup.keep_alive,
            setup.page_cpu_us,
            setup.connections,
            setup.schedulers,
            run.model,
            setup.policy,
            run.seconds(),
            run.throughput(),
            run.pages_at(0.5),
            run.quality_after(0.5),
        ));
    }
    text
}
