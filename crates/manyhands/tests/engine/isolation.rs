//! Committed transactions equal one serial order, judged by what each of them saw: who conflicts, who
//! commits, and what is in the file afterwards.

mod about_the_connection;
mod another_plan;
mod attached;
mod auto;
mod auto_contract;
mod auto_detours;
mod by_value;
mod cursors;
mod hermitage;
pub mod large;
mod by_detours;
mod documented;
mod older_schema;
mod overlooked;
mod overlooked_auto;
mod new_ids;
mod refused_in_transaction;
mod replay_exactly;
mod story;
mod untold;
