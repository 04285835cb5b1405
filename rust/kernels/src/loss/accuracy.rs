//! Accuracy: rows of candidate classes that contain their label.

/// The number of rows of `width` candidates that contain their label, or the first row with a negative label.
pub fn hits(candidates: &[i64], width: usize, labels: &[i64]) -> Result<i32, usize> {
    match labels.iter().position(|&label| label < 0) {
        Some(row) => Err(row),
        None => {
            let rows = labels.iter().enumerate();
            Ok(rows.filter(|(i, label)| candidates[i * width..(i + 1) * width].contains(label)).count() as i32)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::hits;

    #[test]
    fn rows_that_contain_their_label_count() {
        assert_eq!(hits(&[1, 2, 3, 4, 5, 6], 2, &[2, 1, 5]), Ok(2));
        assert_eq!(hits(&[1, 2], 1, &[1, -1]), Err(1));
        assert_eq!(hits(&[], 3, &[]), Ok(0));
    }
}
