//! The run's questions and the person at the terminal: one reader of standard input, which reads only while a question
//! waits.

use std::io::{BufRead, Write};
use std::sync::mpsc;

use dirigent::core::id::EffectId;
use dirigent::{Event, EventKind, RunHandle, RunView};
use tokio::sync::mpsc as channel;

/// What came of a question.
pub(crate) enum Reply {
    Answer(String),
    /// The input is at its end: nobody can answer.
    Nobody,
}

impl Reply {
    /// Tells the run. One that has just ended no longer needs it.
    pub(crate) fn tell(self, run: &RunHandle) {
        let _ = match self {
            Reply::Answer(answer) => run.answer(answer),
            Reply::Nobody => run.leave(),
        };
    }
}

/// Asks what the run wants to know now. Questions of its past, which its events tell again, were for others.
pub(crate) struct Asker {
    /// The last entry that was there before this process carried the run out.
    past: u64,
    /// The step whose question needs nothing more: asked already, or answered on the command line.
    settled: Option<u32>,
    /// Whether the question that was there before is answered by the command line.
    answered: bool,
    prompts: mpsc::Sender<()>,
    replies: channel::UnboundedReceiver<Reply>,
}

/// What was there of a run when this process took it up.
#[derive(Clone, Copy, Default)]
pub(crate) struct Past {
    /// Its last entry; zero for a new run.
    pub(crate) last: u64,
    /// Whether its question has its answer.
    pub(crate) answered: bool,
}

impl Asker {
    pub(crate) fn new(past: Past) -> Self {
        let (prompts, wanted) = mpsc::channel();
        let (replied, replies) = channel::unbounded_channel();
        // A thread of its own, as nothing can end a read: the process does not wait for it.
        std::thread::spawn(
            move || {
                while wanted.recv().is_ok() && replied.send(read_reply()).is_ok() {}
            },
        );
        Asker {
            past: past.last,
            settled: None,
            answered: past.answered,
            prompts,
            replies,
        }
    }

    /// Whether that event is a question that the person must be asked now.
    pub(crate) fn is_new(&mut self, event: &Event, view: &RunView) -> bool {
        let EventKind::QuestionAsked { effect: asked, .. } = event.kind else {
            return false;
        };
        if self.answered && event.seq <= self.past {
            self.settled = Some(asked.step);
        }
        let waiting: Option<EffectId> = view.run().question().map(|(effect, _)| effect);
        // A run that was rebuilt asks again what the person is reading already.
        let is_new = event.seq > self.past && waiting == Some(asked) && self.settled != Some(asked.step);
        if is_new {
            self.settled = Some(asked.step);
        }
        is_new
    }

    /// Has the question answered; [`Asker::reply`] says how.
    pub(crate) fn ask(&self) {
        // The reader ends with this.
        let _ = self.prompts.send(());
    }

    /// The next reply.
    pub(crate) async fn reply(&mut self) -> Option<Reply> {
        self.replies.recv().await
    }
}

/// Reads a line with something in it.
fn read_reply() -> Reply {
    let mut line = Vec::new();
    loop {
        let mut prompt = std::io::stderr().lock();
        let shown = prompt.write_all(b"your answer: ").and_then(|()| prompt.flush());
        drop(prompt);
        line.clear();
        match shown.and_then(|()| std::io::stdin().lock().read_until(b'\n', &mut line)) {
            Ok(0) | Err(_) => {
                let _ = writeln!(std::io::stderr().lock());
                return Reply::Nobody;
            }
            Ok(_) => {
                let answer = String::from_utf8_lossy(&line).trim().to_owned();
                if !answer.is_empty() {
                    return Reply::Answer(answer);
                }
            }
        }
    }
}
