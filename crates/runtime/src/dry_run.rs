//! A dry run: copies of an unowned run's state machines handle the run's pending messages as they would after a resume, but no effect is
//! executed.

use std::collections::{BTreeMap, VecDeque};

use dirigent_core::id::{RunId, Scope};
use dirigent_core::machine::Refusal;
use dirigent_core::route::{Delivery, Resumption, Route};
use dirigent_core::run::RunInput;
use dirigent_core::run_tree::{RunTree, TreeEffect};
use dirigent_core::steering::Steering;
use dirigent_core::time::Timestamp;

use crate::error::RuntimeError;
use crate::replayed_run::ReplayedRun;

/// Copies of a run's machines, in the state that they would have after a resume.
pub(crate) struct DryRun {
    run: RunId,
    now: Timestamp,
    resumption: Resumption,
    machines: RunTree,
}

impl DryRun {
    /// Resumes a copy of the run at `now`.
    ///
    /// # Errors
    /// [`RuntimeError::Ended`] if the run has ended. The error of [`RuntimeError::rejected_by_run`] if the run's machine refuses to be
    /// resumed.
    pub(crate) fn new(run: RunId, replayed: ReplayedRun, now: Timestamp) -> Result<Self, RuntimeError> {
        let ReplayedRun { view, inherited } = replayed;
        if view.run().phase().is_terminal() {
            return Err(RuntimeError::Ended { run });
        }
        let (last_seen, forked) = (view.last_at(), inherited.contains(&Scope::Run));
        let mut dry_run = DryRun {
            run,
            now,
            resumption: Resumption { last_seen, inherited },
            machines: view.into_machines(),
        };
        let resumed = dry_run.deliver(Delivery::Run(RunInput::Resumed {
            last_seen,
            forked,
            limits: None,
            interrupted: BTreeMap::new(),
        }));
        resumed.map_err(|refusal| RuntimeError::rejected_by_run(run, refusal, None))?;
        Ok(dry_run)
    }

    /// Handles a message as the run would. Fails if the run would reject the message.
    ///
    /// # Errors
    /// The errors of [`crate::RunHandle::steer`].
    pub(crate) fn handle(&mut self, steering: Steering) -> Result<(), RuntimeError> {
        let (run, machine) = (self.run, self.machines.run());
        if machine.end().is_some() {
            let reason = "an earlier pending message ends the run".to_owned();
            return Err(RuntimeError::MessageRejected { run, reason });
        }
        let delivery = steering.route(machine);
        let delivery = delivery.map_err(|error| RuntimeError::steering(run, error))?;
        let undeliverable = match &delivery {
            Delivery::Run(_) => None,
            Delivery::Agent(agent, input) => {
                let error = RuntimeError::steering(run, input.undeliverable(*agent));
                if machine.effect_of(*agent).is_none() {
                    return Err(error);
                }
                Some(error)
            }
        };
        self.deliver(delivery).map_err(|refusal| match undeliverable {
            Some(error) => error.or_refusal(run, refusal),
            None => RuntimeError::rejected_by_run(run, refusal, self.machines.run().end()),
        })
    }

    /// Handles an input, and all inputs that it causes in other machines.
    fn deliver(&mut self, delivery: Delivery) -> Result<(), Refusal> {
        let routes = self.machines.handle(self.now, delivery, &self.resumption)?;
        let mut queue = VecDeque::from(routes);
        while let Some(route) = queue.pop_front() {
            if let Route::<TreeEffect>::Deliver(delivery) = route {
                // An input that another machine caused is dropped if it is refused, as in a real run.
                let caused = self.machines.handle(self.now, delivery, &self.resumption);
                queue.extend(caused.unwrap_or_default());
            }
        }
        Ok(())
    }
}
