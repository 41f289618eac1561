//! Tests of the program `hospes` as its users meet it: one binary, so that it is linked once.

mod add;
mod add_definitions;
mod add_launchers;
mod add_remote;
mod application_files;
mod applications;
mod approve;
mod auth;
mod builtins;
mod bundle;
mod callers;
mod chat;
mod completion;
mod configured;
mod connect;
mod connect_races;
mod deciders;
mod doctor;
mod doctor_applications;
mod doctor_faults;
mod doctor_report;
mod doctor_system;
mod documented;
mod gateway;
mod guard;
mod import;
mod kept;
mod keyring;
mod labelled;
mod lasting;
#[cfg(unix)]
mod live;
mod login_path;
mod logs;
mod man;
#[cfg(target_os = "linux")]
mod notifications;
mod pins;
mod policy;
mod processes;
mod profiles;
mod registry_errors;
mod reload;
mod roots;
mod sampling;
mod sandbox;
mod search;
mod secrets;
mod service;
mod sign_in;
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod support;
mod update;
mod upgrade;
mod usage;
