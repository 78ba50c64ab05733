//! Finds the name that was probably meant.

/// Returns the candidate with the fewest edits from `name`, ignoring case and underscores.
pub(super) fn nearest(
    name: &str,
    candidates: impl Iterator<Item = &'static str>,
) -> Option<&'static str> {
    // The name may come from outside and be very long. No field's name is longer than this.
    let name: String = name.chars().take(64).collect();
    let wanted = plain(&name);
    candidates.min_by_key(|candidate| edits(&wanted, &plain(candidate)))
}

fn plain(name: &str) -> Vec<char> {
    name.chars()
        .filter(|c| *c != '_')
        .flat_map(char::to_lowercase)
        .collect()
}

/// Computes the Levenshtein distance, one row of the table at a time.
fn edits(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
