//! The suite on the host reference backend.

use polywarp_conformance::{Subject, test_main};
use polywarp_core::Result;
use polywarp_core::host::{Host, HostConfig};

struct TwoDevices;

impl Subject for TwoDevices {
    type Backend = Host;

    fn name(&self) -> &str {
        "host"
    }

    fn open(&self) -> Result<Host> {
        Ok(Host::new(&HostConfig::new(2)))
    }
}

fn main() -> std::process::ExitCode {
    test_main(TwoDevices)
}
