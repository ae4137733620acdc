//! Models of the bus for loom. They compile to nothing without `--cfg eventcast_loom`: run them with `cargo loom`.
