//! A configuration before it is checked: a tree of keys, which layers are laid over one another in.

/// A section of keys, or a value.
pub(super) type Tree = serde_json::Value;

/// Lays a tree over another one.
pub(super) fn merge(base: &mut Tree, over: Tree) {
    match (base, over) {
        (Tree::Object(base), Tree::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Tree::Null), value);
            }
        }
        // A section whose keys are all commented out changes nothing.
        (Tree::Object(_), Tree::Null) => {}
        (base, over) => *base = over,
    }
}

/// Lays a value over a tree, at a dotted path.
pub(super) fn set(base: &mut Tree, key: &str, value: Tree) {
    let nested = key.rsplit('.').fold(value, |value, segment| {
        Tree::Object([(segment.to_owned(), value)].into_iter().collect())
    });
    merge(base, nested);
}
