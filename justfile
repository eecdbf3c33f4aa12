# Conveniences; nothing needs them.

# Every check that counts.
ci:
    bash .ci/run

test:
    cargo test --workspace

bench:
    cargo bench

# What a kind costs a user at compile time, with kube-runtime beside it.
compile-cost:
    bench/compile-cost

# Counts the functions that each further kind adds; CI fails if the count grows by more than 10 %.
functions-per-kind:
    bench/functions-per-kind

fmt:
    cargo fmt --all
