//! Build, test, demo and bench commands of the project.

fn main() {}
