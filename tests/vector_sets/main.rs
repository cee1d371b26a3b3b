//! Recorded vectors of the reference agent, set by set.

mod cgroupread;
mod classes;
mod conversions;
mod cpulist;
mod cpusuppress;
mod cputake;
mod executor;
mod parsers;
mod paths;
mod podresources;
mod rulechange;
mod set;
mod suppresstick;
mod valuecheck;
