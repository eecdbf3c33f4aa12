# Shortcuts for the commands in CONTRIBUTING.md.

# Runs all checks of CI.
ci:
    bash .ci/run

# Runs all tests.
test:
    cargo test --workspace

# Runs all benchmarks.
bench:
    cargo bench

# Compares CPU time and memory with kube-runtime and client-go; `just compare --million` follows a million pods, too.
compare *arguments:
    bench/compare {{arguments}}

# Measures the compile-time cost of each kind, for informant and kube-runtime.
compile-cost:
    bench/compile-cost

# Counts the functions that each further kind adds; CI fails if the count grows by more than 10 %.
functions-per-kind:
    bench/functions-per-kind

# Counts the instructions and bytes that an object and an event cost; CI fails if one grows by more than 5 %.
gate:
    bench/gate

# Formats all code.
fmt:
    cargo fmt --all

# Runs informant against a real kube-apiserver and etcd, with faults; `just conformance --quick` runs the part of CI.
conformance *arguments:
    conformance/run {{arguments}}

# Builds the libraries with the oldest versions of their direct dependencies that the manifests allow.
minimal-versions:
    .ci/minimal-versions

# Compares the public API of the libraries with their last release on crates.io, and names the version that the changes need.
semver:
    command -v cargo-semver-checks >/dev/null || cargo install --locked cargo-semver-checks
    cargo semver-checks --package informant --package informant-apiserver
