//! Tests on the real kernel of this machine.
