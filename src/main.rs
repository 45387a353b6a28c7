//! The binary: reads the command line, does what it says, and turns the outcome into an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    nuggetd::cli::main()
}
