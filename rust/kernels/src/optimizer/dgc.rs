//! Deep gradient compression (Lin et al., 2018): the largest elements of the accumulated gradient are sent; the rest is
//! accumulated with momentum correction.

/// The regularization that is added to a gradient.
#[derive(Clone, Copy)]
pub enum Decay {
    None,
    L1(f32),
    L2(f32),
}

/// grad = scale * grad + the derivative of the regularization.
pub fn scale_and_decay(grad: &mut [f32], param: &[f32], scale: f32, decay: Decay) {
    for (g, &p) in grad.iter_mut().zip(param) {
        let decay = match decay {
            Decay::None => 0.0,
            Decay::L1(_) if p == 0.0 => 0.0,
            Decay::L1(coeff) => coeff * p.signum(),
            Decay::L2(coeff) => coeff * p,
        };
        *g = scale * *g + decay;
    }
}

/// Accumulates the gradient: u with momentum, v the sum of u (with `nesterov` of u + g).
pub fn accumulate(u: &mut [f32], v: &mut [f32], grad: &[f32], momentum: f32, nesterov: bool) {
    for ((u, v), &g) in u.iter_mut().zip(v.iter_mut()).zip(grad) {
        if nesterov {
            *u = momentum * (*u + g);
            *v += *u + g;
        } else {
            *u = momentum * *u + g;
            *v += *u;
        }
    }
}

/// Indices of the `k` elements of largest magnitude, ascending. Ties are won by lower indices.
fn largest(v: &[f32], k: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..v.len()).collect();
    if k < places.len() {
        places.select_nth_unstable_by(k, |&a, &b| v[b].abs().total_cmp(&v[a].abs()).then(a.cmp(&b)));
        places.truncate(k);
    }
    places.sort_unstable();
    places
}

/// Takes the `k` largest elements of v: returns their indices, as integer bits, then their values; u and v are 0 there.
pub fn encode(u: &mut [f32], v: &mut [f32], k: usize) -> Vec<f32> {
    let places = largest(v, k);
    let mut encoded: Vec<f32> = places.iter().map(|&at| f32::from_bits(at as u32)).collect();
    encoded.extend(places.iter().map(|&at| v[at]));
    for at in places {
        (u[at], v[at]) = (0.0, 0.0);
    }
    encoded
}

/// sum = the encodings of `size` numbers added in their order, zeros elsewhere. The error is an index beyond the sum.
pub fn decode(encodings: &[f32], size: usize, sum: &mut [f32]) -> Result<(), usize> {
    sum.fill(0.0);
    for one in encodings.chunks_exact(size.max(1)) {
        let (places, values) = one.split_at(size / 2);
        for (at, value) in places.iter().zip(values) {
            let at = at.to_bits() as usize;
            if at >= sum.len() {
                return Err(at);
            }
            sum[at] += value;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_elements_are_sent() {
        let (mut u, mut v) = (vec![0.5f32; 6], vec![1.0, -3.0, 2.0, 3.0, 0.0, -2.0]);
        let encoded = encode(&mut u, &mut v, 3);
        // Of equal magnitudes the lower index.
        assert_eq!(u, [0.5, 0.0, 0.0, 0.0, 0.5, 0.5]);
        assert_eq!(v, [1.0, 0.0, 0.0, 0.0, 0.0, -2.0]);
        let both = [encoded.clone(), encoded].concat();
        let mut sum = vec![9.0; 6];
        decode(&both, 6, &mut sum).unwrap();
        assert_eq!(sum, [0.0, -6.0, 4.0, 6.0, 0.0, 0.0]);
        assert_eq!(decode(&both, 6, &mut sum[..3]), Err(3));
        assert_eq!(encode(&mut [], &mut [], 2), [0.0f32; 0]);
    }

    #[test]
    fn gradients_are_scaled_and_accumulated() {
        let param = [0.0, 2.0, -4.0];
        for (decay, want) in
            [(Decay::None, [2.0, 2.0, 2.0]), (Decay::L1(0.5), [2.0, 2.5, 1.5]), (Decay::L2(0.5), [2.0, 3.0, 0.0])]
        {
            let mut grad = [1.0; 3];
            scale_and_decay(&mut grad, &param, 2.0, decay);
            assert_eq!(grad, want);
        }
        let (mut u, mut v) = ([1.0], [2.0]);
        accumulate(&mut u, &mut v, &[4.0], 0.5, false);
        assert_eq!((u, v), ([4.5], [6.5]));
        accumulate(&mut u, &mut v, &[0.5], 0.5, true);
        assert_eq!((u, v), ([2.5], [9.5]));
    }
}
