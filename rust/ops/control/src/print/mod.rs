//! print: writes a tensor to standard output.

pub mod assert;

use oar_core::attrs;
use oar_core::base::{DType, Result};
use oar_core::ir::desc::OpDesc;
use oar_core::ir::names::grad_name;
use oar_core::ir::{Attr, BlockNode};
use oar_core::op::attrs::Text;
use oar_core::op::{Grad, Kernel, KernelContext, Op, SparseKernel, OP};
use oar_core::slots;
use oar_core::tensor::{Tensor, Value};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;

attrs! {
    pub struct PrintAttrs {
        first_n: i32, message: String, summarize: i32, print_tensor_name: bool = true, print_tensor_type: bool = true,
        print_tensor_shape: bool = true, print_tensor_layout: bool = true, print_tensor_lod: bool = true,
        print_phase: Text = "BOTH".into(), is_forward: bool = true,
    }
}

slots! {
    mod print { IN "In" => OUT "Out".kernel_allocated() }
}

/// Formats a number as a C++ stream does: six significant digits.
pub(crate) fn number(v: f64) -> String {
    if v == 0.0 || !v.is_finite() {
        return match v {
            v if v.is_nan() => "nan".into(),
            v if v == f64::INFINITY => "inf".into(),
            v if v == f64::NEG_INFINITY => "-inf".into(),
            v if v.is_sign_negative() => "-0".into(),
            _ => "0".into(),
        };
    }
    let exponent = format!("{v:.5e}").split_once('e').and_then(|(_, e)| e.parse::<i32>().ok()).unwrap_or(0);
    if (-4..6).contains(&exponent) {
        let text = format!("{v:.*}", (5 - exponent).max(0) as usize);
        return if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text };
    }
    let text = format!("{v:.5e}");
    let (mantissa, _) = text.split_once('e').unwrap_or((&text, ""));
    let mantissa = if mantissa.contains('.') { mantissa.trim_end_matches('0').trim_end_matches('.') } else { mantissa };
    format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

pub(crate) fn describe(t: &Tensor, name: &str, a: &PrintAttrs) -> String {
    let mut s = String::new();
    if a.print_tensor_name && !name.is_empty() {
        let _ = writeln!(s, "Variable: {name}");
    }
    if !a.message.is_empty() {
        let _ = writeln!(s, "  - message: {}", a.message);
    }
    if a.print_tensor_lod {
        let level = |l: &Vec<usize>| format!("{{{}}}", l.iter().map(usize::to_string).collect::<Vec<_>>().join(", "));
        let lod: String = t.lod.iter().flat_map(|l| l.iter()).map(level).collect();
        let _ = writeln!(s, "  - lod: {{{lod}}}");
    }
    let _ = writeln!(s, "  - place: CPUPlace");
    if a.print_tensor_shape {
        let dims: Vec<String> = t.dims().iter().map(i64::to_string).collect();
        let _ = writeln!(s, "  - shape: [{}]", dims.join(", "));
    }
    if a.print_tensor_layout {
        let _ = writeln!(s, "  - layout: NCHW");
    }
    if a.print_tensor_type {
        let dtype = match t.dtype() {
            DType::F32 => "float",
            DType::F64 => "double",
            DType::I32 => "int",
            DType::I64 => "long",
            other => other.name(),
        };
        let _ = writeln!(s, "  - dtype: {dtype}");
    }
    let n = if a.summarize < 0 { t.numel() } else { t.numel().min(a.summarize as usize) };
    let part = t.view(0, &[n as i64]);
    let data: Vec<String> = match t.dtype() {
        d if d.is_float() => part.to_f64s().into_iter().map(number).collect(),
        d if d.is_complex() => {
            let text = |v: num_complex::Complex<f64>| format!("({},{})", number(v.re), number(v.im));
            part.to_complexes().into_iter().map(text).collect()
        }
        DType::U8 | DType::I8 => part.to_f64s().into_iter().map(|v| (v as i64).to_string()).collect(),
        _ => part.to_i64s().unwrap_or_default().iter().map(i64::to_string).collect(),
    };
    let _ = writeln!(s, "  - data: [{}]", data.join(" "));
    s
}

fn print(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<PrintAttrs>();
    let value = cx.value(print::IN)?.clone();
    let phase = a.print_phase.to_uppercase();
    let now = if a.is_forward { phase != "BACKWARD" } else { phase != "FORWARD" };
    let name = cx.env.names("In").first().cloned().unwrap_or_default();
    if now && times_printed(a, &name) {
        if let Value::Dense(t) = &value {
            let name = if a.is_forward { name } else { grad_name(&name) };
            let text = describe(t, &name, a);
            let _ = std::io::stdout().lock().write_all(text.as_bytes()).and_then(|()| std::io::stdout().flush());
        }
    }
    cx.set(print::OUT, value);
    Ok(())
}

/// Counts the calls of one print operator; returns false beyond `first_n`.
fn times_printed(a: &PrintAttrs, name: &str) -> bool {
    static TIMES: Mutex<Option<HashMap<(String, String, bool), i32>>> = Mutex::new(None);
    if a.first_n <= 0 {
        return true;
    }
    let mut times = TIMES.lock();
    let n = times.get_or_insert_default().entry((name.to_string(), a.message.clone(), a.is_forward)).or_default();
    *n += 1;
    *n <= a.first_n
}

fn print_grad(fwd: &OpDesc, _: &HashSet<String>, _: &[Arc<BlockNode>]) -> Result<Vec<OpDesc>> {
    let mut g = OpDesc::new("print");
    g.set_input("In", fwd.output("Out").unwrap_or(&[]).iter().map(|n| grad_name(n)).collect());
    g.set_output("Out", fwd.input("In").unwrap_or(&[]).iter().map(|n| grad_name(n)).collect());
    for (name, value) in fwd.attrs.iter().filter(|(n, _)| PRINT.attrs.field(n).is_some()) {
        g.attrs.insert(name, value.clone());
    }
    g.attrs.insert("is_forward", Attr::Boolean(false));
    Ok(vec![g])
}

pub static PRINT: Op = Op {
    name: "print",
    inputs: print::INS,
    outputs: print::OUTS,
    attrs: PrintAttrs::FIELDS,
    infer: |cx| {
        let m = cx.meta(print::IN, 0)?;
        cx.set_meta(print::OUT, 0, m);
        Ok(())
    },
    cpu: Kernel::Host(print),
    sparse_kernel: SparseKernel::Same,
    grad: Grad::Program(print_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&PRINT];
