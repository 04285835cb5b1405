//! get_places: the devices of a program.

use oar_core::attrs;
use oar_core::base::Result;
use oar_core::op::attrs::Text;
use oar_core::op::infer::{Meta, VarKind};
use oar_core::op::{Kernel, KernelContext, Op, OP};
use oar_core::tensor::Value;
use oar_core::{ensure, slots};
use std::sync::Arc;

attrs! {
    pub struct PlacesAttrs { device_count: i32 = 0, device_type: Text = "AUTO".into() }
}

slots! {
    mod get_places { => OUT "Out".kernel_allocated() }
}

fn places(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<PlacesAttrs>();
    ensure!(
        matches!(a.device_type.as_str(), "AUTO" | "CPU"),
        Unavailable,
        "operator get_places: device_type must be CPU or AUTO where there is no CUDA, got '{}'",
        a.device_type
    );
    let wanted = usize::try_from(a.device_count).unwrap_or(0);
    let count = if wanted > 0 { wanted } else { std::thread::available_parallelism().map_or(1, |n| n.get()) };
    ensure!(count <= 1 << 16, ResourceExhausted, "operator get_places: {count} devices are too many");
    cx.set(get_places::OUT, Value::Strings(Arc::new(vec!["CPUPlace".into(); count])));
    Ok(())
}

pub static GET_PLACES: Op = Op {
    name: "get_places",
    inputs: get_places::INS,
    outputs: get_places::OUTS,
    attrs: PlacesAttrs::FIELDS,
    infer: |cx| {
        cx.set_meta(get_places::OUT, 0, Meta { kind: VarKind::Other, ..Meta::default() });
        Ok(())
    },
    cpu: Kernel::Host(places),
    ..OP
};

pub static TABLE: &[&Op] = &[&GET_PLACES];
