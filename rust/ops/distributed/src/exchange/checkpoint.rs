//! The files that a server writes for checkpoint_notify. Trainers name a path; the server keeps it within its folder for
//! checkpoints (`FLAGS_ps_checkpoint_folder`; else its working folder), and replaces nothing but an earlier checkpoint.

use oar_core::base::Result;
use oar_core::ir::tensor_file::{read_lod_tensor_header, read_selected_rows_header};
use oar_core::{bail, ensure, err};
use oar_ps::protocol::limits;
use std::fs::{symlink_metadata, File};
use std::io::BufReader;
use std::path::{Component, Path, PathBuf};

const FLAG: &str = "FLAGS_ps_checkpoint_folder";

/// The server's folder for checkpoints.
fn folder() -> Result<PathBuf> {
    let given = limits::text(FLAG);
    let folder = if given.is_empty() { ".".to_string() } else { given };
    std::fs::canonicalize(&folder).map_err(|e| err!(NotFound, "checkpoint: the folder {folder} ({FLAG}): {e}"))
}

/// The place of a checkpoint in the server's folder. No part of it is a link.
pub fn place(given: &str) -> Result<PathBuf> {
    within(&folder()?, Path::new(given))
}

fn within(folder: &Path, given: &Path) -> Result<PathBuf> {
    let (shown, base) = (given.display(), folder.display());
    let inner = given.strip_prefix(folder).unwrap_or(given);
    let mut place = folder.to_path_buf();
    for part in inner.components() {
        match part {
            Component::Normal(name) => place.push(name),
            Component::CurDir => continue,
            _ => bail!(
                PermissionDenied,
                "checkpoint: {shown} is not within {base}, the folder of this server's checkpoints: give a path relative \
                 to it without '..', or start the server with another {FLAG}"
            ),
        }
        let is_link = symlink_metadata(&place).is_ok_and(|m| m.is_symlink());
        ensure!(
            !is_link,
            PermissionDenied,
            "checkpoint: {} is a symbolic link, which is not followed",
            place.display()
        );
    }
    ensure!(place != folder, InvalidArgument, "checkpoint: the path {shown} names no file");
    Ok(place)
}

/// Checks that a variable may be written there: nothing is there, or the checkpoint of a variable.
pub fn replaceable(place: &Path) -> Result<()> {
    check(place, |file| read_lod_tensor_header(file).is_ok())
}

/// As `replaceable`, for the folder of a table with these columns.
pub fn replaceable_table(place: &Path, columns: &[&str]) -> Result<()> {
    for column in columns {
        let one = Path::new(column).components().count() == 1 && !column.contains("..");
        ensure!(one, InvalidArgument, "checkpoint: the column {column:?} of a table names no file");
        check(&place.join(column), |file| read_selected_rows_header(file).is_ok())?;
    }
    Ok(())
}

fn check(path: &Path, is_checkpoint: impl Fn(&mut BufReader<File>) -> bool) -> Result<()> {
    let Ok(found) = symlink_metadata(path) else { return Ok(()) };
    let known = found.is_file() && File::open(path).is_ok_and(|f| is_checkpoint(&mut BufReader::new(f)));
    ensure!(
        known,
        AlreadyExists,
        "checkpoint: {} exists and is no checkpoint, which alone may be replaced",
        path.display()
    );
    Ok(())
}
