//! The integration tests: one binary, a module a concern. Each starts what it needs on free ports.

mod backpressure;
mod bad_input;
mod cluster;
mod cold;
mod defects;
mod durability;
mod hazards;
mod landing;
mod lost_replies;
mod minute;
mod model_of_database;
mod model_of_redis;
mod objects;
mod one_bad_partition;
mod probation;
mod programs;
mod redis_lost;
mod round_trips;
mod rules;
mod sdk;
mod simulator;
mod tls;
mod torture;
