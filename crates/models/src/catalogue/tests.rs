//! What is checked without a provider.
