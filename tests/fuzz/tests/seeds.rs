//! No seed breaks its target's property. Among the seeds is every input that did once.

use std::path::Path;

#[test]
fn no_seed_fails() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    for name in fuzz::names() {
        let target = fuzz::target(name).expect("a target");
        let folder = std::fs::read_dir(seeds.join(name)).expect("a folder of seeds");
        let mut tried = 0;
        for seed in folder {
            let path = seed.expect("an entry").path();
            println!("{}", path.display());
            target(&std::fs::read(&path).expect("a seed"));
            tried += 1;
        }
        assert!(tried > 0, "{name} has no seeds");
    }
}

#[test]
fn every_folder_of_seeds_has_a_target() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    for folder in std::fs::read_dir(seeds).expect("the seeds") {
        let name = folder.expect("an entry").file_name();
        assert!(
            name.to_str().and_then(fuzz::target).is_some(),
            "{}",
            name.display()
        );
    }
}
