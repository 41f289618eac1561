//! Recorded connections, for the doctor.

use std::path::Path;

use hospes_host::config::applications::{Application, ApplicationFile};

use super::journal::{ConnectionJournal, ConnectionRecord};

/// Record that an application was connected.
pub(crate) struct RecordedConnection(ConnectionRecord);

impl RecordedConnection {
    /// Returns the path of the file with the entry, if the record is about this application and scope. The user's file may
    /// have been found elsewhere since.
    pub(crate) fn path_of(&self, file: &ApplicationFile) -> Option<&Path> {
        self.0.is_of(file).then_some(self.0.file.as_path())
    }

    /// Returns true if the entry of an application was written to this file.
    pub(crate) fn is_at(&self, application: &Application, path: &Path) -> bool {
        self.0.application == application.id && self.0.file == path
    }

    /// Returns the options with which the application was connected, each after a space.
    pub(crate) fn options(&self) -> String {
        let http = if self.0.endpoint.is_some() { " --http" } else { "" };
        let profile = self.0.profile.as_ref().map(|profile| format!(" --profile {profile}"));
        format!("{http}{}", profile.unwrap_or_default())
    }
}

/// Returns all recorded connections that can be read. `hospes connect` names the others.
pub(crate) fn recorded_connections() -> Vec<RecordedConnection> {
    let journal = ConnectionJournal::read().unwrap_or_default();
    journal.into_records().into_iter().map(RecordedConnection).collect()
}
