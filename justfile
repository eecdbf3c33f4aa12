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

fmt:
    cargo fmt --all
