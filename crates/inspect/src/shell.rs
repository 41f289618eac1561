//! Shell metacharacters in arguments.
