# Conveniences; nothing needs them.

# Every check that counts.
ci:
    bash .ci/run

test:
    cargo test --workspace

bench:
    cargo bench

fmt:
    cargo fmt --all
