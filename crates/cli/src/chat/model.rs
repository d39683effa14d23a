//! `/model`: lists the models, and switches to another one.

use rethread_agent::host::Decision;

use super::Chat;
use crate::errors::Error;
use crate::out::{clean, line, short_count};

impl Chat {
    /// Lists the available models; the current one is marked.
    pub(super) fn list_models(&self) -> Result<(), Error> {
        let current = self.runner.responder.model.id();
        let models = self.handle.host().roster().known_models();
        let all = models.iter().map(|model| (model.id(), model.window));
        let mine = [(current.clone(), self.runner.responder.model.window)];
        let mine = mine.into_iter().filter(|(id, _)| !models.iter().any(|model| model.id() == *id));
        for (id, window) in mine.chain(all) {
            let mark = if id == current { "*" } else { " " };
            let price = self.cli.config.models.price(&id).map_or_else(String::new, |price| {
                format!(" · ${} in, ${} out", price.input, price.output)
            });
            line(format_args!("{mark} {:<36} {:>6}{price}", clean(&id), short_count(window)))?;
        }
        self.voice.notice(
            "`/model PROVIDER/NAME` changes the model from now on; names that are not listed work, too. \
             Windows are in tokens, prices in dollars for a million of them.",
        );
        Ok(())
    }

    /// Switches to another model, even if the agent names one.
    pub(super) fn set_model(&mut self, name: &str) -> Result<(), Error> {
        let roster = self.handle.host().roster();
        let agent = self.runner.responder.agent.name.clone();
        roster.choose_model(name)?;
        self.runner = match self.session {
            Some(id) => {
                let session = self.handle.sessions().get(id)?;
                match self.decide(&session) {
                    Decision::Ready(runner) => *runner,
                    Decision::AskFirst(changed) => self.handle.accept(&changed)?,
                    Decision::Refused(refusal) => return Err(refusal.into()),
                }
            }
            None => self.handle.runner(Some(&agent), None)?,
        };
        if let Some(id) = self.session {
            let model = &self.runner.responder.model;
            let change = rethread_core::ProfileChange {
                provider: Some(Some(model.provider.clone())),
                model: Some(Some(model.name.clone())),
                ..Default::default()
            };
            self.handle.sessions().update(id, &change.into())?;
            self.fullness = self.runner.fullness(id)?;
        }
        let id = self.runner.responder.model.id();
        self.voice.notice(format_args!("{} answers from now on.", clean(&id)));
        Ok(())
    }
}
