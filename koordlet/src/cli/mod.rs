//! One file a verb.

pub mod doctor;
pub mod explain;
pub mod inspect;
pub mod restore;
pub mod run;
