//! Derives for polywarp.
