//! masked_select: the elements where a mask is true.

use crate::types::Plain;

/// y = the elements of x where the mask is true, in order.
pub fn select<T: Plain>(x: &[T], mask: &[bool], y: &mut [T]) {
    let chosen = x.iter().zip(mask).filter(|(_, &m)| m);
    y.iter_mut().zip(chosen).for_each(|(y, (&x, _))| *y = x);
}

/// dx = the elements of dy where the mask is true, zeros elsewhere.
pub fn select_grad<T: Plain>(dy: &[T], mask: &[bool], dx: &mut [T]) {
    let mut from = dy.iter();
    for (d, &m) in dx.iter_mut().zip(mask) {
        *d = if m { from.next().copied().unwrap_or_default() } else { T::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masked_elements_in_order() {
        let (x, mask) = ([1, 2, 3, 4, 5], [true, false, true, true, false]);
        let (mut y, mut dx) = ([0; 3], [9; 5]);
        select(&x, &mask, &mut y);
        assert_eq!(y, [1, 3, 4]);
        select_grad(&y, &mask, &mut dx);
        assert_eq!(dx, [1, 0, 3, 4, 0]);
        select::<u8>(&[], &[], &mut []);
    }
}
