//! `_core.tensor_file_entries`: the headers of a file of tensors.

use crate::error::OrRaise;
use crate::program::desc::var_type;
use oar_core::base::{Dims, Result};
use oar_core::ir::desc::VarKind;
use oar_core::ir::tensor_file::read_lod_tensor_header;
use oar_core::{ensure, err};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek};

fn entries(r: &mut (impl Read + Seek), length: u64) -> Result<Vec<(VarKind, Dims)>> {
    let mut found = Vec::new();
    while r.stream_position()? < length {
        let header = read_lod_tensor_header(r).map_err(|e| e.context(format!("tensor {} of the file", found.len())))?.0;
        let rest = length.saturating_sub(r.stream_position()?);
        let bytes = header.bytes as u64;
        ensure!(bytes <= rest, InvalidArgument, "the tensor file ends within the data of tensor {}", found.len());
        r.seek_relative(bytes as i64)?;
        found.push((header.dtype.into(), header.dims));
    }
    Ok(found)
}

#[derive(FromPyObject)]
enum Source {
    Bytes(PyBackedBytes),
    Path(std::path::PathBuf),
}

/// The element type and shape of each tensor in a file of `save` or `save_combine`, given by its path or as bytes.
#[pyfunction]
fn tensor_file_entries(py: Python<'_>, source: Source) -> PyResult<Vec<(Py<PyAny>, Vec<i64>)>> {
    let found = crate::gil::detached(py, || match source {
        Source::Bytes(bytes) => entries(&mut Cursor::new(&bytes[..]), bytes.len() as u64),
        Source::Path(path) => {
            let opened = File::open(&path).and_then(|file| Ok((file.metadata()?, file)));
            let (meta, file) =
                opened.map_err(|e| err!(Unavailable, "file {} can not be opened: {e}", path.display()))?;
            ensure!(meta.is_file(), Unavailable, "{} is not a file", path.display());
            entries(&mut BufReader::new(file), meta.len())
        }
    });
    let found = found.or_raise()?;
    found.into_iter().map(|(kind, dims)| Ok((var_type(py, kind)?, dims.to_vec()))).collect()
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(tensor_file_entries, m)?)
}
