//! create_py_reader, create_double_buffer_reader, create_custom_reader, read: operators of Programs that read their own
//! batches. `Executor.run` takes the next batch and feeds it as `read`'s outputs, so no kernel runs here.

use oar_core::attrs;
use oar_core::base::Result;
use oar_core::op::attrs::{BlockRef, Text};
use oar_core::op::{Kernel, KernelContext, Op, OP};
use oar_core::{bail, slots};

attrs! {
    pub struct PyReaderAttrs {
        shape_concat: Vec<i32>, ranks: Vec<i32>, lod_levels: Vec<i32>, dtypes: Vec<i32>, need_check_feed: Vec<i32>,
        use_data_config: bool = true, device_index: i32 = 0, device_count: i32 = 1,
    }
    pub struct DoubleBufferAttrs { place: Text = "AUTO".into() }
    pub struct CustomAttrs { sub_block: BlockRef, source_var_names: Vec<String>, sink_var_names: Vec<String> }
    pub struct ReadAttrs { throw_eof_exp: bool = true, infer_out: bool = true, drop_last: bool = true }
}

slots! {
    mod create_py_reader { QUEUE "blocking_queue" => OUT "Out".duplicable().kernel_allocated() }
    mod create_double_buffer_reader { READER "UnderlyingReader" => OUT "Out".kernel_allocated() }
    mod read { READER "Reader" => OUT "Out".duplicable().kernel_allocated() }
}

fn fed_instead(cx: &mut KernelContext) -> Result<()> {
    bail!(Unimplemented, "operator {} must be in block 0 of a Program that Executor.run executes", cx.op.name)
}

pub static CREATE_PY_READER: Op = Op {
    name: "create_py_reader",
    inputs: create_py_reader::INS,
    outputs: create_py_reader::OUTS,
    attrs: PyReaderAttrs::FIELDS,
    cpu: Kernel::Host(fed_instead),
    ..OP
};

pub static CREATE_DOUBLE_BUFFER_READER: Op = Op {
    name: "create_double_buffer_reader",
    inputs: create_double_buffer_reader::INS,
    outputs: create_double_buffer_reader::OUTS,
    attrs: DoubleBufferAttrs::FIELDS,
    cpu: Kernel::Host(fed_instead),
    ..OP
};

/// A reader that applies a block to the batches of another reader.
pub static CREATE_CUSTOM_READER: Op = Op {
    name: "create_custom_reader",
    inputs: create_double_buffer_reader::INS,
    outputs: create_double_buffer_reader::OUTS,
    attrs: CustomAttrs::FIELDS,
    cpu: Kernel::Host(fed_instead),
    ..OP
};

pub static READ: Op = Op {
    name: "read",
    inputs: read::INS,
    outputs: read::OUTS,
    attrs: ReadAttrs::FIELDS,
    cpu: Kernel::Host(fed_instead),
    ..OP
};

pub static TABLE: &[&Op] = &[&CREATE_PY_READER, &CREATE_DOUBLE_BUFFER_READER, &CREATE_CUSTOM_READER, &READ];
