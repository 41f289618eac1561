//! The pages in Chromium: one binary, so that it is linked once.

mod accessibility;
mod accounts;
mod adding;
mod answers;
mod attacks;
mod back_channel;
mod card_content;
mod cards;
mod checking;
mod console;
mod deciding;
mod editing;
mod home;
mod newcomer;
mod nodes;
mod onboarding;
mod profiles;
mod rules;
mod sign_in;
mod site;
mod team;
mod trying;
