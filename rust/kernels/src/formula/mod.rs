//! Elementwise formulas as rows of one table. A row is one expression in the common subset of Rust and C: rustc
//! compiles it for f32 and f64 at every SIMD level (float16 and bfloat16 are computed in f32, tile by tile), and
//! `Row::cuda_source` renders the same text as CUDA C++. The rows are in `rows.rs`. An expression may be valid up to a
//! limit of its first input only, with a second expression (on libm functions) for inputs `beyond` it and for NaN:
//! those elements are computed again.

pub mod fused;
pub mod rows;

use crate::pool;
use crate::simd;
use crate::types::Half;
use half::{bf16, f16};

/// One formula: `inputs` vary by element, `params` are constant.
pub struct Row {
    pub name: &'static str,
    pub inputs: &'static [&'static str],
    pub params: &'static [&'static str],
    /// Intermediate names and their expressions, in order.
    pub lets: &'static [(&'static str, &'static str)],
    pub result: &'static str,
    pub f32: Kernel<f32>,
    pub f64: Kernel<f64>,
}

/// `(inputs, params, out)`; every input is at least as long as `out`.
pub type Kernel<T> = fn(&[&[T]], &[T], &mut [T]);

/// Elements per chunk of a parallel run; up to this many run inline.
pub const GRAIN: usize = 16 * 1024;
/// Elements of a tile, where results are computed in a buffer.
const TILE: usize = 1024;
/// Largest number of inputs and of parameters of a row.
const MOST: usize = 8;

#[macro_export]
macro_rules! formula {
    ($($(#[$meta:meta])* $name:ident ($($x:ident),+ $(; $($p:ident),+)?) $($v:ident = $e:expr,)* => $r:expr
        $(, beyond $limit:expr => $far:expr)?;)+) => {
        $(
            mod $name {
                #![allow(clippy::all, unused_parens)]
                $crate::formula!(@eval f32_fma ($($x),+) ($($($p),+)?) ($($v = $e),*) $r);
                $crate::formula!(@eval f32_plain ($($x),+) ($($($p),+)?) ($($v = $e),*) $r);
                $crate::formula!(@eval f64_fma ($($x),+) ($($($p),+)?) ($($v = $e),*) $r);
                $crate::formula!(@eval f64_plain ($($x),+) ($($($p),+)?) ($($v = $e),*) $r);
                $crate::formula!(@kernel float, f32, f32_fma, f32_plain, ($($x),+) ($($($p),+)?) ($($limit, $far)?));
                $crate::formula!(@kernel double, f64, f64_fma, f64_plain, ($($x),+) ($($($p),+)?) ($($limit, $far)?));
            }
            $(#[$meta])*
            #[allow(non_upper_case_globals)]
            pub static $name: $crate::formula::Row = $crate::formula::Row {
                name: stringify!($name),
                inputs: &[$(stringify!($x)),+],
                params: &[$($(stringify!($p)),+)?],
                lets: &[$((stringify!($v), stringify!($e))),*],
                result: stringify!($r),
                f32: $name::float,
                f64: $name::double,
            };
        )+
        /// Every row, in the order of the table.
        pub static TABLE: &[&$crate::formula::Row] = &[$(&$name),+];
    };
    (@eval $module:ident ($($x:ident),+) ($($p:ident),*) ($($v:ident = $e:expr),*) $r:expr) => {
        pub mod $module {
            #[allow(unused_imports)]
            use $crate::functions::$module::*;
            #[inline(always)]
            #[allow(unused_variables)] // a gradient need not read every parameter of its operator
            pub fn eval($($x: T,)+ $($p: T,)*) -> T {
                $(let $v = $e;)*
                $r
            }
        }
    };
    (@kernel $name:ident, $t:ty, $fma:ident, $plain:ident, ($($x:ident),+) ($($p:ident),*) ()) => {
        $crate::simd_fn! {
            pub fn $name(inputs: &[&[$t]], params: &[$t], out: &mut [$t]) {
                let [$($x),+] = *inputs else { panic!("a formula got {} inputs", inputs.len()) };
                let [$($p),*] = *params else { panic!("a formula got {} parameters", params.len()) };
                let n = out.len();
                $(let $x = &$x[..n];)+
                for i in 0..n {
                    out[i] = if FMA { $fma::eval($($x[i],)+ $($p,)*) } else { $plain::eval($($x[i],)+ $($p,)*) };
                }
            }
        }
    };
    (@kernel $name:ident, $t:ty, $fma:ident, $plain:ident, ($($x:ident),+) ($($p:ident),*) ($limit:expr, $far:expr)) => {
        pub fn $name(inputs: &[&[$t]], params: &[$t], out: &mut [$t]) {
            mod near {
                use super::{$fma, $plain};
                $crate::formula!(@kernel $name, $t, $fma, $plain, ($($x),+) ($($p),*) ());
            }
            mod far {
                $crate::formula!(@eval $plain ($($x),+) ($($p),*) () $far);
            }
            near::$name(inputs, params, out);
            let ([$($x),+], [$($p),*]) = (inputs, params) else { unreachable!() };
            let limit = $limit as $t;
            if !$crate::formula::$name::all_within(limit, &inputs[0][..out.len()]) {
                for (i, out) in out.iter_mut().enumerate() {
                    if inputs[0][i].abs() <= limit {
                        continue;
                    }
                    *out = far::$plain::eval($($x[i],)+ $(*$p,)*);
                }
            }
        }
    };
}

macro_rules! all_within {
    ($name:ident, $t:ty) => {
        pub mod $name {
            $crate::simd_fn! {
                /// Whether no number is above the limit, below minus it, or NaN.
                pub fn all_within(limit: $t, x: &[$t]) -> bool {
                    x.iter().fold(true, |all, x| all & (x.abs() <= limit))
                }
            }
        }
    };
}
all_within!(float, f32);
all_within!(double, f64);

/// An element type of formulas.
pub trait FormulaElement: Copy + Default + Send + Sync + 'static {
    /// Computes `out` from the inputs, of any length, on the calling thread.
    fn compute(row: &Row, inputs: &[&[Self]], params: &[f64], out: &mut [Self]);
}

impl FormulaElement for f32 {
    fn compute(row: &Row, inputs: &[&[f32]], params: &[f64], out: &mut [f32]) {
        let mut p = [0.0f32; MOST];
        p.iter_mut().zip(params).for_each(|(a, &b)| *a = b as f32);
        (row.f32)(inputs, &p[..params.len()], out)
    }
}

impl FormulaElement for f64 {
    fn compute(row: &Row, inputs: &[&[f64]], params: &[f64], out: &mut [f64]) {
        (row.f64)(inputs, params, out)
    }
}

macro_rules! element_by_f32 {
    ($($t:ty),+) => {$(
        impl FormulaElement for $t {
            fn compute(row: &Row, inputs: &[&[$t]], params: &[f64], out: &mut [$t]) {
                let mut wide = [[0.0f32; TILE]; 4];
                let mut result = [0.0f32; TILE];
                assert!(inputs.len() <= wide.len());
                for (t, part) in out.chunks_mut(TILE).enumerate() {
                    let (start, n) = (t * TILE, part.len());
                    for (w, x) in wide.iter_mut().zip(inputs) {
                        <$t as Half>::widen(&x[start..start + n], &mut w[..n]);
                    }
                    let mut views: [&[f32]; 4] = [&[]; 4];
                    views.iter_mut().zip(&wide).for_each(|(v, w)| *v = &w[..n]);
                    f32::compute(row, &views[..inputs.len()], params, &mut result[..n]);
                    <$t as Half>::narrow(&result[..n], part);
                }
            }
        }
    )+};
}

element_by_f32!(f16, bf16);

impl Row {
    /// out[i] = formula(inputs[..][i]; params), in parallel for large slices, with streaming stores if operands and
    /// result exceed the last-level cache.
    ///
    /// Panics if the number of inputs or parameters is not the row's, or a length differs from `out`'s.
    pub fn run<T: FormulaElement>(&self, inputs: &[&[T]], params: &[f64], out: &mut [T]) {
        self.check(inputs.len(), params.len());
        assert!(inputs.iter().all(|x| x.len() == out.len()), "{}: lengths differ", self.name);
        let stream = simd::streams(std::mem::size_of_val(out) * (inputs.len() + 1));
        pool::parts(out, pool::grain(out.len(), GRAIN), |start, part| {
            let views = views(inputs, start..start + part.len());
            let views = &views[..inputs.len()];
            match stream {
                false => T::compute(self, views, params, part),
                true => self.tiles(views, params, part, simd::stream),
            }
        });
    }

    /// The same with the output as one or several of the inputs, given as `None`.
    pub fn run_inplace<T: FormulaElement>(&self, inputs: &[Option<&[T]>], params: &[f64], out: &mut [T]) {
        self.check(inputs.len(), params.len());
        assert!(inputs.iter().flatten().all(|x| x.len() == out.len()), "{}: lengths differ", self.name);
        pool::parts(out, pool::grain(out.len(), GRAIN), |start, part| {
            let mut tile = [T::default(); TILE];
            let mut at = start;
            for part in part.chunks_mut(TILE) {
                let n = part.len();
                let mut views: [&[T]; MOST] = [&[]; MOST];
                views.iter_mut().zip(inputs).for_each(|(v, x)| *v = x.map_or(&*part, |x| &x[at..at + n]));
                T::compute(self, &views[..inputs.len()], params, &mut tile[..n]);
                part.copy_from_slice(&tile[..n]);
                at += n;
            }
        });
    }

    fn tiles<T: FormulaElement>(&self, inputs: &[&[T]], params: &[f64], out: &mut [T], store: impl Fn(&[T], &mut [T])) {
        let mut tile = [T::default(); simd::STREAM_TILE];
        for (t, part) in out.chunks_mut(tile.len()).enumerate() {
            let views = views(inputs, t * tile.len()..t * tile.len() + part.len());
            T::compute(self, &views[..inputs.len()], params, &mut tile[..part.len()]);
            store(&tile[..part.len()], part);
        }
        simd::stream_end();
    }

    fn check(&self, inputs: usize, params: usize) {
        assert!(inputs == self.inputs.len() && inputs <= MOST, "{} takes {} inputs", self.name, self.inputs.len());
        assert!(params == self.params.len() && params <= MOST, "{} takes {} parameters", self.name, self.params.len());
    }

    /// The row as a CUDA (or C++) device function `template <typename T> T oar_<name>(inputs..., params...)`; put
    /// `CUDA_PRELUDE` before it. Literals become `T(0.0)`.
    pub fn cuda_source(&self) -> String {
        let arguments = self.inputs.iter().chain(self.params).map(|a| format!("T {a}")).collect::<Vec<_>>().join(", ");
        let lets: String =
            self.lets.iter().map(|(v, e)| format!("    const T {v} = {};\n", typed_literals(e))).collect();
        format!(
            "template <typename T> OAR_DEVICE T oar_{}({arguments}) {{\n{lets}    return {};\n}}\n",
            self.name,
            typed_literals(self.result)
        )
    }
}

fn views<'a, T>(inputs: &[&'a [T]], range: std::ops::Range<usize>) -> [&'a [T]; MOST] {
    let mut views: [&[T]; MOST] = [&[]; MOST];
    views.iter_mut().zip(inputs).for_each(|(v, x)| *v = &x[range.clone()]);
    views
}

/// Wraps each number of an expression in `T(...)`: a C literal would otherwise be a double.
fn typed_literals(expression: &str) -> String {
    let bytes = expression.as_bytes();
    let (mut out, mut i) = (String::new(), 0);
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    while i < bytes.len() {
        let start = i;
        let starts_number = bytes[i].is_ascii_digit() && (i == 0 || !word(bytes[i - 1]));
        if !starts_number {
            out.push(bytes[i] as char);
            i += 1;
            continue;
        }
        while i < bytes.len()
            && (word(bytes[i]) || bytes[i] == b'.' || (b"+-".contains(&bytes[i]) && bytes[i - 1] == b'e'))
        {
            i += 1;
        }
        out.push_str(&format!("T({})", &expression[start..i]));
    }
    out
}

/// The functions that rendered rows call: the vocabulary of `functions` in C++. Outside CUDA define OAR_DEVICE first.
pub const CUDA_PRELUDE: &str = "\
#ifndef OAR_DEVICE
#define OAR_DEVICE __device__ __forceinline__
#endif
template <typename T> OAR_DEVICE T select(bool c, T a, T b) { return c ? a : b; }
template <typename T> OAR_DEVICE T mul_add(T a, T b, T c) { return fma(a, b, c); }
template <typename T> OAR_DEVICE T sigmoid(T x) { return T(1.0) / (T(1.0) + exp(-x)); }
template <typename T> OAR_DEVICE T phi(T x) { return T(0.5) * (T(1.0) + erf(x * T(0.7071067811865476))); }
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formula::rows::{self as rows, TABLE};
    use crate::simd::at_every_level;

    fn sample(n: usize, seed: u32) -> Vec<f32> {
        let mut s = seed.wrapping_mul(2654435761).wrapping_add(1);
        let mut next = || {
            s = s.wrapping_mul(1664525).wrapping_add(1013904223);
            (s >> 8) as f32 / 16777216.0 * 8.0 - 4.0
        };
        (0..n).map(|_| next()).collect()
    }

    #[test]
    fn f32_agrees_with_f64_at_every_level() {
        let params = [0.7, 1.3, 2.1];
        for row in TABLE {
            for n in [0, 1, 7, 33, 1030] {
                let inputs: Vec<Vec<f32>> = (0..row.inputs.len()).map(|i| sample(n, i as u32 + 1)).collect();
                let wide: Vec<Vec<f64>> = inputs.iter().map(|x| x.iter().map(|&v| v as f64).collect()).collect();
                let mut want = vec![0.0f64; n];
                let p = &params[..row.params.len()];
                let p: Vec<f64> = p.iter().map(|&v| v as f32 as f64).collect();
                let wide: Vec<&[f64]> = wide.iter().map(|v| &v[..]).collect();
                let views: Vec<&[f32]> = inputs.iter().map(|v| &v[..]).collect();
                row.run(&wide, &p, &mut want);
                at_every_level(|wanted| {
                    let mut got = vec![0.0f32; n];
                    row.run(&views, &p, &mut got);
                    for i in 0..n {
                        let (g, w) = (got[i] as f64, want[i]);
                        let close = (g - w).abs() <= 2e-5 * (1.0 + w.abs()) || (g.is_nan() && w.is_nan());
                        assert!(
                            close,
                            "{} {wanted:?} [{i}]: {g} for {w} of {:?}",
                            row.name,
                            views.iter().map(|v| v[i]).collect::<Vec<_>>()
                        );
                    }
                    let mut inplace = inputs[0].clone();
                    let mut options: Vec<Option<&[f32]>> = views.iter().map(|v| Some(*v)).collect();
                    options[0] = None;
                    row.run_inplace(&options, &p, &mut inplace);
                    assert!(inplace.iter().zip(&got).all(|(a, b)| a.to_bits() == b.to_bits()), "{} in place", row.name);
                });
            }
        }
    }

    #[test]
    fn halves_go_through_f32() {
        let x: Vec<f16> = sample(2500, 3).into_iter().map(f16::from_f32).collect();
        let mut out = vec![f16::ZERO; x.len()];
        rows::exp.run(&[&x], &[], &mut out);
        assert!(x.iter().zip(&out).all(|(x, y)| (y.to_f32() - x.to_f32().exp()).abs() <= 1e-3 * y.to_f32().max(1e-3)));
        let x: Vec<bf16> = sample(2500, 3).into_iter().map(bf16::from_f32).collect();
        let mut out = vec![bf16::ZERO; x.len()];
        rows::relu.run(&[&x], &[], &mut out);
        assert!(x.iter().zip(&out).all(|(x, y)| y.to_f32() == x.to_f32().max(0.0)));
    }

    /// Every row as C++, compiled and run against the Rust kernel: the text is the formula that rustc compiled.
    #[test]
    fn rendered_rows_agree_with_compiled_ones() {
        let dir = std::env::temp_dir().join(format!("oar-rows-{}", std::process::id()));
        let have = std::process::Command::new("g++").arg("--version").output().is_ok_and(|o| o.status.success());
        if !have {
            eprintln!("no g++: not compared");
            return;
        }
        std::fs::create_dir_all(&dir).unwrap();
        let mut source = String::from(
            "#include <cmath>\n#include <cstdio>\n#define OAR_DEVICE static\nnamespace k { using namespace std;\n",
        );
        source.push_str(CUDA_PRELUDE);
        TABLE.iter().for_each(|row| source.push_str(&row.cuda_source()));
        source.push_str("}\nint main() {\n");
        let points = [-2.5, -0.5, 0.0, 0.25, 1.5, 3.0];
        let value = |i: usize, input: usize| points[(i + input) % points.len()];
        let params = [0.7, 1.3, 2.1];
        for row in TABLE {
            for i in 0..points.len() {
                let mut arguments: Vec<String> = (0..row.inputs.len()).map(|a| format!("{:?}", value(i, a))).collect();
                arguments.extend(params[..row.params.len()].iter().map(|p| format!("{p:?}")));
                source.push_str(&format!(
                    "printf(\"%.17g\\n\", k::oar_{}<double>({}));\n",
                    row.name,
                    arguments.join(", ")
                ));
            }
        }
        source.push_str("}\n");
        let (file, program) = (dir.join("rows.cc"), dir.join("rows"));
        std::fs::write(&file, source).unwrap();
        let built = std::process::Command::new("g++").args(["-O0", "-o"]).arg(&program).arg(&file).output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let printed = std::process::Command::new(&program).output().unwrap().stdout;
        let printed = String::from_utf8(printed).unwrap();
        let mut lines = printed.lines();
        for row in TABLE {
            let inputs: Vec<Vec<f64>> =
                (0..row.inputs.len()).map(|a| (0..points.len()).map(|i| value(i, a)).collect()).collect();
            let views: Vec<&[f64]> = inputs.iter().map(|v| &v[..]).collect();
            let mut got = [0.0f64; 6];
            row.run(&views, &params[..row.params.len()], &mut got);
            for (i, g) in got.iter().enumerate() {
                let text = lines.next().unwrap();
                let want: f64 = text.trim_start_matches('-').parse::<f64>().unwrap_or(f64::NAN);
                let want = if text.starts_with('-') { -want } else { want };
                let close =
                    (g - want).abs() <= 1e-12 * (1.0 + want.abs()) || g == &want || (g.is_nan() && want.is_nan());
                assert!(close, "{} [{i}]: {g} for {text}", row.name);
            }
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn literals_are_typed_in_cuda() {
        assert_eq!(
            typed_literals("a1 * 0.5 + select(x > 1e-3, x2, 2.0)"),
            "a1 * T(0.5) + select(x > T(1e-3), x2, T(2.0))"
        );
        let source = rows::relu_grad.cuda_source();
        assert!(
            source.contains("T oar_relu_grad(T out, T dout)")
                && source.contains("select(out > T(0.0), T(1.0), T(0.0))"),
            "{source}"
        );
    }
}
