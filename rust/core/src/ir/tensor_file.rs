//! Paddle's tensor file format: the streams of LoDTensors and SelectedRows, one after the other in a combined file.
//! Little-endian. Plain values here; the caller creates tensors.

use super::codec::Message;
use super::desc::{TensorDesc, VarKind};
use crate::base::shape::checked_numel;
use crate::base::{DType, Dims, Result};
use crate::{ensure, err};
use std::io::{Read, Write};

/// Offsets of sequences, level by level.
pub type Lod = Vec<Vec<u64>>;

/// The header before a tensor's data.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorHeader {
    pub dtype: DType,
    pub dims: Dims,
    /// Length of the data that follows.
    pub bytes: usize,
}

/// Memory is allocated in steps of this size as data arrives, so that a damaged length allocates no more than the file
/// holds.
const STEP: usize = 1 << 24;

/// More levels or description bytes than any Paddle writes mean a file of another format.
const MAX_LOD_LEVELS: u64 = 1 << 10;
const MAX_DESC_BYTES: i32 = 1 << 16;

fn read_exact(r: &mut impl Read, buffer: &mut [u8], what: &str) -> Result<()> {
    r.read_exact(buffer).map_err(|e| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => err!(InvalidArgument, "the tensor file ends within {what}"),
        _ => e.into(),
    })
}

fn read_u64(r: &mut impl Read, what: &str) -> Result<u64> {
    let mut bytes = [0; 8];
    read_exact(r, &mut bytes, what)?;
    Ok(u64::from_le_bytes(bytes))
}

fn read_version(r: &mut impl Read, what: &str) -> Result<()> {
    let mut bytes = [0; 4];
    read_exact(r, &mut bytes, &format!("the version of {what}"))?;
    let version = u32::from_le_bytes(bytes);
    ensure!(
        version == 0,
        InvalidArgument,
        "{what} has the version {version}, only 0 can be read: this may not be a tensor file of Paddle"
    );
    Ok(())
}

/// Reads `n` bytes.
fn read_bytes(r: &mut impl Read, n: usize, what: &str) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(n.min(STEP));
    while out.len() < n {
        let have = out.len();
        out.resize(n.min(have + STEP), 0);
        read_exact(r, &mut out[have..], what)?;
    }
    Ok(out)
}

/// Reads `n` numbers of 8 bytes.
fn read_words<T>(r: &mut impl Read, n: u64, what: &str, from: fn([u8; 8]) -> T) -> Result<Vec<T>> {
    let bytes = usize::try_from(n).ok().and_then(|n| n.checked_mul(8)).filter(|&b| b <= isize::MAX as usize);
    let bytes = bytes.ok_or_else(|| err!(InvalidArgument, "the tensor file says that {what} are {n} numbers"))?;
    let data = read_bytes(r, bytes, what)?;
    let word = |c: &[u8]| {
        let mut w = [0; 8];
        w.copy_from_slice(c);
        from(w)
    };
    Ok(data.chunks_exact(8).map(word).collect())
}

fn read_tensor_header(r: &mut impl Read) -> Result<TensorHeader> {
    read_version(r, "a tensor")?;
    let mut size = [0; 4];
    read_exact(r, &mut size, "the size of a tensor's description")?;
    let size = i32::from_le_bytes(size);
    ensure!(
        (0..=MAX_DESC_BYTES).contains(&size),
        InvalidArgument,
        "the tensor file says that a tensor's description is {size} bytes long"
    );
    let desc = TensorDesc::decode(&read_bytes(r, size as usize, "a tensor's description")?)?;
    let kind = desc.data_type.unwrap_or(VarKind::BOOL);
    let dtype = kind.dtype().ok_or_else(|| err!(Unimplemented, "a tensor of element type {kind} in a file"))?;
    let bytes = checked_numel(&desc.dims)? * dtype.size();
    Ok(TensorHeader { dtype, dims: desc.dims.iter().copied().collect(), bytes })
}

fn write_tensor_header(out: &mut impl Write, dtype: DType, dims: &[i64]) -> Result<()> {
    out.write_all(&0u32.to_le_bytes())?;
    let desc = TensorDesc { data_type: Some(dtype.into()), dims: dims.to_vec(), unknown: Vec::new() }.to_bytes();
    out.write_all(&(desc.len() as i32).to_le_bytes())?;
    out.write_all(&desc)?;
    Ok(())
}

fn check_length(dtype: DType, dims: &[i64], bytes: usize) -> Result<()> {
    let expected = checked_numel(dims)? * dtype.size();
    ensure!(
        expected == bytes,
        InvalidArgument,
        "a tensor of shape {dims:?} and type {dtype} has {expected} bytes, but {bytes} were given to be written"
    );
    Ok(())
}

/// Writes a LoDTensor. `bytes` are its elements in order; `lod` holds offsets from 0, empty without LoD.
pub fn write_lod_tensor(
    dtype: DType,
    dims: &[i64],
    lod: &[impl AsRef<[u64]>],
    bytes: &[u8],
    out: &mut impl Write,
) -> Result<()> {
    check_length(dtype, dims, bytes.len())?;
    out.write_all(&0u32.to_le_bytes())?;
    out.write_all(&(lod.len() as u64).to_le_bytes())?;
    for level in lod {
        let level = level.as_ref();
        out.write_all(&(level.len() as u64 * 8).to_le_bytes())?;
        level.iter().try_for_each(|offset| out.write_all(&offset.to_le_bytes()))?;
    }
    write_tensor_header(out, dtype, dims)?;
    Ok(out.write_all(bytes)?)
}

/// Reads a LoDTensor up to its data; the caller reads the `bytes` of data next, into its own memory.
pub fn read_lod_tensor_header(r: &mut impl Read) -> Result<(TensorHeader, Lod)> {
    read_version(r, "a LoDTensor")?;
    let levels = read_u64(r, "the number of LoD levels")?;
    ensure!(levels <= MAX_LOD_LEVELS, InvalidArgument, "the tensor file says that a tensor has {levels} LoD levels");
    let mut lod = Lod::new();
    for _ in 0..levels {
        let bytes = read_u64(r, "the length of a LoD level")?;
        ensure!(bytes % 8 == 0, InvalidArgument, "the tensor file says that a LoD level is {bytes} bytes long");
        lod.push(read_words(r, bytes / 8, "a LoD level", u64::from_le_bytes)?);
    }
    Ok((read_tensor_header(r)?, lod))
}

/// Reads a whole LoDTensor: element type, shape, LoD and data.
#[cfg(test)]
pub fn read_lod_tensor(r: &mut impl Read) -> Result<(DType, Dims, Lod, Vec<u8>)> {
    let (header, lod) = read_lod_tensor_header(r)?;
    let data = read_bytes(r, header.bytes, "a tensor's data")?;
    Ok((header.dtype, header.dims, lod, data))
}

/// Writes SelectedRows: the row numbers within `height`, and their values (`dims[0]` rows).
pub fn write_selected_rows(
    rows: &[i64],
    height: i64,
    dtype: DType,
    dims: &[i64],
    bytes: &[u8],
    out: &mut impl Write,
) -> Result<()> {
    check_length(dtype, dims, bytes.len())?;
    out.write_all(&0u32.to_le_bytes())?;
    out.write_all(&(rows.len() as u64).to_le_bytes())?;
    rows.iter().try_for_each(|row| out.write_all(&row.to_le_bytes()))?;
    out.write_all(&height.to_le_bytes())?;
    write_tensor_header(out, dtype, dims)?;
    Ok(out.write_all(bytes)?)
}

/// Reads a SelectedRows up to its data: rows, height, and what follows.
pub fn read_selected_rows_header(r: &mut impl Read) -> Result<(Vec<i64>, i64, TensorHeader)> {
    read_version(r, "a SelectedRows")?;
    let n = read_u64(r, "the number of rows")?;
    let rows = read_words(r, n, "the rows", i64::from_le_bytes)?;
    let height = read_u64(r, "the height of a SelectedRows")? as i64;
    Ok((rows, height, read_tensor_header(r)?))
}

/// Reads a whole SelectedRows: rows, height, element type, shape and data of the values.
#[cfg(test)]
pub fn read_selected_rows(r: &mut impl Read) -> Result<(Vec<i64>, i64, DType, Dims, Vec<u8>)> {
    let (rows, height, header) = read_selected_rows_header(r)?;
    let data = read_bytes(r, header.bytes, "a tensor's data")?;
    Ok((rows, height, header.dtype, header.dims, data))
}
