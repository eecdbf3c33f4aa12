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

# How many functions the compiler makes for each further kind; CI keeps them from becoming more.
functions-per-kind:
    bench/functions-per-kind

fmt:
    cargo fmt --all
