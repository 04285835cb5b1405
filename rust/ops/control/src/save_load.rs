//! save, load, save_combine, load_combine: Paddle's tensor files.

use oar_core::attrs;
use oar_core::base::{DType, Result};
use oar_core::ir::desc::VarKind;
use oar_core::ir::tensor_file;
use oar_core::op::attrs::Blob;
use oar_core::op::{Kernel, KernelContext, Op, SparseKernel, OP};
use oar_core::tensor::{Lod, SelectedRows, Tensor, Value};
use oar_core::{bail, ensure, err, slots};
use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

attrs! {
    pub struct SaveAttrs { overwrite: bool = true, save_as_fp16: bool = false, file_path: String }
    pub struct LoadAttrs { load_as_fp16: bool = false, file_path: String, seek: i64 = -1, shape: Vec<i64> = vec![] }
    pub struct SaveCombineAttrs {
        overwrite: bool = true, save_as_fp16: bool = false, file_path: String, save_to_memory: bool = false,
    }
    pub struct LoadCombineAttrs { load_as_fp16: bool = false, file_path: Blob, model_from_memory: bool = false }
}

slots! {
    // Output shapes are unknown until the file is read.
    mod save { X "X" => PATH "kLookupTablePath".dispensable().kernel_allocated() }
    mod load { => OUT "Out".kernel_allocated() }
    mod save_combine { X "X".duplicable() => Y "Y".dispensable().kernel_allocated() }
    mod load_combine { => OUT "Out".duplicable().kernel_allocated() }
}

fn as_half(t: &Tensor, half: bool) -> Result<Tensor> {
    if half && t.dtype() != DType::F16 {
        return oar_ops_common::broadcast::cast(t, DType::F16);
    }
    Ok(t.clone())
}

/// `fake_init` creates tensors without elements for tables on parameter servers.
fn has_elements(t: &Tensor) -> Result<()> {
    ensure!(t.has_bytes(), PreconditionNotMet, "{t:?} has no elements in memory and cannot be saved");
    Ok(())
}

fn write_tensor(t: &Tensor, half: bool, out: &mut impl Write) -> Result<()> {
    has_elements(t)?;
    let t = as_half(t, half)?;
    let lod: Vec<Vec<u64>> =
        t.lod.iter().flat_map(|l| l.iter()).map(|l| l.iter().map(|&n| n as u64).collect()).collect();
    tensor_file::write_lod_tensor(t.dtype(), t.dims(), &lod, t.bytes(), out)
}

fn read_tensor(r: &mut impl Read, half: bool) -> Result<Tensor> {
    let (header, lod) = tensor_file::read_lod_tensor_header(r)?;
    let t = read_data(r, &header)?;
    let lod: Lod = lod.into_iter().map(|l| l.into_iter().map(|n| n as usize).collect()).collect();
    as_half(&t.with_lod((!lod.is_empty()).then(|| Arc::new(lod))), half)
}

fn read_data(r: &mut impl Read, header: &tensor_file::TensorHeader) -> Result<Tensor> {
    // Read in pieces: a corrupt length must not cause a huge allocation.
    let mut bytes = Vec::new();
    let n = r.take(header.bytes as u64).read_to_end(&mut bytes)?;
    ensure!(n == header.bytes, InvalidArgument, "the tensor file ends within the data of a tensor");
    let mut t = Tensor::empty(header.dtype, &header.dims)?;
    t.bytes_mut()?.copy_from_slice(&bytes);
    t.normalise_bools()?;
    Ok(t)
}

/// A temporary file that replaces its target once it is complete. It is locked until then, which distinguishes it from
/// files left by killed processes.
struct TempFile {
    op: &'static str,
    out: BufWriter<File>,
    /// `None` if bytes are written directly to `path`, as for a pipe.
    part: Option<PathBuf>,
    path: PathBuf,
}

impl TempFile {
    fn create(op: &'static str, path: &str, overwrite: bool) -> Result<TempFile> {
        // Replace the target of a symbolic link, not the link.
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
        let old = std::fs::metadata(&path).ok();
        ensure!(
            overwrite || old.is_none(),
            PreconditionNotMet,
            "operator {op}: {} exists, and overwrite is set to false",
            path.display()
        );
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)
                .map_err(|e| err!(Unavailable, "operator {op}: cannot make folder {dir:?}: {e}"))?;
        }
        let special = old.as_ref().is_some_and(|old| !old.is_file());
        let opened = if special {
            File::options().write(true).open(&path).map(|file| (file, None))
        } else {
            remove_stale_parts(&path);
            create_locked(&path).map(|(file, part)| (file, Some(part)))
        };
        let (file, part) = opened
            .map_err(|e| err!(Unavailable, "operator {op}: cannot open {} to save variables: {e}", path.display()))?;
        if let (Some(old), Some(_)) = (old, &part) {
            // Not every filesystem supports permissions.
            let _ = file.set_permissions(old.permissions());
        }
        Ok(TempFile { op, out: BufWriter::with_capacity(1 << 20, file), part, path })
    }

    fn finish(mut self) -> Result<()> {
        let mut moved = self.out.flush();
        if let Some(part) = &self.part {
            moved = moved.and_then(|()| self.out.get_ref().sync_all()).and_then(|()| std::fs::rename(part, &self.path));
        }
        moved.map_err(|e| err!(Unavailable, "operator {}: cannot write {}: {e}", self.op, self.path.display()))?;
        self.part = None;
        Ok(())
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            let _ = std::fs::remove_file(part);
        }
    }
}

/// A new file `<path>.<process>.<number>.part`, locked.
fn create_locked(path: &Path) -> std::io::Result<(File, PathBuf)> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    loop {
        let mut part = path.as_os_str().to_owned();
        part.push(format!(".{}.{}.part", std::process::id(), NUMBER.fetch_add(1, Relaxed)));
        let file = match File::options().write(true).create_new(true).open(&part) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => continue,
            opened => opened?,
        };
        // Filesystems without locks do not report stale files either.
        let _ = file.try_lock();
        // Another process may remove the file between its creation and its lock.
        if Path::new(&part).exists() {
            return Ok((file, part.into()));
        }
    }
}

/// Removes temporary files of `path` left by killed processes: those that are not locked.
fn remove_stale_parts(path: &Path) {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str())) else { return };
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let found = entry.file_name();
        let rest = found.to_str().and_then(|f| f.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(".part"));
        if !rest.is_some_and(|numbers| numbers.bytes().all(|b| b == b'.' || b.is_ascii_digit())) {
            continue;
        }
        if File::options().write(true).open(entry.path()).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn open(op: &str, path: &str) -> Result<BufReader<File>> {
    let f = File::open(path).map_err(|e| {
        err!(
            Unavailable,
            "operator {op}: file {path} can not be opened ({e}); does the model exist and is it complete?"
        )
    })?;
    ensure!(f.metadata().is_ok_and(|m| m.is_file()), Unavailable, "operator {op}: {path} is not a file");
    Ok(BufReader::with_capacity(1 << 20, f))
}

fn save(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<SaveAttrs>();
    let value = cx.value(save::X)?;
    let mut file = TempFile::create(cx.op.name, &a.file_path, a.overwrite)?;
    match value {
        Value::Dense(t) => write_tensor(t, a.save_as_fp16, &mut file.out)?,
        Value::Rows(r) => {
            let v = &r.value;
            has_elements(v)?;
            tensor_file::write_selected_rows(&r.rows, r.height, v.dtype(), v.dims(), v.bytes(), &mut file.out)?
        }
        other => bail!(InvalidArgument, "operator save: {} cannot be saved", other.what()),
    }
    file.finish()
}

/// The declared kind of an output variable.
fn is_rows(cx: &KernelContext, name: Option<&String>) -> bool {
    let Some((frame, name)) = cx.env.frame().zip(name) else { return false };
    let var = frame.program.blocks().iter().find_map(|b| b.find_var(name));
    var.is_some_and(|v| v.kind() == VarKind::SELECTED_ROWS)
}

fn load(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<LoadAttrs>();
    let mut r = open(cx.op.name, &a.file_path)?;
    if is_rows(cx, cx.env.names("Out").first()) {
        let (rows, height, header) = tensor_file::read_selected_rows_header(&mut r)?;
        let value = read_data(&mut r, &header)?;
        cx.set(load::OUT, SelectedRows { rows: Arc::new(rows), height, value });
        return Ok(());
    }
    let t = read_tensor(&mut r, a.load_as_fp16)?;
    if a.seek == -1 {
        cx.set(load::OUT, t);
        return Ok(());
    }
    // Read the given shape from element `seek` on.
    let n = oar_core::base::shape::checked_numel(&a.shape)?;
    ensure!(
        a.seek >= 0 && (a.seek as usize).checked_add(n).is_some_and(|end| end <= t.numel()),
        InvalidArgument,
        "operator load: a part of shape {:?} from element {} on is outside the tensor of {} elements",
        a.shape,
        a.seek,
        t.numel()
    );
    cx.set(load::OUT, t.view(a.seek as usize, &a.shape));
    Ok(())
}

fn save_combine(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<SaveCombineAttrs>();
    let tensors = cx.inputs(save_combine::X)?;
    ensure!(!tensors.is_empty(), InvalidArgument, "operator save_combine: there are no variables to be saved");
    if a.save_to_memory {
        let mut bytes = Vec::new();
        tensors.iter().try_for_each(|t| write_tensor(t, a.save_as_fp16, &mut bytes))?;
        cx.set(save_combine::Y, Value::Bytes(Arc::new(bytes)));
        return Ok(());
    }
    let mut file = TempFile::create(cx.op.name, &a.file_path, a.overwrite)?;
    tensors.iter().try_for_each(|t| write_tensor(t, a.save_as_fp16, &mut file.out))?;
    file.finish()
}

fn load_combine(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<LoadCombineAttrs>();
    ensure!(
        cx.n_outs(load_combine::OUT) > 0,
        InvalidArgument,
        "operator load_combine: there are no variables to be loaded"
    );
    if a.model_from_memory {
        // With model_from_memory the attribute holds the file's content.
        ensure!(!a.file_path.0.is_empty(), Unavailable, "operator load_combine: the model in memory is empty");
        return load_all(cx, &mut &a.file_path.0[..], "the model in memory");
    }
    let path = std::str::from_utf8(&a.file_path.0)
        .map_err(|_| err!(InvalidArgument, "operator load_combine: file_path is not UTF-8"))?;
    load_all(cx, &mut open(cx.op.name, path)?, path)
}

fn load_all(cx: &mut KernelContext, r: &mut impl Read, what: &str) -> Result<()> {
    let half = cx.attrs::<LoadCombineAttrs>().load_as_fp16;
    let n = cx.n_outs(load_combine::OUT);
    for i in 0..n {
        let t = read_tensor(r, half).map_err(|e| e.context(format!("variable {i} of {n} in {what}")))?;
        cx.set_nth(load_combine::OUT, i, t);
    }
    let rest = r.read(&mut [0])?;
    ensure!(
        rest == 0,
        Unavailable,
        "operator load_combine: {what} holds more than the {n} requested variables: not allowed to load a part of it"
    );
    Ok(())
}

pub static SAVE: Op = Op {
    name: "save",
    inputs: save::INS,
    outputs: save::OUTS,
    attrs: SaveAttrs::FIELDS,
    sparse_kernel: SparseKernel::Same,
    cpu: Kernel::Host(save),
    ..OP
};
pub static LOAD: Op = Op { name: "load", outputs: load::OUTS, attrs: LoadAttrs::FIELDS, cpu: Kernel::Host(load), ..OP };
pub static SAVE_COMBINE: Op = Op {
    name: "save_combine",
    inputs: save_combine::INS,
    outputs: save_combine::OUTS,
    attrs: SaveCombineAttrs::FIELDS,
    cpu: Kernel::Host(save_combine),
    ..OP
};
pub static LOAD_COMBINE: Op = Op {
    name: "load_combine",
    outputs: load_combine::OUTS,
    attrs: LoadCombineAttrs::FIELDS,
    cpu: Kernel::Host(load_combine),
    ..OP
};

pub static TABLE: &[&Op] = &[&SAVE, &LOAD, &SAVE_COMBINE, &LOAD_COMBINE];
