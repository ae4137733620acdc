//! Compiles and runs the code in the book as documentation tests, with `cargo test -p
//! eventcast-book --doc`.
//!
//! `mdbook build docs` builds the book's pages from the same files.

#[cfg(doctest)]
mod chapters {
    #[doc = include_str!("../../../docs/book/five-minutes.md")]
    mod five_minutes {}
    #[doc = include_str!("../../../docs/book/choose.md")]
    mod choose {}
    #[doc = include_str!("../../../docs/book/watching.md")]
    mod watching {}
    #[doc = include_str!("../../../docs/book/full-queues.md")]
    mod full_queues {}
    #[doc = include_str!("../../../docs/book/ending.md")]
    mod ending {}
    #[doc = include_str!("../../../docs/book/threads-and-tasks.md")]
    mod threads_and_tasks {}
    #[doc = include_str!("../../../docs/book/recording.md")]
    mod recording {}
    #[doc = include_str!("../../../docs/book/stores.md")]
    mod stores {}
    #[doc = include_str!("../../../docs/book/machines.md")]
    mod machines {}
    #[doc = include_str!("../../../docs/book/running.md")]
    mod running {}
    #[doc = include_str!("../../../docs/book/recipes.md")]
    mod recipes {}
    #[doc = include_str!("../../../docs/book/how-it-works.md")]
    mod how_it_works {}
    #[doc = include_str!("../../../docs/book/proof.md")]
    mod proof {}
}

#[cfg(doctest)]
mod coming_from {
    #[doc = include_str!("../../../docs/from-tokio-broadcast.md")]
    mod tokio_broadcast {}
    #[doc = include_str!("../../../docs/from-crossbeam.md")]
    mod crossbeam {}
    #[doc = include_str!("../../../docs/from-async-broadcast.md")]
    mod async_broadcast {}
    #[doc = include_str!("../../../docs/from-kube-rs.md")]
    mod kube_rs {}
}
