//! What a variable can hold.

use super::Tensor;
use crate::bail;
use crate::base::Result;
use std::any::Any;
use std::sync::Arc;

/// Rows of a tall matrix: `value[i]` is row `rows[i]` of `height`. A row may occur more than once (its values add up).
#[derive(Clone, Debug)]
pub struct SelectedRows {
    pub rows: Arc<Vec<i64>>,
    pub height: i64,
    pub value: Tensor,
}

/// The value of a variable or of a slot.
#[derive(Clone, Default)]
pub enum Value {
    /// Absent: an optional slot without variable, a variable that was never written.
    #[default]
    None,
    Dense(Tensor),
    /// Boxed: values are moved often, and this variant would be the largest.
    Rows(Box<SelectedRows>),
    /// LOD_TENSOR_ARRAY.
    Array(Arc<Vec<Value>>),
    /// STEP_SCOPES and other values that only one family of operators understands.
    Opaque(Arc<dyn Any + Send + Sync>),
    Bytes(Arc<Vec<u8>>),
    Strings(Arc<Vec<String>>),
}

impl Value {
    pub fn is_none(&self) -> bool {
        matches!(self, Value::None)
    }

    pub fn what(&self) -> &'static str {
        match self {
            Value::None => "an uninitialised variable",
            Value::Dense(_) => "a LoDTensor",
            Value::Rows(_) => "SelectedRows",
            Value::Array(_) => "a LoDTensorArray",
            Value::Opaque(_) => "an internal value",
            Value::Bytes(_) => "bytes",
            Value::Strings(_) => "strings",
        }
    }

    pub fn dense(&self) -> Result<&Tensor> {
        match self {
            Value::Dense(t) => Ok(t),
            other => bail!(InvalidArgument, "expected a LoDTensor, got {}", other.what()),
        }
    }

    /// The tensor that holds the elements: of a dense tensor or of SelectedRows.
    pub fn elements(&self) -> Option<&Tensor> {
        match self {
            Value::Dense(t) => Some(t),
            Value::Rows(r) => Some(&r.value),
            _ => None,
        }
    }

    /// The same value, sharing its bytes; see [`Tensor::share`].
    pub fn share(&self) -> Result<Value> {
        Ok(match self {
            Value::Dense(t) => Value::Dense(t.share()?),
            Value::Rows(r) => Value::from(SelectedRows { value: r.value.share()?, ..SelectedRows::clone(r) }),
            other => other.clone(),
        })
    }

    pub fn as_dense(&self) -> Option<&Tensor> {
        match self {
            Value::Dense(t) => Some(t),
            _ => None,
        }
    }
}

impl From<SelectedRows> for Value {
    fn from(r: SelectedRows) -> Value {
        Value::Rows(Box::new(r))
    }
}

impl From<Tensor> for Value {
    fn from(t: Tensor) -> Value {
        Value::Dense(t)
    }
}
