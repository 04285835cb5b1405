//! feed, fetch, print, assert, py_func: operators that only Programs have.

use oar_core::attrs;
use oar_core::base::{DType, Result};
use oar_core::ir::desc::OpDesc;
use oar_core::ir::names::grad_name;
use oar_core::ir::{Attr, BlockNode};
use oar_core::op::attrs::Text;
use oar_core::op::callbacks::CALL_PYTHON;
use oar_core::op::{Grad, Kernel, KernelContext, Op, SparseKernel, OP};
use oar_core::tensor::{Tensor, Value};
use oar_core::{ensure, err, slots};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;

attrs! {
    pub struct ColAttrs { col: i32 }
    pub struct PrintAttrs {
        first_n: i32, message: String, summarize: i32, print_tensor_name: bool = true, print_tensor_type: bool = true,
        print_tensor_shape: bool = true, print_tensor_layout: bool = true, print_tensor_lod: bool = true,
        print_phase: Text = "BOTH".into(), is_forward: bool = true,
    }
    pub struct AssertAttrs { summarize: i64 = -1 }
    pub struct PyFuncAttrs {
        forward_callable_id: i32 = 0, backward_callable_id: i32 = -1, backward_skip_vars: Vec<String> = vec![],
    }
}

slots! {
    // What is fed, fetched, printed or given to Python goes on as it is, whatever its kind.
    mod feed { X "X" => OUT "Out".kernel_allocated() }
    mod fetch { X "X" => OUT "Out".in_place().kernel_allocated() }
    mod print { IN "In" => OUT "Out".kernel_allocated() }
    mod assert { COND "Cond", DATA "Data".duplicable() => }
    mod py_func { X "X".duplicable() => OUT "Out".duplicable().kernel_allocated() }
}

// feed and fetch move between variables and the lists that the holders `feed` and `fetch` are.

fn column(cx: &KernelContext) -> Result<usize> {
    let col = cx.attrs::<ColAttrs>().col;
    ensure!((0..1 << 20).contains(&col), OutOfRange, "operator {}: column {col} is out of range", cx.op.name);
    Ok(col as usize)
}

pub static FEED: Op = Op {
    name: "feed",
    inputs: feed::INS,
    outputs: feed::OUTS,
    attrs: ColAttrs::FIELDS,
    sparse_kernel: SparseKernel::Same,
    cpu: Kernel::Host(|cx| {
        let col = column(cx)?;
        let name = cx.env.names("Out").first().cloned().unwrap_or_default();
        let item = match cx.values(feed::X).first() {
            Some(Value::Array(items)) => items.get(col).cloned().unwrap_or_default(),
            _ => Value::None,
        };
        ensure!(!item.is_none(), NotFound, "variable '{name}' needs to be fed, but the feed does not have it");
        cx.set(feed::OUT, item);
        Ok(())
    }),
    ..OP
};

pub static FETCH: Op = Op {
    name: "fetch",
    inputs: fetch::INS,
    outputs: fetch::OUTS,
    attrs: ColAttrs::FIELDS,
    sparse_kernel: SparseKernel::Same,
    cpu: Kernel::Host(|cx| {
        let col = column(cx)?;
        let value = cx.value(fetch::X)?.clone();
        let mut list = match std::mem::take(&mut cx.outs.slot_mut(fetch::OUT.0)[0].value) {
            Value::Array(a) => a,
            _ => Arc::default(),
        };
        let items = Arc::make_mut(&mut list);
        if items.len() <= col {
            items.resize(col + 1, Value::None);
        }
        items[col] = value;
        cx.set(fetch::OUT, Value::Array(list));
        Ok(())
    }),
    ..OP
};

// print

/// A number as a C++ stream shows it: six significant digits.
fn number(v: f64) -> String {
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

fn describe(t: &Tensor, name: &str, a: &PrintAttrs) -> String {
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

/// Counts the calls of one print operator; false beyond `first_n`.
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

// py_func

fn py_func(cx: &mut KernelContext) -> Result<()> {
    let id = cx.attrs::<PyFuncAttrs>().forward_callable_id;
    let call = CALL_PYTHON.get().ok_or_else(|| err!(Unavailable, "operator py_func: there is no Python here"))?;
    let results = call(id, cx.values(py_func::X).to_vec())?;
    let n = cx.n_outs(py_func::OUT);
    if n == 0 && results.iter().all(Value::is_none) {
        return Ok(());
    }
    ensure!(
        results.len() == n,
        InvalidArgument,
        "operator py_func: the Python function must return {n} values, got {}",
        results.len()
    );
    for (i, v) in results.into_iter().enumerate() {
        if cx.wants_nth(py_func::OUT, i) {
            ensure!(!v.is_none(), InvalidArgument, "operator py_func: output {i} must be a LoDTensor, got None");
            cx.set_nth(py_func::OUT, i, v);
        }
    }
    Ok(())
}

fn py_func_grad(fwd: &OpDesc, no_grad: &HashSet<String>, _: &[Arc<BlockNode>]) -> Result<Vec<OpDesc>> {
    let Some(&Attr::Int(back)) = fwd.attrs.get("backward_callable_id") else { return Ok(Vec::new()) };
    if back < 0 {
        return Ok(Vec::new());
    }
    let skip: HashSet<String> = match fwd.attrs.get("backward_skip_vars") {
        Some(Attr::Strings(v)) => v.iter().cloned().collect(),
        _ => HashSet::new(),
    };
    let (xs, outs) = (fwd.input("X").unwrap_or(&[]), fwd.output("Out").unwrap_or(&[]));
    let kept = xs.iter().chain(outs).filter(|n| !skip.contains(*n)).cloned();
    let mut g = OpDesc::new("py_func");
    g.set_input("X", kept.chain(outs.iter().map(|n| grad_name(n))).collect());
    let grads = xs.iter().map(|n| grad_name(n));
    let empty = || oar_core::ir::names::EMPTY.to_string();
    g.set_output("Out", grads.map(|n| if no_grad.contains(&n) { empty() } else { n }).collect());
    g.attrs.insert("forward_callable_id", Attr::Int(back));
    g.attrs.insert("backward_callable_id", Attr::Int(-1));
    Ok(vec![g])
}

pub static PY_FUNC: Op = Op {
    name: "py_func",
    inputs: py_func::INS,
    outputs: py_func::OUTS,
    attrs: PyFuncAttrs::FIELDS,
    // Shapes are what the user declared; gradients get theirs when they are computed.
    cpu: Kernel::Host(py_func),
    sparse_kernel: SparseKernel::Same,
    grad: Grad::Program(py_func_grad),
    ..OP
};

// assert: an error, with some tensors printed, where a condition does not hold.

fn assert(cx: &mut KernelContext) -> Result<()> {
    let (op, cond) = (cx.op.name, cx.input(assert::COND)?);
    ensure!(
        cond.dims() == [1] && cond.dtype() == DType::Bool,
        InvalidArgument,
        "operator {op}: Cond must be a bool of shape [1], got {cond:?}"
    );
    if cond.data::<bool>()[0] {
        return Ok(());
    }
    let summarize = cx.attrs::<AssertAttrs>().summarize.clamp(-1, i32::MAX as i64) as i32;
    let shown = PrintAttrs { summarize, ..PrintAttrs::default() };
    let names = cx.env.names("Data");
    let mut text = String::new();
    for (i, t) in cx.inputs(assert::DATA)?.iter().enumerate() {
        text += &describe(t, names.get(i).map_or("", String::as_str), &shown);
    }
    let _ = std::io::stdout().lock().write_all(text.as_bytes()).and_then(|()| std::io::stdout().flush());
    let name = cx.env.names("Cond").first().cloned().unwrap_or_default();
    oar_core::bail!(InvalidArgument, "operator {op}: the condition '{name}' must be true, but it is false")
}

pub static ASSERT: Op = Op {
    name: "assert",
    inputs: assert::INS,
    outputs: assert::OUTS,
    attrs: AssertAttrs::FIELDS,
    cpu: Kernel::Host(assert),
    ..OP
};

pub static TABLE: &[&Op] = &[&FEED, &FETCH, &PRINT, &ASSERT, &PY_FUNC];
