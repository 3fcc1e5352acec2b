//! What a node recorded in a simulation runs again to the same end, and recording changes nothing.

use atoll_sim::{Options, run};
use atoll_wire::Replay;

#[test]
fn every_recorded_life_replays() {
    let directory = std::env::temp_dir().join(format!("atoll-recordings-{}", std::process::id()));
    let mut lives = 0;
    for seed in [3, 10, 42] {
        let into = directory.join(seed.to_string());
        let options = Options { minutes: 0.5, record: Some(into.clone()), trace: false };
        let recorded = run(seed, &options);
        assert_eq!(recorded.digest, run(seed, &Options { record: None, ..options }).digest, "seed {seed}");
        for file in std::fs::read_dir(&into).unwrap() {
            let path = file.unwrap().path();
            let summary = Replay::run(&std::fs::read(&path).unwrap());
            assert!(summary.is_ok(), "{}: {summary:?}", path.display());
            lives += 1;
        }
    }
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(lives > 10, "{lives} lives");
}
