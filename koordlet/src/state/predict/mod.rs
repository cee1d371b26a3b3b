//! Prediction of use (collection.md 11): what each pod, each priority class, the node and the system used, kept as
//! histograms whose old samples fade, and what follows for the requests of prod pods.
//!
//! `histogram` holds samples, `model` is a pair of histograms, `models` all of them; `training` makes samples of the
//! series, `checkpoint` is what outlives a restart, `prod` predicts.

pub mod checkpoint;
pub mod histogram;
pub mod model;
pub mod models;
pub mod prod;
pub mod settings;
pub mod training;
