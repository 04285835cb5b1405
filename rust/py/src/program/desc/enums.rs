//! `VarDesc.VarType` and `AttrType`: classes that behave as pybind's enumerations do.

use numpy::PyArrayDescr;
use oar_core::base::DType;
use oar_core::ir::{AttrType, VarKind};
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyType};
use pyo3::IntoPyObjectExt;

macro_rules! enumeration {
    ($(#[$doc:meta])* $class:ident, $name:literal, $qualname:literal, $equal:expr, $rows:expr) => {
        $(#[$doc])*
        #[pyclass(name = $name, module = "paddle._core", frozen)]
        pub struct $class {
            value: i32,
        }

        impl $class {
            /// Names and numbers, in the order in which Paddle lists them.
            fn rows() -> Vec<(&'static str, i32)> {
                $rows
            }

            pub fn value(&self) -> i32 {
                self.value
            }

            fn member(&self) -> &'static str {
                Self::rows().into_iter().find(|(_, value)| *value == self.value).map_or("???", |(name, _)| name)
            }

            /// Sets the members on the class.
            fn fill(ty: &Bound<'_, PyType>) -> PyResult<()> {
                ty.setattr("__qualname__", $qualname)?;
                let members = PyDict::new(ty.py());
                for (name, value) in Self::rows() {
                    let member = Self::object(ty.py(), value)?;
                    ty.setattr(name, &member)?;
                    members.set_item(name, member)?;
                }
                ty.setattr("__members__", members)
            }

            /// The object for a number, the same each time.
            pub fn object(py: Python<'_>, value: i32) -> PyResult<Py<$class>> {
                static MEMBERS: PyOnceLock<Vec<(i32, Py<$class>)>> = PyOnceLock::new();
                let members = MEMBERS.get_or_try_init(py, || {
                    $class::rows()
                        .into_iter()
                        .map(|(_, value)| Ok((value, Py::new(py, $class { value })?)))
                        .collect::<PyResult<Vec<_>>>()
                })?;
                match members.iter().find(|(v, _)| *v == value) {
                    Some((_, object)) => Ok(object.clone_ref(py)),
                    None => Py::new(py, $class { value }),
                }
            }
        }

        #[pymethods]
        impl $class {
            #[new]
            fn new(value: i32) -> $class {
                $class { value }
            }

            #[getter]
            fn name(&self) -> &'static str {
                self.member()
            }

            fn __repr__(&self) -> String {
                format!(concat!($name, ".{}"), self.member())
            }

            fn __int__(&self) -> i32 {
                self.value
            }

            fn __index__(&self) -> i32 {
                self.value
            }

            fn __hash__(&self) -> isize {
                self.value as isize
            }

            fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
                match other.cast_exact::<$class>() {
                    Ok(other) => other.get().value == self.value,
                    // Equal to its number, as an unscoped C++ enumeration is.
                    Err(_) if other.is_instance_of::<pyo3::types::PyInt>() => other.eq(self.value).unwrap_or(false),
                    Err(_) => $equal(self.value, other),
                }
            }

            fn __reduce__(slf: Bound<'_, Self>) -> (Bound<'_, PyType>, (i32,)) {
                (slf.get_type(), (slf.get().value,))
            }
        }
    };
}

enumeration! {
    /// The kind of a variable, or the type of its elements.
    PyVarType, "VarType", "VarDesc.VarType", names_element_type,
    VarKind::NAMES
        .iter()
        .filter(|(kind, _)| ![VarKind::SIZE_T, VarKind::TUPLE].contains(kind))
        .map(|(kind, name)| (*name, kind.0))
        .collect()
}

enumeration! {
    /// The type of an operator's attribute.
    PyAttrType, "AttrType", "AttrType", names_nothing,
    vec![
        ("INT", AttrType::Int as i32),
        ("INTS", AttrType::Ints as i32),
        ("LONG", AttrType::Long as i32),
        ("LONGS", AttrType::Longs as i32),
        ("FLOAT", AttrType::Float as i32),
        ("FLOATS", AttrType::Floats as i32),
        ("STRING", AttrType::String as i32),
        ("STRINGS", AttrType::Strings as i32),
        ("BOOL", AttrType::Boolean as i32),
        ("BOOLS", AttrType::Booleans as i32),
        ("BLOCK", AttrType::Block as i32),
        ("BLOCKS", AttrType::Blocks as i32),
    ]
}

/// Attribute types equal no other objects.
fn names_nothing(_: i32, _: &Bound<'_, PyAny>) -> bool {
    false
}

/// Whether `other` is the name of the element type `value` ("float32"), or its numpy type (`np.float32`,
/// `np.dtype("float32")`).
fn names_element_type(value: i32, other: &Bound<'_, PyAny>) -> bool {
    let Some(dtype) = DType::from_proto(value) else { return false };
    if let Ok(name) = other.cast::<PyString>() {
        return name == dtype.name();
    }
    if !(other.is_instance_of::<PyType>() || other.is_instance_of::<PyArrayDescr>()) {
        return false;
    }
    // A class that is no numpy type has no such attribute, or converts to the type `object`.
    let descr = PyArrayDescr::new(other.py(), other.clone());
    descr.and_then(|d| d.getattr("name")).is_ok_and(|name| name.eq(dtype.name()).unwrap_or(false))
}

impl PyVarType {
    pub fn kind(&self) -> VarKind {
        VarKind(self.value)
    }
}

/// The Python object for a kind of variable or an element type.
pub fn var_type(py: Python<'_>, kind: VarKind) -> PyResult<Py<PyAny>> {
    PyVarType::object(py, kind.0)?.into_py_any(py)
}

/// Adds the enumerations; VarType is an attribute of the class of variables.
pub(super) fn register(m: &Bound<'_, PyModule>, var_desc: &Bound<'_, PyType>) -> PyResult<()> {
    let py = m.py();
    let var_type = py.get_type::<PyVarType>();
    PyVarType::fill(&var_type)?;
    if var_desc.getattr("VarType").is_ok_and(|have| !have.is(&var_type)) {
        return Err(PyAttributeError::new_err("VarDesc.VarType is taken"));
    }
    var_desc.setattr("VarType", var_type)?;
    m.add_class::<PyAttrType>()?;
    PyAttrType::fill(&py.get_type::<PyAttrType>())
}
