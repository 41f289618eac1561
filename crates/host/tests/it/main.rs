//! Tests of the host through its public interface: one binary, so that it is linked once.

mod accounts;
mod budget;
mod header_params;
mod health;
mod hostile;
mod module_order;
