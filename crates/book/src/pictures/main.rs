//! Draws the pictures of the book into `docs/book/pictures`.

fn main() {}
