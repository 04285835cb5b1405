//! The messages of framework.proto as plain values. An `Option` is an optional field; `unknown` keeps the fields of
//! newer versions for writing.

use super::attr::AttrMap;
use crate::base::{DType, Result};
use crate::{bail, err};

/// VarType.Type: the kind of a variable, and the element types. A number, not an enum: files may hold newer ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VarKind(pub i32);

impl VarKind {
    pub const BOOL: VarKind = VarKind(0);
    pub const INT16: VarKind = VarKind(1);
    pub const INT32: VarKind = VarKind(2);
    pub const INT64: VarKind = VarKind(3);
    pub const FP16: VarKind = VarKind(4);
    pub const FP32: VarKind = VarKind(5);
    pub const FP64: VarKind = VarKind(6);
    pub const LOD_TENSOR: VarKind = VarKind(7);
    pub const SELECTED_ROWS: VarKind = VarKind(8);
    pub const FEED_MINIBATCH: VarKind = VarKind(9);
    pub const FETCH_LIST: VarKind = VarKind(10);
    pub const STEP_SCOPES: VarKind = VarKind(11);
    pub const LOD_RANK_TABLE: VarKind = VarKind(12);
    pub const LOD_TENSOR_ARRAY: VarKind = VarKind(13);
    pub const PLACE_LIST: VarKind = VarKind(14);
    pub const READER: VarKind = VarKind(15);
    pub const RAW: VarKind = VarKind(17);
    pub const TUPLE: VarKind = VarKind(18);
    pub const SIZE_T: VarKind = VarKind(19);
    pub const UINT8: VarKind = VarKind(20);
    pub const INT8: VarKind = VarKind(21);
    pub const BF16: VarKind = VarKind(22);
    pub const COMPLEX64: VarKind = VarKind(23);
    pub const COMPLEX128: VarKind = VarKind(24);

    /// Numbers and names, in the order of framework.proto.
    pub const NAMES: [(VarKind, &'static str); 24] = [
        (VarKind::BOOL, "BOOL"),
        (VarKind::INT16, "INT16"),
        (VarKind::INT32, "INT32"),
        (VarKind::INT64, "INT64"),
        (VarKind::FP16, "FP16"),
        (VarKind::FP32, "FP32"),
        (VarKind::FP64, "FP64"),
        (VarKind::SIZE_T, "SIZE_T"),
        (VarKind::UINT8, "UINT8"),
        (VarKind::INT8, "INT8"),
        (VarKind::BF16, "BF16"),
        (VarKind::COMPLEX64, "COMPLEX64"),
        (VarKind::COMPLEX128, "COMPLEX128"),
        (VarKind::LOD_TENSOR, "LOD_TENSOR"),
        (VarKind::SELECTED_ROWS, "SELECTED_ROWS"),
        (VarKind::FEED_MINIBATCH, "FEED_MINIBATCH"),
        (VarKind::FETCH_LIST, "FETCH_LIST"),
        (VarKind::STEP_SCOPES, "STEP_SCOPES"),
        (VarKind::LOD_RANK_TABLE, "LOD_RANK_TABLE"),
        (VarKind::LOD_TENSOR_ARRAY, "LOD_TENSOR_ARRAY"),
        (VarKind::PLACE_LIST, "PLACE_LIST"),
        (VarKind::READER, "READER"),
        (VarKind::RAW, "RAW"),
        (VarKind::TUPLE, "TUPLE"),
    ];

    /// The name in framework.proto, None for the number of a newer version.
    pub fn name(self) -> Option<&'static str> {
        VarKind::NAMES.iter().find(|(kind, _)| *kind == self).map(|(_, name)| *name)
    }

    /// The element type with this number.
    pub fn dtype(self) -> Option<DType> {
        DType::from_proto(self.0)
    }
}

impl From<DType> for VarKind {
    fn from(dtype: DType) -> VarKind {
        VarKind(dtype.proto())
    }
}

impl std::fmt::Display for VarKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "VarType({})", self.0),
        }
    }
}

/// VarType.TensorDesc.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TensorDesc {
    pub data_type: Option<VarKind>,
    /// -1 is a size that is unknown before the run.
    pub dims: Vec<i64>,
    pub unknown: Vec<u8>,
}

/// VarType.LoDTensorDesc and VarType.LoDTensorArrayDesc.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LodTensorDesc {
    pub tensor: Option<TensorDesc>,
    pub lod_level: Option<i32>,
    pub unknown: Vec<u8>,
}

/// VarType.ReaderDesc.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReaderDesc {
    pub lod_tensors: Vec<LodTensorDesc>,
    pub unknown: Vec<u8>,
}

/// VarType.Tuple.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TupleDesc {
    pub element_types: Vec<VarKind>,
    pub unknown: Vec<u8>,
}

/// VarType.
#[derive(Clone, Debug, PartialEq)]
pub struct VarType {
    pub kind: VarKind,
    pub selected_rows: Option<TensorDesc>,
    pub lod_tensor: Option<LodTensorDesc>,
    pub tensor_array: Option<LodTensorDesc>,
    pub reader: Option<ReaderDesc>,
    pub tuple: Option<TupleDesc>,
    pub unknown: Vec<u8>,
}

impl VarType {
    pub fn new(kind: VarKind) -> VarType {
        VarType {
            kind,
            selected_rows: None,
            lod_tensor: None,
            tensor_array: None,
            reader: None,
            tuple: None,
            unknown: Vec::new(),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct VarDesc {
    pub name: String,
    pub var_type: VarType,
    pub persistable: Option<bool>,
    pub need_check_feed: Option<bool>,
    pub unknown: Vec<u8>,
}

static NO_TENSOR: TensorDesc = TensorDesc { data_type: None, dims: Vec::new(), unknown: Vec::new() };

impl VarDesc {
    /// A LoDTensor variable without a shape, as Paddle makes them.
    pub fn new(name: impl Into<String>) -> VarDesc {
        VarDesc {
            name: name.into(),
            var_type: VarType::new(VarKind::LOD_TENSOR),
            persistable: None,
            need_check_feed: None,
            unknown: Vec::new(),
        }
    }

    fn unsupported<T>(&self, what: &str) -> Result<T> {
        bail!(
            Unavailable,
            "a variable of type {} has no {what}, but it was asked of variable `{}`",
            self.var_type.kind,
            self.name
        )
    }

    /// Shape and element type; the empty description if they are not set.
    pub fn tensor(&self) -> Result<&TensorDesc> {
        let t = &self.var_type;
        let lod = match t.kind {
            VarKind::SELECTED_ROWS => return Ok(t.selected_rows.as_ref().unwrap_or(&NO_TENSOR)),
            VarKind::LOD_TENSOR => &t.lod_tensor,
            VarKind::LOD_TENSOR_ARRAY => &t.tensor_array,
            _ => return self.unsupported("shape or element type"),
        };
        Ok(lod.as_ref().and_then(|l| l.tensor.as_ref()).unwrap_or(&NO_TENSOR))
    }

    fn tensor_mut(&mut self) -> Result<&mut TensorDesc> {
        let lod = match self.var_type.kind {
            VarKind::SELECTED_ROWS => return Ok(self.var_type.selected_rows.get_or_insert_default()),
            VarKind::LOD_TENSOR => &mut self.var_type.lod_tensor,
            VarKind::LOD_TENSOR_ARRAY => &mut self.var_type.tensor_array,
            _ => return self.unsupported("shape or element type"),
        };
        Ok(lod.get_or_insert_default().tensor.get_or_insert_default())
    }

    pub fn shape(&self) -> Result<&[i64]> {
        Ok(&self.tensor()?.dims)
    }

    /// The setters return whether they changed anything.
    pub fn set_shape(&mut self, dims: &[i64]) -> Result<bool> {
        let tensor = self.tensor_mut()?;
        let changed = tensor.dims != dims;
        if changed {
            tensor.dims = dims.to_vec();
        }
        Ok(changed)
    }

    /// The element type's number; BOOL, the first, if none is set.
    pub fn data_type(&self) -> Result<VarKind> {
        Ok(self.tensor()?.data_type.unwrap_or(VarKind::BOOL))
    }

    pub fn set_data_type(&mut self, kind: VarKind) -> Result<bool> {
        Ok(self.tensor_mut()?.data_type.replace(kind) != Some(kind))
    }

    /// The element type; an error if tensors cannot have it.
    pub fn dtype(&self) -> Result<DType> {
        let kind = self.data_type()?;
        kind.dtype().ok_or_else(|| err!(Unimplemented, "variable `{}` has the element type {kind}", self.name))
    }

    fn lod_mut(&mut self) -> Result<&mut LodTensorDesc> {
        match self.var_type.kind {
            VarKind::LOD_TENSOR => Ok(self.var_type.lod_tensor.get_or_insert_default()),
            VarKind::LOD_TENSOR_ARRAY => Ok(self.var_type.tensor_array.get_or_insert_default()),
            _ => self.unsupported("lod_level"),
        }
    }

    /// The parts of a tensor's description that were set; the others have their defaults.
    pub fn set_parts(&self) -> Vec<&'static str> {
        let t = &self.var_type;
        let (tensor, lod) = match t.kind {
            VarKind::SELECTED_ROWS => (t.selected_rows.as_ref(), None),
            VarKind::LOD_TENSOR => (t.lod_tensor.as_ref().and_then(|l| l.tensor.as_ref()), t.lod_tensor.as_ref()),
            VarKind::LOD_TENSOR_ARRAY => {
                (t.tensor_array.as_ref().and_then(|l| l.tensor.as_ref()), t.tensor_array.as_ref())
            }
            _ => (None, None),
        };
        let parts = [
            ("tensor", tensor.is_some()),
            ("data_type", tensor.is_some_and(|t| t.data_type.is_some())),
            ("lod_level", lod.is_some_and(|l| l.lod_level.is_some())),
        ];
        parts.iter().filter(|(_, set)| *set).map(|(name, _)| *name).collect()
    }

    pub fn lod_level(&self) -> Result<i32> {
        let lod = match self.var_type.kind {
            VarKind::LOD_TENSOR => &self.var_type.lod_tensor,
            VarKind::LOD_TENSOR_ARRAY => &self.var_type.tensor_array,
            _ => return self.unsupported("lod_level"),
        };
        Ok(lod.as_ref().and_then(|l| l.lod_level).unwrap_or(0))
    }

    pub fn set_lod_level(&mut self, level: i32) -> Result<bool> {
        Ok(self.lod_mut()?.lod_level.replace(level) != Some(level))
    }

    /// The outputs of a READER variable, one description each.
    pub fn reader(&self) -> Result<&[LodTensorDesc]> {
        if self.var_type.kind != VarKind::READER {
            return self.unsupported("list of tensors");
        }
        Ok(self.var_type.reader.as_ref().map_or(&[], |r| &r.lod_tensors))
    }

    /// The same for writing; a list of another length than `n` is reset, as in Paddle.
    pub fn reader_mut(&mut self, n: usize) -> Result<&mut [LodTensorDesc]> {
        if self.var_type.kind != VarKind::READER {
            return self.unsupported("list of tensors");
        }
        let reader = self.var_type.reader.get_or_insert_default();
        if reader.lod_tensors.len() != n {
            reader.lod_tensors = vec![LodTensorDesc::default(); n];
        }
        Ok(&mut reader.lod_tensors)
    }

    pub fn is_persistable(&self) -> bool {
        self.persistable.unwrap_or(false)
    }
}

/// A slot of an operator and the names of the variables in it.
pub type SlotArgs = (String, Vec<String>);

#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpDesc {
    pub op_type: String,
    pub inputs: Vec<SlotArgs>,
    pub outputs: Vec<SlotArgs>,
    pub attrs: AttrMap,
    pub is_target: Option<bool>,
    pub unknown: Vec<u8>,
}

fn slot<'a>(slots: &'a [SlotArgs], name: &str) -> Option<&'a [String]> {
    slots.iter().find(|(n, _)| n == name).map(|(_, args)| args.as_slice())
}

fn set_slot(slots: &mut Vec<SlotArgs>, name: &str, args: Vec<String>) {
    match slots.iter_mut().find(|(n, _)| n == name) {
        Some((_, old)) => *old = args,
        None => {
            // Paddle writes slots sorted by name.
            let at = slots.partition_point(|(n, _)| n.as_str() < name);
            slots.insert(at, (name.to_string(), args));
        }
    }
}

fn rename(slots: &mut [SlotArgs], old: &str, new: &str) {
    for arg in slots.iter_mut().flat_map(|(_, args)| args).filter(|a| *a == old) {
        *arg = new.to_string();
    }
}

/// Which parameter and gradient an optimizer's operator works on: pairs of names, renamed with the variables.
pub const OP_ROLE_VAR: &str = "op_role_var";

impl OpDesc {
    pub fn new(op_type: impl Into<String>) -> OpDesc {
        OpDesc { op_type: op_type.into(), ..OpDesc::default() }
    }

    /// The names in an input slot; `None` if the operator has no such slot.
    pub fn input(&self, name: &str) -> Option<&[String]> {
        slot(&self.inputs, name)
    }

    pub fn output(&self, name: &str) -> Option<&[String]> {
        slot(&self.outputs, name)
    }

    pub fn set_input(&mut self, name: &str, args: Vec<String>) {
        set_slot(&mut self.inputs, name, args);
    }

    pub fn set_output(&mut self, name: &str, args: Vec<String>) {
        set_slot(&mut self.outputs, name, args);
    }

    /// All variables that the operator reads, slot after slot.
    pub fn input_args(&self) -> impl Iterator<Item = &String> {
        self.inputs.iter().flat_map(|(_, args)| args)
    }

    pub fn output_args(&self) -> impl Iterator<Item = &String> {
        self.outputs.iter().flat_map(|(_, args)| args)
    }

    fn rename_role_var(&mut self, old: &str, new: &str) {
        if let Some(super::Attr::Strings(names)) = self.attrs.get_mut(OP_ROLE_VAR) {
            names.iter_mut().filter(|n| *n == old).for_each(|n| *n = new.to_string());
        }
    }

    pub fn rename_input(&mut self, old: &str, new: &str) {
        rename(&mut self.inputs, old, new);
        self.rename_role_var(old, new);
    }

    pub fn rename_output(&mut self, old: &str, new: &str) {
        rename(&mut self.outputs, old, new);
        self.rename_role_var(old, new);
    }

    /// Copies type, slots and attributes of another operator (not whether it is a target).
    pub fn copy_from(&mut self, other: &OpDesc) {
        self.op_type.clone_from(&other.op_type);
        self.inputs.clone_from(&other.inputs);
        self.outputs.clone_from(&other.outputs);
        self.attrs.clone_from(&other.attrs);
    }
}

/// The parent of the global block; also the forward block of a block that has none.
pub const NO_BLOCK: i32 = -1;

#[derive(Clone, Debug, PartialEq)]
pub struct BlockDesc {
    pub idx: i32,
    pub parent_idx: i32,
    pub forward_block_idx: Option<i32>,
    pub vars: Vec<VarDesc>,
    pub ops: Vec<OpDesc>,
    pub unknown: Vec<u8>,
}

impl BlockDesc {
    pub fn new(idx: i32, parent_idx: i32) -> BlockDesc {
        BlockDesc { idx, parent_idx, forward_block_idx: None, vars: Vec::new(), ops: Vec::new(), unknown: Vec::new() }
    }
}

/// ProgramDesc.version.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Version {
    pub version: Option<i64>,
    pub unknown: Vec<u8>,
}

/// ProgramDesc.op_version_map: versions of the operators' definitions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpVersionMap {
    pub pairs: Vec<OpVersion>,
    pub unknown: Vec<u8>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpVersion {
    pub op_name: String,
    pub version: i32,
    pub unknown: Vec<u8>,
}

/// 2.0.2 in Paddle's numbering (major * 1,000,000 + minor * 1,000 + patch).
pub const CURRENT_PROGRAM_VERSION: i64 = 2_000_002;

#[derive(Clone, Debug, PartialEq)]
pub struct ProgramDesc {
    pub blocks: Vec<BlockDesc>,
    pub version: Option<Version>,
    pub op_version_map: Option<OpVersionMap>,
    pub unknown: Vec<u8>,
}

impl Default for ProgramDesc {
    /// One empty global block.
    fn default() -> ProgramDesc {
        ProgramDesc {
            blocks: vec![BlockDesc::new(0, NO_BLOCK)],
            version: Some(Version { version: Some(CURRENT_PROGRAM_VERSION), unknown: Vec::new() }),
            op_version_map: None,
            unknown: Vec::new(),
        }
    }
}
