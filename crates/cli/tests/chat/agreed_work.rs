//! The job of `work.rs` with a user who is asked: each possible answer once, and then all of it
//! undone.

use rethread_agent::scripted::Server;

use crate::home::Home;
use crate::permission::asks;
use crate::screens::{finished, open};
use crate::work::{ASK, FILES, changed, next, passes, repository};

#[test]
fn a_job_is_done_with_every_answer_and_taken_back() {
    let home = Home::new();
    let folder = repository(&home);
    let server = Server::start([]);
    let place = folder.clone();
    server.fallback(move |body| next(body, &place));
    let mut window = open(&home, &server, (80, 200), &[]);
    window.say(ASK);
    let readme = "Allow edit_file README.md\n+1 -1\n1 - Prints an area.\n1 + Prints an area, with its unit.\n";
    asks(&window, &[readme]);
    window.say("y");
    asks(&window, &["Allow edit_file main.sh\n+1 -1\n", "3 + label m2 "]);
    window.say("n");
    asks(&window, &["edit main.sh · ✗ you declined", "Allow edit_file lib/label.sh\n+1 -1\n"]);
    window.say("a");
    // The model tries the declined edit again, and the user is not asked again.
    let shown = asks(&window, &["edit main.sh · +1 −1", "Allow run\n  command: sh test.sh\n"]);
    assert!(shown.contains("exactly this command"), "a shell runs anything: {shown}");
    window.say("perhaps");
    asks(&window, &["Please answer one of these"]);
    window.say("e once more, please");
    window.until("the question again", |shown| {
        shown.contains("✗ you declined: once more, please")
            && shown.matches("Allow run\n").count() == 2
            && shown.ends_with("/e)")
    });
    window.say("y");
    window.until("the third", |shown| {
        shown.matches("Allow run\n").count() == 3 && shown.ends_with("/e)")
    });
    window.say("y");
    finished(&window, "The area has its unit now.");
    assert!(passes(&folder));
    let requests = server.requests();
    let told = requests.last().expect("a request").body["messages"].to_string();
    assert!(told.contains("the user declined this call: once more, please"), "{told}");

    window.say("/rewind 1");
    let shown = window.until("the question", |shown| shown.ends_with("? (y/n/c)"));
    for line in
        ["  sh test.sh\n", "  README.md  (restoring it: +1 −1)\n", "  lib/label.sh  (restoring"]
    {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    window.say("y");
    window.until("the prompt", |shown| shown.ends_with(&format!("\nYou: {ASK}")));
    for (path, text) in FILES {
        let now = std::fs::read_to_string(folder.join(path)).expect("there");
        assert_eq!(now, text, "{path}");
    }
    assert!(changed(&folder).is_empty(), "git sees no change: {:?}", changed(&folder));
}
