//! The formulas. `x` and `out` are the operator's input and result, `dout` the gradient of the result, `ddx` the
//! gradient of dx in a second pass; an argument list names exactly the values that the formula reads. Results are those
//! of Paddle 2.0.2's CPU kernels, corner cases included (relu(NaN) is 0, log(1 + exp(x)) is not log1p; piecewise
//! gradients are dout times 0 or 1, so that NaN and inf propagate). Exceptions: where e^x overflows, gradients of elu
//! are those of the formula, not NaN; infinities outside a piece of softshrink and thresholded_relu are not multiplied
//! by its 0; log1p is exact near 0.

use crate::formula;

formula! {
    abs(x) => abs(x);
    abs_grad(x, dout) => dout * (select(x > 0.0, 1.0, 0.0) - select(x < 0.0, 1.0, 0.0));
    abs_grad_grad(x, ddx) => ddx * (select(x > 0.0, 1.0, 0.0) - select(x < 0.0, 1.0, 0.0));
    exp(x) => exp(x);
    exp_grad(out, dout) => dout * out;
    log(x) => log(x);
    log_grad(x, dout) => dout * (1.0 / x);
    log_grad_grad_dx(x, dout, ddx) => dout * -1.0 * ddx / (x * x);
    log_grad_grad_ddout(x, ddx) => ddx / x;
    log2(x) => log2(x);
    log2_grad(x, dout) => dout / (x * 0.6931471805599453);
    log10(x) => log10(x);
    log10_grad(x, dout) => dout / (x * 2.302585092994046);
    log1p(x) => log1p(x);
    log1p_grad(x, dout) => dout * (1.0 / (x + 1.0));
    sqrt(x) => sqrt(x);
    sqrt_grad(out, dout) => 0.5 * dout / out;
    sqrt_grad_grad_dout(out, dx, ddx) => dx * ddx * -1.0 / out;
    sqrt_grad_grad_ddout(out, ddx) => ddx * 0.5 / out;
    rsqrt(x) => 1.0 / sqrt(x);
    rsqrt_grad(out, dout) => -0.5 * dout * out * out * out;
    rsqrt_grad_grad_dout(out, dx, ddx) => 3.0 / out * dx * ddx;
    rsqrt_grad_grad_ddout(out, ddx) => -0.5 * ddx * out * out * out;
    square(x) => x * x;
    square_grad(x, dout) => dout * 2.0 * x;
    square_grad_grad_dx(dout, ddx) => ddx * 2.0 * dout;
    square_grad_grad_ddout(x, ddx) => ddx * 2.0 * x;
    reciprocal(x) => 1.0 / x;
    reciprocal_grad(out, dout) => dout * -1.0 * out * out;
    relu(x) => select(x > 0.0, x, 0.0);
    relu_grad(out, dout) => dout * select(out > 0.0, 1.0, 0.0);
    relu_grad_grad(out, ddx) => ddx * select(out > 0.0, 1.0, 0.0);
    relu6(x; threshold) low = select(x < 0.0, 0.0, x), => select(low > threshold, threshold, low);
    relu6_grad(out, dout; threshold) => dout * select(out > 0.0, select(out < threshold, 1.0, 0.0), 0.0);
    brelu(x; t_min, t_max) low = select(x < t_min, t_min, x), => select(low > t_max, t_max, low);
    brelu_grad(x, dout; t_min, t_max) => dout * select(x > t_min, select(x < t_max, 1.0, 0.0), 0.0);
    thresholded_relu(x; threshold) => select(x <= threshold, 0.0, x);
    thresholded_relu_grad(x, dout; threshold) => dout * select(x > threshold, 1.0, 0.0);
    leaky_relu(x; alpha) y = alpha * x,
        => select(alpha < 1.0, select(x < y, y, x), select(y < x, y, x));
    leaky_relu_grad(x, dout; alpha) => dout * (select(x < 0.0, alpha, 0.0) + select(x >= 0.0, 1.0, 0.0));
    leaky_relu_grad_grad(x, ddx; alpha) => ddx * (select(x > 0.0, 1.0, 0.0) + select(x <= 0.0, alpha, 0.0));
    elu(x; alpha) => select(x < 0.0, alpha * (exp(x) - 1.0), x);
    elu_grad(x, dout; alpha) => dout * select(x > 0.0, 1.0, alpha * exp(x));
    elu_grad_grad_dx(x, dout, ddx; alpha) => ddx * dout * alpha * select(x > 0.0, 0.0, exp(x));
    elu_grad_grad_ddout(x, ddx; alpha) => ddx * select(x > 0.0, 1.0, alpha * exp(x));
    selu(x; scale, alpha) => scale * select(x <= 0.0, alpha * exp(x) - alpha, x);
    selu_grad(out, dout; scale, alpha) => dout * select(out <= 0.0, out + alpha * scale, scale);
    hard_sigmoid(x; slope, offset) t = x * slope + offset, low = select(t < 0.0, 0.0, t),
        => select(low > 1.0, 1.0, low);
    hard_sigmoid_grad(out, dout; slope, offset) => dout * select(out > 0.0, select(out < 1.0, slope, 0.0), 0.0);
    sigmoid(x) => sigmoid(x);
    sigmoid_grad(out, dout) => dout * out * (1.0 - out);
    sigmoid_grad_grad_out(out, dout, ddx) => dout * ddx * (1.0 - 2.0 * out);
    /// With m = max(-x, 0) Paddle takes exp(-m) and exp(-x - m): one of them is 1, the other e.
    logsigmoid(x) m = select(-x < 0.0, 0.0, -x), e = exp((-x - m) - m), => -m - log(1.0 + e);
    logsigmoid_grad(x, dout) m = select(-x < 0.0, 0.0, -x), e = exp((-x - m) - m),
        => dout * (select(x < 0.0, 1.0, e) / (1.0 + e));
    tanh(x) => tanh(x);
    tanh_grad(out, dout) => dout * (1.0 - out * out);
    tanh_grad_grad_out(out, dout, ddx) => -2.0 * dout * ddx * out;
    stanh(x; scale_a, scale_b) => scale_b * tanh(scale_a * x);
    stanh_grad(x, dout; scale_a, scale_b) y = tanh(scale_a * x), => dout * scale_a * scale_b * (1.0 - y * y);
    tanh_shrink(x) => x - tanh(x);
    tanh_shrink_grad(x, dout) y = tanh(x), => dout * (y * y);
    hard_shrink(x; threshold) => x * select(x < -threshold, 1.0, select(x > threshold, 1.0, 0.0));
    hard_shrink_grad(x, dout; threshold) => dout * select(x < -threshold, 1.0, select(x > threshold, 1.0, 0.0));
    softshrink(x; lambda) => select(x > lambda, x - lambda, select(x < -lambda, x + lambda, 0.0 * x));
    softshrink_grad(x, dout; lambda) => dout * (select(x > lambda, 1.0, 0.0) + select(x < -lambda, 1.0, 0.0));
    softsign(x) => x / (1.0 + abs(x));
    softsign_grad(x, dout) a = 1.0 + abs(x), => dout * (1.0 / (a * a));
    soft_relu(x; threshold) low = select(x < -threshold, -threshold, x),
        => log(1.0 + exp(select(low > threshold, threshold, low)));
    soft_relu_grad(out, dout; threshold)
        => dout * (1.0 - exp(-out)) * select(out > -threshold, select(out < threshold, 1.0, 0.0), 0.0);
    gelu(x) => x * phi(x);
    gelu_grad(x, dout) => dout * (phi(x) + 0.3989422804014327 * x * exp(-0.5 * x * x));
    gelu_tanh(x) => x * 0.5 * (1.0 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    gelu_tanh_grad(x, dout) y = tanh(0.7978845608028654 * (0.044715 * x * x * x + x)),
        => 0.5 * dout * (1.0 + y + (x - x * y * y) * (0.7978845608028654 + 0.7978845608028654 * 0.044715 * 3.0 * x * x));
    softplus(x; beta, threshold) b = beta * x, => select(b > threshold, x, log(1.0 + exp(b)) / beta);
    softplus_grad(x, dout; beta, threshold) b = beta * x, => select(b > threshold, dout, dout / (1.0 + exp(-b)));
    softplus_grad_grad_dx(x, dout, ddx; beta, threshold) b = beta * x, s = 1.0 / (1.0 + exp(-b)),
        => select(b > threshold, 0.0, dout * ddx * beta * s * (1.0 - s));
    swish(x; beta) => x / (1.0 + exp(-beta * x));
    swish_grad(x, dout; beta) s = 1.0 / (1.0 + exp(-beta * x)), y = x * s,
        => dout * (beta * y + s * (1.0 - beta * y));
    /// log(1 + e^x) is replaced by x above the threshold, and by e^x below minus the threshold; 0 or less means no
    /// threshold.
    mish(x; threshold) big = select(threshold > 0.0, select(x > threshold, 1.0, 0.0), 0.0),
        small = select(threshold > 0.0, select(x < -threshold, 1.0, 0.0), 0.0),
        e = exp(x), => x * tanh(select(big > 0.0, x, select(small > 0.0, e, log1p(e))));
    mish_grad(x, dout; threshold) big = select(threshold > 0.0, select(x > threshold, 1.0, 0.0), 0.0),
        small = select(threshold > 0.0, select(x < -threshold, 1.0, 0.0), 0.0),
        e = exp(x), t = tanh(select(big > 0.0, x, select(small > 0.0, e, log1p(e)))), s = 1.0 / (1.0 + exp(-x)),
        => dout * (x * (1.0 - t * t) * s + t);
    hard_swish(x; threshold, scale, offset) a = x + offset, b = select(a < 0.0, 0.0, a),
        => select(b > threshold, threshold, b) * x / scale;
    hard_swish_grad(x, dout; threshold, scale, offset) a = x + offset, below = select(a < threshold, 1.0, 0.0),
        => dout * (select(a > 0.0, 1.0, 0.0) * (2.0 * x + offset) / scale * below + (1.0 - below));
    erf(x) => erf(x);
    erf_grad(x, dout) => dout * 1.1283791670955126 * exp(-(x * x));
    sin(x) => sin(x), beyond crate::functions::trigonometric::LIMIT => sin_far(x);
    sin_grad(x, dout) => dout * cos(x), beyond crate::functions::trigonometric::LIMIT => dout * cos_far(x);
    sin_grad_grad_dx(x, dout, ddx) => -dout * ddx * sin(x), beyond crate::functions::trigonometric::LIMIT => -dout * ddx * sin_far(x);
    cos(x) => cos(x), beyond crate::functions::trigonometric::LIMIT => cos_far(x);
    cos_grad(x, dout) => -dout * sin(x), beyond crate::functions::trigonometric::LIMIT => -dout * sin_far(x);
    cos_grad_grad_dx(x, dout, ddx) => -dout * ddx * cos(x), beyond crate::functions::trigonometric::LIMIT => -dout * ddx * cos_far(x);
    sinh(x) => sinh(x);
    sinh_grad(x, dout) => dout * cosh(x);
    cosh(x) => cosh(x);
    cosh_grad(x, dout) => dout * sinh(x);
    asin(x) => asin(x);
    asin_grad(x, dout) => dout / sqrt((1.0 - x) * (1.0 + x));
    acos(x) => acos(x);
    acos_grad(x, dout) => -dout / sqrt((1.0 - x) * (1.0 + x));
    atan(x) => atan(x);
    atan_grad(x, dout) => dout / (1.0 + x * x);
    floor(x) => floor(x);
    floor_grad(dout) => 0.0;
    ceil(x) => ceil(x);
    ceil_grad(dout) => 0.0;
    round(x) => round(x);
    round_grad(dout) => 0.0;
    sign(x) => select(x > 0.0, 1.0, 0.0) - select(x < 0.0, 1.0, 0.0);
    cube(x) => x * x * x;
    cube_grad(x, dout) => dout * 3.0 * (x * x);
    /// A general power.
    pow(x; factor) => pow(x, factor);
    pow_grad(x, dout; factor) less = select(factor > 0.0, factor - 1.0, select(factor < 0.0, factor - 1.0, 0.0)),
        => dout * factor * pow(x, less);
    scale(x; scale, bias) => scale * x + bias;
    scale_bias_first(x; scale, bias) => scale * (x + bias);
    clip(x; min, max) => select(x < min, min, select(x > max, max, x));
    clip_grad(x, dout; min, max) => select(x > min, select(x < max, dout, 0.0), 0.0);

    // Gradients of the binary operators, on operands broadcast to one shape.
    div_grad_y(y, out, dout) => -dout * out / y;
    max_grad_x(x, y, dout) => dout * select(x > y, 1.0, 0.0);
    max_grad_y(x, y, dout) => dout * select(x <= y, 1.0, 0.0);
    min_grad_x(x, y, dout) => dout * select(x < y, 1.0, 0.0);
    min_grad_y(x, y, dout) => dout * select(x >= y, 1.0, 0.0);
    /// The derivative of x^0 is 0, of 0^0 too.
    elementwise_pow_grad_x(x, y, dout) less = select(y > 0.0, y - 1.0, select(y < 0.0, y - 1.0, 0.0)),
        => dout * y * pow(x, less);
    elementwise_pow_grad_y(x, y, dout) => dout * log(x) * pow(x, y);
    // Second derivatives of x^y times d. A factor of 0 is 0 where x^(y - 2) is infinite.
    elementwise_pow_grad_xx(x, y, d) c = y * (y - 1.0),
        => select(abs(c) <= 0.0, 0.0, d * c * pow(x, y - 2.0));
    elementwise_pow_grad_xy(x, y, d) => d * pow(x, y - 1.0) * (1.0 + y * log(x));
    elementwise_pow_grad_yy(x, y, d) l = log(x), => d * l * l * pow(x, y);
}
