//! feed and fetch: values between variables and the lists of the holders `feed` and `fetch`.

use oar_core::attrs;
use oar_core::base::Result;
use oar_core::op::{Kernel, KernelContext, Op, SparseKernel, OP};
use oar_core::tensor::Value;
use oar_core::{ensure, slots};
use std::sync::Arc;

attrs! {
    pub struct ColAttrs { col: i32 }
}

slots! {
    // Values of any kind pass through unchanged.
    mod feed { X "X" => OUT "Out".kernel_allocated() }
    mod fetch { X "X" => OUT "Out".in_place().kernel_allocated() }
}

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

pub static TABLE: &[&Op] = &[&FEED, &FETCH];
