//! The pages in Chromium: one binary, so that it is linked once.

mod accounts;
mod answers;
mod attacks;
mod cards;
mod console;
mod deciding;
mod home;
mod newcomer;
mod nodes;
mod profiles;
mod rules;
mod sign_in;
mod site;
mod trying;
