//! Runs an agent once: `cargo run`. In a build for models the program does nothing, because loom's
//! threads run in a model only.

#[cfg(not(eventcast_loom))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let agent = model_checked::Agent::start(eventcast::BusOptions::default())?;
    let accepted: u64 = (0..100).filter(|&job| agent.submit(job)).sum();
    println!("the jobs that were accepted make {accepted}, and the worker's sum is {}", agent.stop());
    Ok(())
}

#[cfg(eventcast_loom)]
fn main() {
    println!("cargo models runs the models, and cargo run without `--cfg eventcast_loom` runs the agent");
}
